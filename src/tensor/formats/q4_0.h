#pragma once
// Q4_0: 32 weights in 18 bytes (4.5 bits each). One scale, signed 4-bit quants centred on 8.
//
//   d       f16      scale
//   qs[16]  bytes    low nibble of qs[j]: weight j;  high nibble: weight j + 16
//
//   weight = d * (nibble - 8)

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q4_0 {
  static constexpr int kElements = 32;

  F16 d;
  uint8_t qs[16];
};
static_assert(sizeof(Q4_0) == 18);

RF_HOST_DEVICE inline void decode(float* to, const Q4_0& block) {  // to: 32
  const float d = to_float(block.d);
  for (int j = 0; j < 16; j++) {
    to[j] = d * static_cast<float>((block.qs[j] & 0xF) - 8);
    to[j + 16] = d * static_cast<float>((block.qs[j] >> 4) - 8);
  }
}

inline void encode(Q4_0& block, const float* from) {  // from: 32
  uint8_t codes[32];
  block.d = fit::fit_scale(codes, from, fit::WholeLevels{-8, 7});
  for (int j = 0; j < 16; j++) block.qs[j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
}

}  // namespace rocmforge::formats
