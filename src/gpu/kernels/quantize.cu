// Rows of f32 to 8-bit integers. 32 lanes share a scale: the largest magnitude becomes 127. A group with a NaN or an
// infinity gets NaN as its scale, so that it shows in every output.

#include "gpu/runtime.h"

#include "gpu/kernels/quantize.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(quantize, QuantizeArgs, kQuantizeThreads) {
  const uint64_t row = block_x();
  const uint32_t column = block_y() * kQuantizeThreads + thread_index();
  const bool inside = column < args.width;
  const float x = inside ? args.x[row * args.width + column] : 0.0f;

  // As bits: NaN above infinity above every number.
  uint32_t largest = float_to_bits(x) & 0x7FFFFFFFu;
  for (uint32_t mask = 16; mask > 0; mask /= 2) {
    const uint32_t other = shuffle_xor(largest, mask);
    largest = other > largest ? other : largest;
  }
  const bool finite = largest < 0x7F800000u;
  float scale = finite ? bits_to_float(largest) / 127.0f : bits_to_float(0x7FC00000u);
  int q = 0;
  if (finite && scale >= 0x1p-100f) {
    q = static_cast<int>(round_f32(x * (1.0f / scale)));
  } else if (finite) {
    scale = 0.0f;
  }
  int sum = q;
  for (uint32_t mask = 8; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (!inside) return;
  args.q[row * args.width + column] = static_cast<int8_t>(q);
  ActivationScale& out = args.scales[(row * args.width + column) / 32];
  if (column % 32 == 0) out.scale = scale;
  if (column % 16 == 0) out.sums[column % 32 / 16] = static_cast<int16_t>(sum);
}

}  // namespace rocmforge::gpu::RF_KERNELS
