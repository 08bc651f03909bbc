#pragma once
// Q1_0: 128 weights in 18 bytes (1.125 bits each). One scale, one sign bit per weight.
//
//   d       f16      scale
//   qs[16]  bytes    bit j % 8 of qs[j / 8]: weight j
//
//   weight = bit ? d : -d

#include "tensor/half.h"

namespace rocmforge::formats {

struct Q1_0 {
  static constexpr int kElements = 128;

  F16 d;
  uint8_t qs[16];
};
static_assert(sizeof(Q1_0) == 18);

RF_HOST_DEVICE inline void decode(float* to, const Q1_0& block) {  // to: 128
  const float d = to_float(block.d);
  for (int i = 0; i < 16; i++) {
    for (int bit = 0; bit < 8; bit++) to[8 * i + bit] = block.qs[i] >> bit & 1 ? d : -d;
  }
}

}  // namespace rocmforge::formats
