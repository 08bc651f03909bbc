#pragma once
// Q5_0: 32 weights in 22 bytes (5.5 bits each). One scale, signed 5-bit quants centred on 16.
//
//   d       f16      scale
//   qh[4]   bytes    bit j of the little-endian word: the fifth bit of weight j
//   qs[16]  bytes    low nibble of qs[j]: the low four bits of weight j;  high nibble: of weight j + 16
//
//   weight = d * (quant - 16)

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q5_0 {
  static constexpr int kElements = 32;

  F16 d;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(Q5_0) == 22);

RF_HOST_DEVICE inline void decode(float* to, const Q5_0& block) {  // to: 32
  const float d = to_float(block.d);
  for (int j = 0; j < 16; j++) {
    const int low = (block.qs[j] & 0xF) | (block.qh[j / 8] >> j % 8 & 1) << 4;
    const int high = block.qs[j] >> 4 | (block.qh[2 + j / 8] >> j % 8 & 1) << 4;
    to[j] = d * static_cast<float>(low - 16);
    to[j + 16] = d * static_cast<float>(high - 16);
  }
}

inline void encode(Q5_0& block, const float* from) {  // from: 32
  uint8_t codes[32];
  block.d = fit::fit_scale(codes, from, fit::WholeLevels{-16, 15});
  for (uint8_t& byte : block.qh) byte = 0;
  for (int j = 0; j < 32; j++) block.qh[j / 8] = static_cast<uint8_t>(block.qh[j / 8] | codes[j] >> 4 << j % 8);
  for (int j = 0; j < 16; j++) block.qs[j] = static_cast<uint8_t>((codes[j] & 0xF) | (codes[j + 16] & 0xF) << 4);
}

}  // namespace rocmforge::formats
