#pragma once
// IQ1_M: 256 weights in 56 bytes (1.75 bits each). IQ1_S with a scale per 16 weights and a shift per 8.
//
//   qs[32]     bytes      low eight bits of the codebook index of weights 8i .. 8i+7
//   qh[16]     bytes      a nibble for each index, the low one first: bits 0..2 its high bits, bit 3 its shift
//   scales[4]  16 bits    bits 3k .. 3k+2 of scales[i]: scale s of weights 64i + 16k .. +15;
//                         bits 12..15: the block's f16 scale d, lowest nibble in scales[0]
//
//   weight = d * (2 s + 1) * (value + shift),   value -1, 0 or 1;  shift -1/8 when its bit is set, else 1/8

#include "tensor/formats/iq_levels.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct Iq1M {
  static constexpr int kElements = 256;

  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];
};
static_assert(sizeof(Iq1M) == 56);

RF_HOST_DEVICE inline F16 block_scale(const Iq1M& block) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; i++) bits |= (block.scales[i] & 0xF000u) >> (12 - 4 * i);
  return {static_cast<uint16_t>(bits)};
}

RF_HOST_DEVICE inline void decode(float* to, const Iq1M& block) {  // to: 256
  const float d = to_float(block_scale(block));
  for (int i = 0; i < 16; i++) {
    const float scale = d * static_cast<float>(2 * (block.scales[i / 4] >> 3 * (i % 4) & 7) + 1);
    for (int k = 0; k < 2; k++, to += 8) {
      const uint32_t high = block.qh[i] >> 4 * k & 0xF;
      decode_iq1(to, scale, block.qs[2 * i + k] | (high & 7) << 8, high >> 3);
    }
  }
}

}  // namespace rocmforge::formats
