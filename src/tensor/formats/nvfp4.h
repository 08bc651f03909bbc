#pragma once
// NVFP4: 64 weights in 36 bytes (4.5 bits each). E2M1 values (mxfp4.h) in four groups of 16, each with an 8-bit float
// scale.
//
//   d[4]    UE4M3    scale of each group
//   qs[32]  bytes    group g in qs[8g .. 8g+7]; low nibble of byte j: weight j of the group; high nibble: weight j + 8
//
//   weight = d * E2M1(nibble)
//
// UE4M3 has four exponent bits (bias 7) and three mantissa bits; its top bit is ignored. 0x7F is not a number there and
// decodes as a scale of zero. A file may also hold one f32 scale for the whole tensor, as a separate tensor.

#include "tensor/formats/mxfp4.h"

namespace rocmforge::formats {

struct Nvfp4 {
  static constexpr int kElements = 64;

  uint8_t d[4];
  uint8_t qs[32];
};
static_assert(sizeof(Nvfp4) == 36);

RF_HOST_DEVICE inline float ue4m3_to_float(uint8_t code) {
  const uint32_t exponent = code >> 3 & 0xF;
  const uint32_t mantissa = code & 0x7;
  if (code == 0x7F) return 0.0f;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-9f;
  return bits_to_float((exponent + 127 - 7) << 23 | mantissa << 20);
}

RF_HOST_DEVICE inline void decode(float* to, const Nvfp4& block) {  // to: 64
  for (int g = 0; g < 4; g++, to += 16) {
    const float half_d = ue4m3_to_float(block.d[g]) * 0.5f;
    for (int j = 0; j < 8; j++) {
      const int pair = block.qs[8 * g + j];
      to[j] = half_d * static_cast<float>(e2m1_doubled(pair & 0xF));
      to[j + 8] = half_d * static_cast<float>(e2m1_doubled(pair >> 4));
    }
  }
}

}  // namespace rocmforge::formats
