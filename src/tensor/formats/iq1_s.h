#pragma once
// IQ1_S: 256 weights in 50 bytes (1.5625 bits each). Codebook of 2048 ternary vectors of 8, scale per 32 weights.
//
//   d       f16          scale of the block
//   qs[32]  bytes        low eight bits of the codebook index of weights 8i .. 8i+7
//   qh[8]   16 bits      per 32 weights: bits 3k .. 3k+2 are the high bits of index k, 12..14 the scale s, 15 the shift
//
//   weight = d * (2 s + 1) * (value + shift),   value -1, 0 or 1;  shift -1/8 when bit 15 is set, else 1/8

#include "tensor/formats/iq_levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq1S {
  static constexpr int kElements = 256;

  F16 d;
  uint8_t qs[32];
  uint16_t qh[8];
};
static_assert(sizeof(Iq1S) == 50);

RF_HOST_DEVICE inline void decode(float* to, const Iq1S& block) {  // to: 256
  const float d = to_float(block.d);
  for (int i = 0; i < 8; i++) {
    const uint32_t qh = block.qh[i];
    const float scale = d * static_cast<float>(2 * (qh >> 12 & 7) + 1);
    for (int k = 0; k < 4; k++, to += 8) {
      decode_iq1(to, scale, block.qs[4 * i + k] | (qh >> 3 * k & 7) << 8, qh >> 15);
    }
  }
}

}  // namespace rocmforge::formats
