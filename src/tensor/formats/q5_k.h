#pragma once
// Q5_K: 256 weights in 176 bytes (5.5 bits each). Eight sub-blocks of 32 weights, each with a 6-bit scale and a 6-bit
// minimum in units of the two block scales; 5-bit quants.
//
//   d           f16      unit of the scales
//   dmin        f16      unit of the minima
//   scales[12]  bytes    packed as in k_scales.h
//   qh[32]      bytes    bit s of qh[l]: the fifth bit of weight l of sub-block s
//   qs[128]     bytes    low nibble of qs[32 p + l]: the low four bits of weight l of sub-block 2 p;  high nibble: of
//                        sub-block 2 p + 1
//
//   weight = (d * scale) * quant - dmin * minimum

#include "tensor/fit.h"
#include "tensor/formats/k_scales.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q5K {
  static constexpr int kElements = 256;

  F16 d;
  F16 dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(Q5K) == 176);

RF_HOST_DEVICE inline void decode(float* to, const Q5K& block) {  // to: 256
  const float d = to_float(block.d);
  const float dmin = to_float(block.dmin);
  for (int s = 0; s < 8; s++) {
    const KScale k = load_k_scale(block.scales, s);
    const float scale = d * static_cast<float>(k.scale);
    const float minimum = dmin * static_cast<float>(k.minimum);
    const uint8_t* qs = block.qs + s / 2 * 32;
    const int shift = s % 2 * 4;
    for (int l = 0; l < 32; l++) {
      const int level = (qs[l] >> shift & 0xF) | (block.qh[l] >> s & 1) << 4;
      to[32 * s + l] = scale * static_cast<float>(level) - minimum;
    }
  }
}

inline void encode(Q5K& block, const float* from) {  // from: 256
  KScale scales[8];
  uint8_t codes[256];
  const fit::PartUnits units = fit::fit_part_minima(scales, codes, from, 8, 31, 63);
  block.d = units.scale;
  block.dmin = units.minimum;
  store_k_scales(block.scales, scales);
  for (int j = 0; j < 128; j++) {
    const uint8_t* c = codes + j / 32 * 64 + j % 32;
    block.qs[j] = static_cast<uint8_t>((c[0] & 0xF) | (c[32] & 0xF) << 4);
  }
  for (int l = 0; l < 32; l++) {
    int bits = 0;
    for (int s = 0; s < 8; s++) bits |= codes[32 * s + l] >> 4 << s;
    block.qh[l] = static_cast<uint8_t>(bits);
  }
}

}  // namespace rocmforge::formats
