#pragma once
// F32, F16, BF16: weights as plain floats, one per block, so that generic code can treat them like every other format.

#include "tensor/fit.h"
#include "tensor/half.h"

namespace rocmforge::formats {

struct PlainF32 {
  static constexpr int kElements = 1;
  float value;
};

struct PlainF16 {
  static constexpr int kElements = 1;
  F16 value;
};

struct PlainBf16 {
  static constexpr int kElements = 1;
  Bf16 value;
};

static_assert(sizeof(PlainF32) == 4 && sizeof(PlainF16) == 2 && sizeof(PlainBf16) == 2);

RF_HOST_DEVICE inline void decode(float* to, const PlainF32& block) {
  *to = block.value;
}
RF_HOST_DEVICE inline void decode(float* to, const PlainF16& block) {
  *to = to_float(block.value);
}
RF_HOST_DEVICE inline void decode(float* to, const PlainBf16& block) {
  *to = to_float(block.value);
}

// A value beyond the type's range is clamped to it.
inline void encode(PlainF32& block, const float* from) {
  block.value = *from;
}
inline void encode(PlainF16& block, const float* from) {
  block.value = fit::to_finite_f16(*from);
}
inline void encode(PlainBf16& block, const float* from) {
  block.value = fit::to_finite_bf16(*from);
}

}  // namespace rocmforge::formats
