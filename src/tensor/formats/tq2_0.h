#pragma once
// TQ2_0: 256 ternary weights in 66 bytes (2.0625 bits each). One scale, two bits per weight.
//
//   qs[64]  bytes    two halves of 32 bytes, 128 weights each; bits 2k, 2k+1 of byte m of a half: weight 32k + m
//   d       f16      scale
//
//   weight = d * (code - 1)      encoders write 0, 1, 2; code 3 would be 2 d

#include "tensor/half.h"

namespace rocmforge::formats {

struct Tq2_0 {
  static constexpr int kElements = 256;

  uint8_t qs[64];
  F16 d;
};
static_assert(sizeof(Tq2_0) == 66);

RF_HOST_DEVICE inline void decode(float* to, const Tq2_0& block) {  // to: 256
  const float d = to_float(block.d);
  for (int half = 0; half < 2; half++) {
    for (int k = 0; k < 4; k++, to += 32) {
      for (int m = 0; m < 32; m++) {
        to[m] = d * static_cast<float>((block.qs[32 * half + m] >> 2 * k & 3) - 1);
      }
    }
  }
}

}  // namespace rocmforge::formats
