#pragma once
// Quantizes one element of a row to 8 bits, for kernels that compute a row and quantize it in the same launch.

#include "gpu/kernels/quantize.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// 32 lanes hold 32 neighbouring elements and share a scale: the largest magnitude becomes 127. A group with a NaN or an
// infinity gets NaN as its scale, so that every output shows it. Every lane of the wave takes part; a group is entirely
// inside or entirely outside. REQUIRES: `element` mod 32 is the lane's index in its group
RF_DEVICE void quantize_lane(int8_t* to, ActivationScale* scales, uint64_t element, float x, bool inside) {
  // Compared as bits: NaN above infinity above every number.
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
  to[element] = static_cast<int8_t>(q);
  ActivationScale& out = scales[element / 32];
  if (element % 32 == 0) out.scale = scale;
  if (element % 16 == 0) out.sums[element % 32 / 16] = static_cast<int16_t>(sum);
}

}  // namespace rocmforge::gpu::RF_KERNELS
