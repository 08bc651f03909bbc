#pragma once
// Q4_1: 32 weights in 20 bytes (5 bits each). A scale and a minimum, unsigned 4-bit quants.
//
//   d       f16      scale
//   m       f16      minimum
//   qs[16]  bytes    low nibble of qs[j]: weight j;  high nibble: weight j + 16
//
//   weight = d * nibble + m

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q4_1 {
  static constexpr int kElements = 32;

  F16 d;
  F16 m;
  uint8_t qs[16];
};
static_assert(sizeof(Q4_1) == 20);

RF_HOST_DEVICE inline void decode(float* to, const Q4_1& block) {  // to: 32
  const float d = to_float(block.d);
  const float m = to_float(block.m);
  for (int j = 0; j < 16; j++) {
    to[j] = d * static_cast<float>(block.qs[j] & 0xF) + m;
    to[j + 16] = d * static_cast<float>(block.qs[j] >> 4) + m;
  }
}

inline void encode(Q4_1& block, const float* from) {  // from: 32
  uint8_t codes[32];
  const fit::ScaleOffset fitted = fit::fit_scale_offset(codes, from, 15);
  block.d = fitted.scale;
  block.m = fitted.offset;
  for (int j = 0; j < 16; j++) block.qs[j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
}

}  // namespace rocmforge::formats
