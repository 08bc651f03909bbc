#pragma once
// Q2_0: 64 weights in 18 bytes (2.25 bits each). One scale, quants -1, 0, 1, 2.
//
//   d       f16      scale
//   qs[16]  bytes    bits 2k, 2k+1 of qs[i]: weight 4i + k
//
//   weight = d * (code - 1)

#include "tensor/half.h"

namespace rocmforge::formats {

struct Q2_0 {
  static constexpr int kElements = 64;

  F16 d;
  uint8_t qs[16];
};
static_assert(sizeof(Q2_0) == 18);

RF_HOST_DEVICE inline void decode(float* to, const Q2_0& block) {  // to: 64
  const float d = to_float(block.d);
  for (int i = 0; i < 16; i++) {
    for (int k = 0; k < 4; k++) to[4 * i + k] = d * static_cast<float>((block.qs[i] >> 2 * k & 3) - 1);
  }
}

}  // namespace rocmforge::formats
