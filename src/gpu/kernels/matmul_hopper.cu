// Weights times two and more rows, on Hopper (kernels/matmul_hopper_body.h).

#include "gpu/kernels/matmul_hopper_body.h"

namespace rocmforge::gpu::RF_KERNELS {

#define RF_HOPPER_MATMUL(name, Block)                                                    \
  RF_HOPPER_KERNEL_EARLY(matmul_hopper_##name##_8, HopperMatmulArgs, kHopperThreads) {   \
    hopper_matmul<Block, 8>(args);                                                       \
  }                                                                                      \
  RF_HOPPER_KERNEL_EARLY(matmul_hopper_##name##_16, HopperMatmulArgs, kHopperThreads) {  \
    hopper_matmul<Block, 16>(args);                                                      \
  }                                                                                      \
  RF_HOPPER_KERNEL_EARLY(matmul_hopper_##name##_64, HopperMatmulArgs, kHopperThreads) {  \
    hopper_matmul<Block, 64>(args);                                                      \
  }                                                                                      \
  RF_HOPPER_KERNEL_EARLY(matmul_hopper_##name##_128, HopperMatmulArgs, kHopperThreads) { \
    hopper_matmul<Block, 128>(args);                                                     \
  }
RF_INTEGER_FORMATS(RF_HOPPER_MATMUL)
RF_HALF_FORMATS(RF_HOPPER_MATMUL)

}  // namespace rocmforge::gpu::RF_KERNELS
