#pragma once
// IQ4_NL: 32 weights in 18 bytes (4.5 bits each). One scale; 4-bit codes into a table of 16 values, denser around zero.
//
//   d       f16      scale
//   qs[16]  bytes    low nibble of qs[j]: code of weight j;  high nibble: of weight j + 16
//
//   weight = d * value[code]

#include "tensor/fit.h"
#include "tensor/formats/levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq4Nl {
  static constexpr int kElements = 32;

  F16 d;
  uint8_t qs[16];
};
static_assert(sizeof(Iq4Nl) == 18);

inline constexpr FourBitLevels kIq4Levels = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};

RF_HOST_DEVICE inline int iq4_level(int code) {
  static constexpr FourBitLevels kLevels = kIq4Levels;  // device code has tables of its own
  return kLevels.at[code];
}

RF_HOST_DEVICE inline void decode(float* to, const Iq4Nl& block) {  // to: 32
  const float d = to_float(block.d);
  for (int j = 0; j < 16; j++) {
    to[j] = d * static_cast<float>(iq4_level(block.qs[j] & 0xF));
    to[j + 16] = d * static_cast<float>(iq4_level(block.qs[j] >> 4));
  }
}

inline fit::TableLevels iq4_levels() {
  fit::TableLevels levels;
  for (int code = 0; code < 16; code++) levels.values[code] = static_cast<int8_t>(iq4_level(code));
  return levels;
}

inline void encode(Iq4Nl& block, const float* from) {  // from: 32
  uint8_t codes[32];
  block.d = fit::fit_scale(codes, from, iq4_levels());
  for (int j = 0; j < 16; j++) block.qs[j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
}

}  // namespace rocmforge::formats
