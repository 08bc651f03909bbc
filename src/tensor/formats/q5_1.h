#pragma once
// Q5_1: 32 weights in 24 bytes (6 bits each). A scale and a minimum, unsigned 5-bit quants.
//
//   d       f16      scale
//   m       f16      minimum
//   qh[4]   bytes    bit j of the little-endian word: the fifth bit of weight j
//   qs[16]  bytes    low nibble of qs[j]: the low four bits of weight j;  high nibble: of weight j + 16
//
//   weight = d * quant + m

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q5_1 {
  static constexpr int kElements = 32;

  F16 d;
  F16 m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(Q5_1) == 24);

RF_HOST_DEVICE inline void decode(float* to, const Q5_1& block) {  // to: 32
  const float d = to_float(block.d);
  const float m = to_float(block.m);
  for (int j = 0; j < 16; j++) {
    const int low = (block.qs[j] & 0xF) | (block.qh[j / 8] >> j % 8 & 1) << 4;
    const int high = block.qs[j] >> 4 | (block.qh[2 + j / 8] >> j % 8 & 1) << 4;
    to[j] = d * static_cast<float>(low) + m;
    to[j + 16] = d * static_cast<float>(high) + m;
  }
}

inline void encode(Q5_1& block, const float* from) {  // from: 32
  uint8_t codes[32];
  const fit::ScaleOffset fitted = fit::fit_scale_offset(codes, from, 31);
  block.d = fitted.scale;
  block.m = fitted.offset;
  for (uint8_t& byte : block.qh) byte = 0;
  for (int j = 0; j < 32; j++) block.qh[j / 8] = static_cast<uint8_t>(block.qh[j / 8] | codes[j] >> 4 << j % 8);
  for (int j = 0; j < 16; j++) block.qs[j] = static_cast<uint8_t>((codes[j] & 0xF) | (codes[j + 16] & 0xF) << 4);
}

}  // namespace rocmforge::formats
