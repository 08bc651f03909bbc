#pragma once
// Q3_K: 256 weights in 110 bytes (3.4375 bits each). 16 sub-blocks of 16 weights, each with a signed 6-bit scale in
// units of the block's; signed 3-bit quants.
//
//   hmask[32]   bytes    bit k of byte l: the third bit of weight 32 k + l
//   qs[64]      bytes    half h of the block (128 weights) is qs[32 h .. 32 h + 31]; bits 2 k and 2 k + 1 of its byte l
//                        are the low bits of weight 32 k + l of that half
//   scales[12]  bytes    sub-block s: its low four bits are a nibble of scales[s % 8] (low for s < 8, else high), its
//                        upper two are bits 2 (s / 4) and up of scales[8 + s % 4]
//   d           f16      unit of the scales
//
//   weight = (d * (scale - 32)) * (quant - 4)

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q3K {
  static constexpr int kElements = 256;

  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  F16 d;
};
static_assert(sizeof(Q3K) == 110);

RF_HOST_DEVICE inline int scale_of(const Q3K& block, int s) {  // -32 .. 31
  const int low = block.scales[s % 8] >> s / 8 * 4 & 0xF;
  const int high = block.scales[8 + s % 4] >> s / 4 * 2 & 3;
  return (low | high << 4) - 32;
}

RF_HOST_DEVICE inline void decode(float* to, const Q3K& block) {  // to: 256
  const float d = to_float(block.d);
  for (int s = 0; s < 16; s++) {
    const float scale = d * static_cast<float>(scale_of(block, s));
    const uint8_t* qs = block.qs + s / 8 * 32 + s % 2 * 16;
    const uint8_t* hmask = block.hmask + s % 2 * 16;
    const int shift = s % 8 / 2 * 2;
    for (int l = 0; l < 16; l++) {
      const int level = (qs[l] >> shift & 3) | (hmask[l] >> s / 2 & 1) << 2;
      to[16 * s + l] = scale * static_cast<float>(level - 4);
    }
  }
}

inline void encode(Q3K& block, const float* from) {  // from: 256
  int8_t scales[16];
  uint8_t codes[256];
  block.d = fit::fit_part_scales(scales, codes, from, fit::WholeLevels{-4, 3}, 32);
  for (uint8_t& byte : block.scales) byte = 0;
  for (int s = 0; s < 16; s++) {
    const int scale = scales[s] + 32;
    block.scales[s % 8] = static_cast<uint8_t>(block.scales[s % 8] | (scale & 0xF) << s / 8 * 4);
    block.scales[8 + s % 4] = static_cast<uint8_t>(block.scales[8 + s % 4] | scale >> 4 << s / 4 * 2);
  }
  for (int j = 0; j < 64; j++) {
    const uint8_t* c = codes + j / 32 * 128 + j % 32;
    block.qs[j] = static_cast<uint8_t>((c[0] & 3) | (c[32] & 3) << 2 | (c[64] & 3) << 4 | (c[96] & 3) << 6);
  }
  for (int l = 0; l < 32; l++) {
    int mask = 0;
    for (int k = 0; k < 8; k++) mask |= codes[32 * k + l] >> 2 << k;
    block.hmask[l] = static_cast<uint8_t>(mask);
  }
}

}  // namespace rocmforge::formats
