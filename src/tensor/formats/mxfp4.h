#pragma once
// MXFP4 (OCP microscaling): 32 weights in 17 bytes (4.25 bits each). A power of two as scale, 4-bit floats.
//
//   e       byte     the scale is 2^(e - 127)
//   qs[16]  bytes    low nibble of qs[j]: weight j;  high nibble: weight j + 16
//
//   E2M1, the 4-bit float:  s ee m   0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives (code 8 decodes to +0 here)
//
//   weight = 2^(e - 127) * E2M1(nibble)
//
// The arithmetic is on whole numbers: E2M1 doubled, times half the scale. e = 255, NaN in the standard, is 2^127 as
// half scale here, as in llama.cpp.

#include "tensor/half.h"

namespace rocmforge::formats {

struct Mxfp4 {
  static constexpr int kElements = 32;

  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(Mxfp4) == 17);

RF_HOST_DEVICE inline int e2m1_doubled(int code) {
  static constexpr int8_t kLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return kLevels[code];
}

RF_HOST_DEVICE inline float e8m0_halved(uint8_t e) {  // 2^(e - 128)
  if (e < 2) return bits_to_float(0x00200000u << e);  // below the smallest normal
  return bits_to_float(static_cast<uint32_t>(e - 1) << 23);
}

RF_HOST_DEVICE inline void decode(float* to, const Mxfp4& block) {  // to: 32
  const float half_scale = e8m0_halved(block.e);
  for (int j = 0; j < 16; j++) {
    to[j] = half_scale * static_cast<float>(e2m1_doubled(block.qs[j] & 0xF));
    to[j + 16] = half_scale * static_cast<float>(e2m1_doubled(block.qs[j] >> 4));
  }
}

}  // namespace rocmforge::formats
