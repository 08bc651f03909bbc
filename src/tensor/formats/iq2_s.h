#pragma once
// IQ2_S: 256 weights in 82 bytes (2.5625 bits each). Codebook of 1024 vectors of 8, scale per 16 weights.
//
//   d          f16      scale of the block
//   qs[32]     bytes    low eight bits of the codebook index of weights 8i .. 8i+7
//   signs[32]  bytes    bit j of signs[i]: weight 8i + j is negative
//   qh[8]      bytes    per 32 weights: bits 2k, 2k+1 are the high bits of index k
//   scales[8]  bytes    per 32 weights: low nibble the scale s of the first 16, high nibble of the last 16
//
//   weight = d * (2 s + 1) / 8 * (+-magnitude),   magnitude 8, 25 or 43

#include "tensor/formats/iq_levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq2S {
  static constexpr int kElements = 256;

  F16 d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
static_assert(sizeof(Iq2S) == 82);

RF_HOST_DEVICE inline void decode(float* to, const Iq2S& block) {  // to: 256
  const float d = to_float(block.d);
  for (int i = 0; i < 32; i++, to += 8) {
    const float scale = d * static_cast<float>(2 * (block.scales[i / 4] >> 4 * (i / 2 % 2) & 0xF) + 1) * 0.125f;
    const uint32_t index = block.qs[i] | (block.qh[i / 4] >> 2 * (i % 4) & 3u) << 8;
    scale_levels(to, scale, with_signs(iq2_magnitudes(iq2_s_code(index)), block.signs[i]));
  }
}

}  // namespace rocmforge::formats
