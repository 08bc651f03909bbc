// Experts' weights times the rows that are routed to them, on Hopper (kernels/matmul_hopper_body.h).

#include "gpu/kernels/matmul_hopper_body.h"

namespace rocmforge::gpu::RF_KERNELS {

#define RF_HOPPER_EXPERTS_OF(name, Block, rows)                                               \
  RF_HOPPER_KERNEL_EARLY(experts_hopper_##name##_##rows, HopperExpertsArgs, kHopperThreads) { \
    hopper_matmul<Block, rows, true>(args.product, &args);                                    \
  }
#define RF_HOPPER_EXPERTS(name, Block)  \
  RF_HOPPER_EXPERTS_OF(name, Block, 8)  \
  RF_HOPPER_EXPERTS_OF(name, Block, 16) \
  RF_HOPPER_EXPERTS_OF(name, Block, 64) \
  RF_HOPPER_EXPERTS_OF(name, Block, 128)
RF_INTEGER_FORMATS(RF_HOPPER_EXPERTS)
RF_HALF_FORMATS(RF_HOPPER_EXPERTS)

}  // namespace rocmforge::gpu::RF_KERNELS
