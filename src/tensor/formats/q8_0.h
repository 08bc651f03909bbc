#pragma once
// Q8_0: 32 weights in 34 bytes (8.5 bits each). One scale, signed bytes.
//
//   d       f16      scale
//   qs[32]  int8     weight j
//
//   weight = d * qs[j]

#include "tensor/half.h"

namespace rocmforge::formats {

struct Q8_0 {
  static constexpr int kElements = 32;

  F16 d;
  int8_t qs[32];
};
static_assert(sizeof(Q8_0) == 34);

RF_HOST_DEVICE inline void decode(float* to, const Q8_0& block) {  // to: 32
  const float d = to_float(block.d);
  for (int j = 0; j < 32; j++) to[j] = d * static_cast<float>(block.qs[j]);
}

}  // namespace rocmforge::formats
