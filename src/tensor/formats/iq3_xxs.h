#pragma once
// IQ3_XXS: 256 weights in 98 bytes (3.0625 bits each). Codebook of 256 vectors of 4, scale per 32 weights.
//
//   d            f16        scale of the block
//   qs[64]       bytes      codebook index of weights 4i .. 4i+3
//   signs[8][2]  16 bits    per 32 weights one 32-bit word, low half first: bits 7k .. 7k+6 the signs of weights
//                           8k .. 8k+7, bits 28..31 the scale s
//
//   weight = d * (2 s + 1) / 4 * (+-magnitude),   magnitude 4, 12, 20, 28, 36, 44, 52 or 62

#include "tensor/formats/iq_levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq3Xxs {
  static constexpr int kElements = 256;

  F16 d;
  uint8_t qs[64];
  uint16_t signs[8][2];
};
static_assert(sizeof(Iq3Xxs) == 98);

// 8 f + 4 for the fields 0 .. 6, and 62 for 7.
RF_HOST_DEVICE constexpr uint64_t iq3_xxs_magnitudes(uint64_t low_code, uint64_t high_code) {
  const uint64_t field = spread_4x3(low_code, high_code);
  const uint64_t is_seven = field & field >> 1 & field >> 2 & kEachByte;
  return 8 * field + 4 * kEachByte + 2 * is_seven;
}

RF_HOST_DEVICE inline void decode(float* to, const Iq3Xxs& block) {  // to: 256
  const float d = to_float(block.d);
  for (int i = 0; i < 8; i++) {
    const uint32_t word = block.signs[i][0] | static_cast<uint32_t>(block.signs[i][1]) << 16;
    const float scale = d * static_cast<float>(2 * (word >> 28) + 1) * 0.25f;
    for (int k = 0; k < 4; k++, to += 8) {
      const uint8_t* index = block.qs + 8 * i + 2 * k;
      const uint64_t magnitudes = iq3_xxs_magnitudes(iq3_xxs_code(index[0]), iq3_xxs_code(index[1]));
      scale_levels(to, scale, with_signs(magnitudes, even_signs(word >> 7 * k & 0x7F)));
    }
  }
}

}  // namespace rocmforge::formats
