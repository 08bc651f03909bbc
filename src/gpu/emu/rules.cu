// Kernels for the tests of the emulation: each does one thing of the language, some of them wrongly on purpose.

#include "gpu/runtime.h"

#include "gpu/emu/rules.h"
#include "gpu/fragment/fragment.h"
#include "gpu/kernels/self_test.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(sum_block, RulesArgs, kRulesThreads) {
  RF_SHARED(float[kRulesThreads / 32], partial);
  const float v = args.in[block_x() * kRulesThreads + thread_index()];
  const float total = block_sum<kRulesThreads>(v, partial);
  if (thread_index() == 0) args.out[block_x()] = total;
}

// Every thread writes, every thread reads its opposite.
template <bool kWithBarrier>
RF_DEVICE void reverse(const RulesArgs& args) {
  RF_SHARED(float[kRulesThreads], all);
  all[thread_index()] = args.in[thread_index()];
  if (kWithBarrier) sync_block();
  args.out[thread_index()] = all[kRulesThreads - 1 - thread_index()];
}
RF_KERNEL(reverse_with_barrier, RulesArgs, kRulesThreads) {
  reverse<true>(args);
}
RF_KERNEL(reverse_without_barrier, RulesArgs, kRulesThreads) {
  reverse<false>(args);
}

RF_KERNEL_EARLY(reverse_in_dynamic, RulesArgs, kRulesThreads) {
  RF_DYNAMIC_SHARED(float, all);
  wait_for_inputs();
  all[thread_index()] = args.in[thread_index()];
  sync_block();
  let_next_begin();
  args.out[thread_index()] = all[kRulesThreads - 1 - thread_index()];
}

RF_KERNEL(count_odd, RulesArgs, kRulesThreads) {
  const uint64_t odd = ballot((static_cast<int>(args.in[thread_index()]) & 1) != 0);
  if (lane() == 0) atomic_add(args.out, static_cast<float>(__builtin_popcountll(odd)));
  args.out[1 + thread_index()] = shuffle(args.in[thread_index()], lane() + 3);
}

RF_KERNEL(shuffle_in_branch, RulesArgs, kRulesThreads) {
  float v = args.in[thread_index()];
  if (lane() < 3) v = shuffle_xor(v, 8);
  args.out[thread_index()] = v;
}
RF_KERNEL(barrier_in_branch, RulesArgs, kRulesThreads) {
  if (thread_index() < kWave) {
    sync_block();
  } else {
    sync_block();
  }
}
RF_KERNEL(past_shared_memory, RulesArgs, kRulesThreads) {
  RF_SHARED(float[kRulesThreads], all);
  all[thread_index() + 1] = 1;
}
RF_KERNEL(past_dynamic_shared, RulesArgs, kRulesThreads) {
  RF_DYNAMIC_SHARED(float, all);
  all[thread_index() + 1] = 1;
}
RF_KERNEL_EARLY(without_wait, RulesArgs, kRulesThreads) {
  let_next_begin();
  args.out[thread_index()] = args.in[thread_index()];
}
RF_KERNEL(past_global_memory, RulesArgs, kRulesThreads) {
  args.out[thread_index() + 1] = 1;
}
RF_KERNEL(unaligned_load, RulesArgs, kRulesThreads) {
  args.out[0] = static_cast<float>(load16(args.in + 1).v[0]);
}

// out (16 x 16) = a * b^T over 32 deep, in `in`: a (16 rows of 32) and b (16 rows of 32).
template <class T, class Narrow>
RF_DEVICE void fragment_product(const RulesArgs& args, Narrow to_narrow) {
  struct Tiles {
    alignas(16) uint16_t a[16][32], b[16][32];
  };
  RF_SHARED(Tiles, tiles);
  for (uint32_t i = thread_index(); i < 512; i += kRulesThreads) {
    tiles.a[i / 32][i % 32] = to_narrow(args.in[i]).bits;
    tiles.b[i / 32][i % 32] = to_narrow(args.in[512 + i]).bits;
  }
  sync_block();
  if (wave() != 0) return;
  using F = Fragment<T>;
  typename F::C c{};
  for (uint32_t k = 0; k < 32; k += 16) {
    typename F::A a;
    typename F::B b;
    F::load_a(a, reinterpret_cast<const T*>(&tiles.a[0][k]), 32);
    F::load_b(b, reinterpret_cast<const T*>(&tiles.b[0][k]), 32);
    F::multiply(c, a, b);
  }
  for (uint32_t i = 0; i < F::kPerLane; i++) args.out[F::row(i) * 16 + F::column(i)] = c.v[i];
}
RF_KERNEL(fragment_f16, RulesArgs, kRulesThreads) {
  fragment_product<F16>(args, [](float v) { return narrow(v); });
}
// As the self-test's kernel, with rows and columns of the result exchanged: a layout that is not the hardware's.
RF_KERNEL(fragments_transposed, TryFragmentsArgs, kTryFragmentsThreads) {
  if (wave() != 0) return;
  using F = Fragment<F16>;
  typename F::A a;
  typename F::B b;
  typename F::C c{};
  F::load_a(a, reinterpret_cast<const F16*>(args.a), 16);
  F::load_b(b, reinterpret_cast<const F16*>(args.b), 16);
  F::multiply(c, a, b);
  for (uint32_t i = 0; i < F::kPerLane; i++) args.out[F::column(i) * 16 + F::row(i)] = c.v[i];
}
// A block that others come after takes itself for the last one.
RF_KERNEL(meet_too_early, MeetArgs, kMeetThreads) {
  RF_SHARED(uint32_t, n_before);
  const uint64_t mine = static_cast<uint64_t>(block_x()) * kMeetThreads + thread_index();
  args.numbers[mine] = meet_number(block_x(), thread_index());
  if (!is_last_to_arrive(args.counter, args.n_blocks / 2, &n_before)) return;
  uint32_t sum = 0;
  for (uint32_t b = 0; b < args.n_blocks; b++) sum += args.numbers[b * kMeetThreads + thread_index()];
  args.sums[thread_index()] = sum;
}
RF_KERNEL(fragment_bf16, RulesArgs, kRulesThreads) {
  fragment_product<Bf16>(args, [](float v) { return to_bf16(v); });
}

}  // namespace rocmforge::gpu::RF_KERNELS
