#include "cpu/elementwise.h"

#include <algorithm>
#include <cmath>

namespace rocmforge::cpu {

void cap(float* values, size_t n, float limit) {
  for (size_t i = 0; i < n; i++) values[i] = limit * std::tanh(values[i] / limit);
}

void clamped_swish_multiply(float* to, const float* gate, const float* up, size_t n) {
  constexpr float kLimit = 7.0f, kSlope = 1.702f;
  for (size_t i = 0; i < n; i++) {
    const float g = std::min(gate[i], kLimit);
    const float u = std::clamp(up[i], -kLimit, kLimit);
    to[i] = g / (1.0f + std::exp(-kSlope * g)) * (u + 1.0f);
  }
}

}  // namespace rocmforge::cpu
