#pragma once
// Activation functions of one element, with the factor that the result is multiplied by.

#include <cstdint>

#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE float silu_times(float gate, float up) {
  return quotient_f32(gate, 1.0f + exp_f32(-gate)) * up;
}

// x / 2 * (1 + tanh(u)) = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3)
RF_DEVICE float gelu_times(float gate, float up) {
  const float u = 0.79788456f * gate * (1.0f + 0.044715f * gate * gate);
  return quotient_f32(gate, 1.0f + exp_f32(-2.0f * u)) * up;
}

// x * sigmoid(1.702 x) with x = min(gate, 7), times 1 + (up clamped to -7 .. 7)
RF_DEVICE float clamped_swish_times(float gate, float up) {
  constexpr float kLimit = 7.0f, kSlope = 1.702f;
  const float g = gate > kLimit ? kLimit : gate;
  const float u = up > kLimit ? kLimit : up < -kLimit ? -kLimit : up;
  return quotient_f32(g, 1.0f + exp_f32(-kSlope * g)) * (u + 1.0f);
}

}  // namespace rocmforge::gpu::RF_KERNELS
