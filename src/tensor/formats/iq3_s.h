#pragma once
// IQ3_S: 256 weights in 110 bytes (3.4375 bits each). Codebook of 512 vectors of 4, scale per 32 weights.
//
//   d          f16      scale of the block
//   qs[64]     bytes    low eight bits of the codebook index of weights 4i .. 4i+3
//   qh[8]      bytes    per 32 weights: bit k is the high bit of index k
//   signs[32]  bytes    bit j of signs[i]: weight 8i + j is negative
//   scales[4]  bytes    per 64 weights: low nibble the scale s of the first 32, high nibble of the last 32
//
//   weight = d * (2 s + 1) * (+-magnitude),   magnitude 1, 3, 5, .. 15

#include "tensor/formats/iq_levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq3S {
  static constexpr int kElements = 256;

  F16 d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
static_assert(sizeof(Iq3S) == 110);

RF_HOST_DEVICE constexpr uint64_t iq3_s_magnitudes(uint64_t low_code, uint64_t high_code) {
  return 2 * spread_4x3(low_code, high_code) + kEachByte;
}

RF_HOST_DEVICE inline void decode(float* to, const Iq3S& block) {  // to: 256
  const float d = to_float(block.d);
  for (int i = 0; i < 8; i++) {
    const float scale = d * static_cast<float>(2 * (block.scales[i / 2] >> 4 * (i % 2) & 0xF) + 1);
    for (int k = 0; k < 4; k++, to += 8) {
      const uint8_t* low = block.qs + 8 * i + 2 * k;
      const uint32_t high = block.qh[i] >> 2 * k;
      const uint64_t magnitudes =
          iq3_s_magnitudes(iq3_s_code(low[0] | (high & 1) << 8), iq3_s_code(low[1] | (high & 2) << 7));
      scale_levels(to, scale, with_signs(magnitudes, block.signs[4 * i + k]));
    }
  }
}

}  // namespace rocmforge::formats
