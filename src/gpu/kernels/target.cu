// Reports the wave width of the code that was loaded for this device: a fat binary holds code for both widths, so the
// host cannot know before the kernel runs. The other kernels are those of the self-test.

#include "gpu/runtime.h"

#include "gpu/fragment/fragment.h"
#include "gpu/kernels/self_test.h"
#include "gpu/kernels/target.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(describe_target, TargetArgs, kTargetThreads) {
  if (thread_index() != 0) return;
  args.out->wave = kWave;
  args.out->has_matrix_unit = Fragment<F16>::kHasMatrixUnit ? 1 : 0;
  args.out->tile_order = Fragment<F16>::kOrder;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  args.out->has_hopper = 1;
#else
  args.out->has_hopper = 0;
#endif
#if defined(__CUDACC__)
  args.out->has_mma = 1;
#elif defined(__HIP__)
  args.out->has_mma = 0;
#else
  constexpr auto kKind = emu::FragmentKind::RF_EMU_FRAGMENT;
  args.out->has_mma = kKind == emu::FragmentKind::mma ? 1 : 0;
#endif
}

template <class T>
RF_DEVICE void try_fragments(const TryFragmentsArgs& args) {
  if (wave() != 0) return;
  using F = Fragment<T>;
  typename F::A a;
  typename F::B b;
  typename F::C c{};
  F::load_a(a, reinterpret_cast<const T*>(args.a), 16);
  F::load_b(b, reinterpret_cast<const T*>(args.b), 16);
  F::multiply(c, a, b);
  RF_UNROLL
  for (uint32_t i = 0; i < F::kPerLane; i++) args.out[F::row(i) * 16 + F::column(i)] = c.v[i];
}
RF_KERNEL(try_fragments_f16, TryFragmentsArgs, kTryFragmentsThreads) {
  try_fragments<F16>(args);
}
RF_KERNEL(try_fragments_bf16, TryFragmentsArgs, kTryFragmentsThreads) {
  try_fragments<Bf16>(args);
}

RF_KERNEL(meet, MeetArgs, kMeetThreads) {
  RF_SHARED(uint32_t, n_before);
  const uint32_t thread = thread_index();
  args.numbers[static_cast<uint64_t>(block_x()) * kMeetThreads + thread] = block_x() * 7 + thread;  // meet_number()
  if (!is_last_to_arrive(args.counter, args.n_blocks, &n_before)) return;
  uint32_t sum = 0;
  for (uint32_t b = 0; b < args.n_blocks; b++) sum += args.numbers[static_cast<uint64_t>(b) * kMeetThreads + thread];
  args.sums[thread] = sum;
}

}  // namespace rocmforge::gpu::RF_KERNELS
