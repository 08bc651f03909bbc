#pragma once
// Q2_K: 256 weights in 84 bytes (2.625 bits each). 16 sub-blocks of 16 weights, each with a 4-bit scale and a 4-bit
// minimum in units of the two block scales; 2-bit quants.
//
//   scales[16]  bytes    sub-block s: low nibble scale, high nibble minimum
//   qs[64]      bytes    half h of the block (128 weights) is qs[32 h .. 32 h + 31]; bits 2 k and 2 k + 1 of its byte l
//                        are weight 32 k + l of that half
//   d           f16      unit of the scales
//   dmin        f16      unit of the minima
//
//   weight = (d * scale) * quant - dmin * minimum

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q2K {
  static constexpr int kElements = 256;

  uint8_t scales[16];
  uint8_t qs[64];
  F16 d;
  F16 dmin;
};
static_assert(sizeof(Q2K) == 84);

RF_HOST_DEVICE inline void decode(float* to, const Q2K& block) {  // to: 256
  const float d = to_float(block.d);
  const float dmin = to_float(block.dmin);
  for (int s = 0; s < 16; s++) {
    const float scale = d * static_cast<float>(block.scales[s] & 0xF);
    const float minimum = dmin * static_cast<float>(block.scales[s] >> 4);
    const uint8_t* qs = block.qs + s / 8 * 32 + s % 2 * 16;
    const int shift = s % 8 / 2 * 2;
    for (int l = 0; l < 16; l++) to[16 * s + l] = scale * static_cast<float>(qs[l] >> shift & 3) - minimum;
  }
}

inline void encode(Q2K& block, const float* from) {  // from: 256
  fit::PartScale parts[16];
  uint8_t codes[256];
  const fit::PartUnits units = fit::fit_part_minima(parts, codes, from, 16, 3, 15);
  block.d = units.scale;
  block.dmin = units.minimum;
  for (int s = 0; s < 16; s++) block.scales[s] = static_cast<uint8_t>(parts[s].scale | parts[s].minimum << 4);
  for (int j = 0; j < 64; j++) {
    const uint8_t* c = codes + j / 32 * 128 + j % 32;
    block.qs[j] = static_cast<uint8_t>(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
  }
}

}  // namespace rocmforge::formats
