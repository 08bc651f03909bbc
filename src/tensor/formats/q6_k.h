#pragma once
// Q6_K: 256 weights in 210 bytes (6.5625 bits each). 16 sub-blocks of 16 weights, each with a signed 8-bit scale in
// units of the block's; signed 6-bit quants.
//
//   ql[128]     bytes    half h of the block (128 weights) has ql[64 h .. 64 h + 63] and qh[32 h .. 32 h + 31];
//   qh[64]      bytes    weight 32 k + l of that half (k < 4, l < 32): its low four bits are a nibble of byte
//                        32 (k % 2) + l of ql (low for k < 2, else high), its upper two are bits 2 k and 2 k + 1 of
//                        byte l of qh
//   scales[16]  int8
//   d           f16      unit of the scales
//
//   weight = (d * scale) * (quant - 32)

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Q6K {
  static constexpr int kElements = 256;

  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  F16 d;
};
static_assert(sizeof(Q6K) == 210);

RF_HOST_DEVICE inline void decode(float* to, const Q6K& block) {  // to: 256
  const float d = to_float(block.d);
  for (int s = 0; s < 16; s++) {
    const float scale = d * static_cast<float>(block.scales[s]);
    const int k = s % 8 / 2;
    const uint8_t* ql = block.ql + s / 8 * 64 + k % 2 * 32 + s % 2 * 16;
    const uint8_t* qh = block.qh + s / 8 * 32 + s % 2 * 16;
    for (int l = 0; l < 16; l++) {
      const int level = (ql[l] >> k / 2 * 4 & 0xF) | (qh[l] >> 2 * k & 3) << 4;
      to[16 * s + l] = scale * static_cast<float>(level - 32);
    }
  }
}

inline void encode(Q6K& block, const float* from) {  // from: 256
  uint8_t codes[256];
  block.d = fit::fit_part_scales(block.scales, codes, from, fit::WholeLevels{-32, 31}, 128);
  for (int h = 0; h < 2; h++) {
    for (int l = 0; l < 32; l++) {
      const uint8_t* c = codes + 128 * h + l;
      block.ql[64 * h + l] = static_cast<uint8_t>((c[0] & 0xF) | (c[64] & 0xF) << 4);
      block.ql[64 * h + 32 + l] = static_cast<uint8_t>((c[32] & 0xF) | (c[96] & 0xF) << 4);
      block.qh[32 * h + l] = static_cast<uint8_t>(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
    }
  }
}

}  // namespace rocmforge::formats
