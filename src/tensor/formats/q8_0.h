#pragma once
// Q8_0: 32 weights in 34 bytes (8.5 bits each). One scale, signed bytes.
//
//   d       f16      scale
//   qs[32]  int8     weight j
//
//   weight = d * qs[j]

#include "tensor/fit.h"
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

inline void encode(Q8_0& block, const float* from) {  // from: 32
  // With 8 bits no search is needed: the largest element becomes 127.
  block.d = fit::to_finite_f16(fit::largest_magnitude(from) / 127);
  const float d = to_float(block.d);
  fit::round_to_bytes(block.qs, from, d > 0 ? 1 / d : 0);
}

}  // namespace rocmforge::formats
