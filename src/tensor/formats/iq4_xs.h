#pragma once
// IQ4_XS: 256 weights in 136 bytes (4.25 bits each). Eight sub-blocks of 32 weights, each with a signed 6-bit scale in
// units of the block's; 4-bit codes into the table of IQ4_NL.
//
//   d            f16      unit of the scales
//   scales_h     u16      bits 2 s and 2 s + 1: upper two bits of the scale of sub-block s
//   scales_l[4]  bytes    its low four bits: a nibble of scales_l[s / 2] (low for even s, else high)
//   qs[128]      bytes    low nibble of qs[16 s + j]: code of weight j of sub-block s;  high nibble: of weight j + 16
//
//   weight = (d * (scale - 32)) * value[code]

#include "tensor/fit.h"
#include "tensor/formats/iq4_nl.h"

namespace rocmforge::formats {

struct Iq4Xs {
  static constexpr int kElements = 256;

  F16 d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};
static_assert(sizeof(Iq4Xs) == 136);

RF_HOST_DEVICE inline int scale_of(const Iq4Xs& block, int s) {  // -32 .. 31
  const int low = block.scales_l[s / 2] >> s % 2 * 4 & 0xF;
  const int high = block.scales_h >> 2 * s & 3;
  return (low | high << 4) - 32;
}

RF_HOST_DEVICE inline void decode(float* to, const Iq4Xs& block) {  // to: 256
  const float d = to_float(block.d);
  for (int s = 0; s < 8; s++) {
    const float scale = d * static_cast<float>(scale_of(block, s));
    const uint8_t* qs = block.qs + 16 * s;
    for (int j = 0; j < 16; j++) {
      to[32 * s + j] = scale * static_cast<float>(iq4_level(qs[j] & 0xF));
      to[32 * s + j + 16] = scale * static_cast<float>(iq4_level(qs[j] >> 4));
    }
  }
}

inline void encode(Iq4Xs& block, const float* from) {  // from: 256
  int8_t scales[8];
  uint8_t codes[256];
  block.d = fit::fit_part_scales(scales, codes, from, iq4_levels(), 32);
  int high = 0;
  for (uint8_t& byte : block.scales_l) byte = 0;
  for (int s = 0; s < 8; s++) {
    const int scale = scales[s] + 32;
    block.scales_l[s / 2] = static_cast<uint8_t>(block.scales_l[s / 2] | (scale & 0xF) << s % 2 * 4);
    high |= scale >> 4 << 2 * s;
  }
  block.scales_h = static_cast<uint16_t>(high);
  for (int j = 0; j < 128; j++) {
    const uint8_t* c = codes + j / 16 * 32 + j % 16;
    block.qs[j] = static_cast<uint8_t>(c[0] | c[16] << 4);
  }
}

}  // namespace rocmforge::formats
