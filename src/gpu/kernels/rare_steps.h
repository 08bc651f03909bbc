#pragma once
// What few families compute, element by element. Outputs may be inputs.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/elementwise.h"

namespace rocmforge::gpu {

// relu_multiply, relu_squared_multiply, xielu_multiply, clamped_silu_multiply   out = activation(a) * b; without a b it
// is 1. The numbers are those of plan/step.h, Xielu's in the order of its fields.
struct RareActivateArgs {
  float* out;
  const float* a;
  const float* b;
  uint64_t n;
  float clamp;
  float xielu[4];
};

// clamp: x within +-limit
struct ClampArgs {
  float* x;
  uint64_t n;
  float limit;
};

// gate: out[i] = in[i] * sigmoid or softplus of gate[i / group]
struct GateArgs {
  float* out;
  const float* in;
  const float* gate;
  uint64_t n;
  uint32_t group;
  uint32_t is_softplus;
};

// temper: rows of x times 1 + scale ln(floor((position + offset) / length) + 1)
struct TemperArgs {
  float* x;
  const uint32_t* positions;  // by row
  uint64_t n;
  uint32_t width;
  float scale;
  uint32_t length, offset;
};

// scale_by: x times one number
struct ScaleByArgs {
  float* x;
  const float* by;
  uint64_t n;
};

// take_columns: out[r] = elements [first, first + width) of in[r]
struct TakeColumnsArgs {
  float* out;
  const float* in;
  uint64_t n;
  uint32_t width, in_width, first;
};

// weigh: x[i] times the weight of pair i / width of routing; forget_weights: n weights become 1
struct WeighArgs {
  float* x;
  float* routing;  // pairs (expert, weight)
  uint64_t n;
  uint32_t width;
};

inline Grid rare_grid(uint64_t n) {
  return {static_cast<uint32_t>((n + kElementThreads - 1) / kElementThreads)};
}

}  // namespace rocmforge::gpu
