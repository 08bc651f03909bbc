// Rows of f32 to 8-bit integers.

#include "gpu/runtime.h"

#include "gpu/kernels/quantize_lane.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(quantize, QuantizeArgs, kQuantizeThreads) {
  const uint32_t column = block_y() * kQuantizeThreads + thread_index();
  const bool inside = column < args.width;
  const uint64_t element = static_cast<uint64_t>(block_x()) * args.width + column;
  quantize_lane(args.q, args.scales, element, inside ? args.x[element] : 0.0f, inside);
}

}  // namespace rocmforge::gpu::RF_KERNELS
