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
// The arithmetic is on integers: twice the E2M1 value, times half the scale. e = 255, NaN in the standard, stands for a
// half scale of 2^127 here, as in llama.cpp.

#include <algorithm>
#include <cmath>

#include "tensor/fit.h"
#include "tensor/formats/levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Mxfp4 {
  static constexpr int kElements = 32;

  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(Mxfp4) == 17);

inline constexpr FourBitLevels kE2m1Doubled = {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};

RF_HOST_DEVICE inline int e2m1_doubled(int code) {
  static constexpr FourBitLevels kLevels = kE2m1Doubled;  // device code has tables of its own
  return kLevels.at[code];
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

inline void encode(Mxfp4& block, const float* from) {  // from: 32
  // Ranks order the values from -12 to 12, with zero twice.
  const auto code_of = [](int rank) { return rank < 7 ? 15 - rank : std::max(rank - 8, 0); };
  fit::TableLevels levels;
  for (int rank = 0; rank < 16; rank++) levels.values[rank] = static_cast<int8_t>(e2m1_doubled(code_of(rank)));

  // The exponent that puts the largest element between 4 and 8 (6 is the largest E2M1 value), or the next one.
  const float largest = fit::largest_magnitude(from);
  // Below 2 the inverse would be infinite, above 252 the largest weight.
  const int exponent = largest > 0 ? std::clamp(std::ilogb(largest) - 2 + 127, 2, 251) : 2;
  uint8_t ranks[2][32];
  float errors[2];
  for (int k = 0; k < 2; k++) {
    const float scale = e8m0_halved(static_cast<uint8_t>(exponent + k));
    errors[k] = fit::round_to_levels(ranks[k], from, 1 / scale, levels);
  }
  const int k = 4 * errors[1] < errors[0] ? 1 : 0;  // errors are in units of the squared scale
  block.e = static_cast<uint8_t>(exponent + k);
  for (int j = 0; j < 16; j++) {
    block.qs[j] = static_cast<uint8_t>(code_of(ranks[k][j]) | code_of(ranks[k][j + 16]) << 4);
  }
}

}  // namespace rocmforge::formats
