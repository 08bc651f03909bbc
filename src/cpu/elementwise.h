#pragma once
// Functions of single elements that few families use: plain loops, the same on every instruction set.

#include <cstddef>

namespace rocmforge::cpu {

// values[i] = limit * tanh(values[i] / limit)
void cap(float* values, size_t n, float limit);

// Activation::clamped_swish of gate, times 1 + up (model/spec.h); outputs may be inputs.
void clamped_swish_multiply(float* to, const float* gate, const float* up, size_t n);

}  // namespace rocmforge::cpu
