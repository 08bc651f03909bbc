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

// gate: out[i] = in[i] * f(gate[i / group])
enum class GateKind : uint32_t { sigmoid, softplus, plain };
struct GateArgs {
  float* out;
  const float* in;
  const float* gate;
  uint64_t n;
  uint32_t group;
  GateKind kind;
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

// take_columns: out[r][out_first + i] = in[r][first + i / each * period + i % each] for i < width
struct TakeColumnsArgs {
  float* out;
  const float* in;
  uint64_t n;
  uint32_t width, in_width, first;
  uint32_t each, period;
  uint32_t out_width, out_first;
};

// weigh: x[i] times the weight of pair i / width of routing; forget_weights: n weights become 1
struct WeighArgs {
  float* x;
  float* routing;  // pairs (expert, weight)
  uint64_t n;
  uint32_t width;
};

// scale_columns: x[r][i] times by[i]
struct ScaleColumnsArgs {
  float* x;
  const float* by;
  uint64_t n;
  uint32_t width;
};

// mix_streams: MixStreams of plan/step.h, an element of the output a thread. coefficients: by row; null: all are 1
struct MixStreamsArgs {
  float* out;
  const float* in;
  const float* coefficients;
  uint64_t n;
  uint32_t width;  // of a stream
  uint32_t n_in, n_out, first;
  float offset, scale;
};

// match_length: a block scales one of n_groups groups of x in a row to the length of the row of `like`
struct MatchLengthArgs {
  float* x;
  const float* like;
  uint32_t width, n_groups;
};

// cut_row: a block cuts a row at mean + factor * deviation
struct CutRowArgs {
  float* x;
  uint32_t width;
  float factor;
};

inline Grid rare_grid(uint64_t n) {
  return {static_cast<uint32_t>((n + kElementThreads - 1) / kElementThreads)};
}

}  // namespace rocmforge::gpu
