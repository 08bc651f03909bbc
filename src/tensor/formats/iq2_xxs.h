#pragma once
// IQ2_XXS: 256 weights in 66 bytes (2.0625 bits each). Codebook of 256 vectors of 8, scale per 32 weights.
//
//   d           f16        scale of the block
//   groups[8]   8 bytes    32 weights each:
//     index[4]    bytes      codebook index of weights 8k .. 8k+7
//     signs[2]    16 bits    one 32-bit word, low half first: bits 7k .. 7k+6 the signs for index k, 28..31 the scale s
//
//   weight = d * (2 s + 1) / 8 * (+-magnitude),   magnitude 8, 25 or 43

#include "tensor/formats/iq_levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq2Xxs {
  static constexpr int kElements = 256;

  struct Group {
    uint8_t index[4];
    uint16_t signs[2];
  };

  F16 d;
  Group groups[8];
};
static_assert(sizeof(Iq2Xxs) == 66);

RF_HOST_DEVICE inline void decode(float* to, const Iq2Xxs& block) {  // to: 256
  const float d = to_float(block.d);
  for (const Iq2Xxs::Group& group : block.groups) {
    const uint32_t word = group.signs[0] | static_cast<uint32_t>(group.signs[1]) << 16;
    const float scale = d * static_cast<float>(2 * (word >> 28) + 1) * 0.125f;
    for (int k = 0; k < 4; k++, to += 8) {
      const uint64_t magnitudes = iq2_magnitudes(iq2_xxs_code(group.index[k]));
      scale_levels(to, scale, with_signs(magnitudes, even_signs(word >> 7 * k & 0x7F)));
    }
  }
}

}  // namespace rocmforge::formats
