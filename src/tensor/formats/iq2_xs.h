#pragma once
// IQ2_XS: 256 weights in 74 bytes (2.3125 bits each). Codebook of 512 vectors of 8, scale per 16 weights.
//
//   d          f16        scale of the block
//   qs[32]     16 bits    weights 8i .. 8i+7: bits 0..8 the codebook index, 9..15 the signs
//   scales[8]  bytes      per 32 weights: low nibble the scale s of the first 16, high nibble of the last 16
//
//   weight = d * (2 s + 1) / 8 * (+-magnitude),   magnitude 8, 25 or 43

#include "tensor/formats/iq_levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq2Xs {
  static constexpr int kElements = 256;

  F16 d;
  uint16_t qs[32];
  uint8_t scales[8];
};
static_assert(sizeof(Iq2Xs) == 74);

RF_HOST_DEVICE inline void decode(float* to, const Iq2Xs& block) {  // to: 256
  const float d = to_float(block.d);
  for (int i = 0; i < 16; i++) {
    const float scale = d * static_cast<float>(2 * (block.scales[i / 2] >> 4 * (i % 2) & 0xF) + 1) * 0.125f;
    for (int k = 0; k < 2; k++, to += 8) {
      const uint32_t q = block.qs[2 * i + k];
      const uint64_t magnitudes = iq2_magnitudes(iq2_xs_code(q & 0x1FF));
      scale_levels(to, scale, with_signs(magnitudes, even_signs(q >> 9)));
    }
  }
}

}  // namespace rocmforge::formats
