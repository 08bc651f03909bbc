// Reports the wave width of the code that was loaded for this device: a fat binary holds code for both widths, so the
// host cannot know before the kernel runs.

#include "gpu/runtime.h"

#include "gpu/kernels/target.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(describe_target, TargetArgs, kTargetThreads) {
  if (thread_index() != 0) return;
  args.out->wave = kWave;
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

}  // namespace rocmforge::gpu::RF_KERNELS
