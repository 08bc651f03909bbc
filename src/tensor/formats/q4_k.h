#pragma once
// Q4_K: 256 weights in 144 bytes (4.5 bits each). Eight sub-blocks of 32 weights, each with a 6-bit scale and a 6-bit
// minimum in units of the two block scales; 4-bit quants.
//
//   d           f16      unit of the scales
//   dmin        f16      unit of the minima
//   scales[12]  bytes    packed as in k_scales.h
//   qs[128]     bytes    low nibble of qs[32 p + l]: weight l of sub-block 2 p;  high nibble: of sub-block 2 p + 1
//
//   weight = (d * scale) * quant - dmin * minimum

#include "tensor/fit.h"
#include "tensor/formats/k_scales.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q4K {
  static constexpr int kElements = 256;

  F16 d;
  F16 dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(Q4K) == 144);

RF_HOST_DEVICE inline void decode(float* to, const Q4K& block) {  // to: 256
  const float d = to_float(block.d);
  const float dmin = to_float(block.dmin);
  for (int s = 0; s < 8; s++) {
    const KScale k = load_k_scale(block.scales, s);
    const float scale = d * static_cast<float>(k.scale);
    const float minimum = dmin * static_cast<float>(k.minimum);
    const uint8_t* qs = block.qs + s / 2 * 32;
    const int shift = s % 2 * 4;
    for (int l = 0; l < 32; l++) to[32 * s + l] = scale * static_cast<float>(qs[l] >> shift & 0xF) - minimum;
  }
}

inline void encode(Q4K& block, const float* from) {  // from: 256
  KScale scales[8];
  uint8_t codes[256];
  const fit::PartUnits units = fit::fit_part_minima(scales, codes, from, 8, 15, 63);
  block.d = units.scale;
  block.dmin = units.minimum;
  store_k_scales(block.scales, scales);
  for (int j = 0; j < 128; j++) {
    const uint8_t* c = codes + j / 32 * 64 + j % 32;
    block.qs[j] = static_cast<uint8_t>(c[0] | c[32] << 4);
  }
}

}  // namespace rocmforge::formats
