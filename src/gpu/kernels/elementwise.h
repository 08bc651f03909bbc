#pragma once
// Elementwise steps.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/quantize.h"

namespace rocmforge::gpu {

// silu_multiply, gelu_multiply, clamped_swish_multiply   out = activation(a) * b; activation(a) if b is null
// add                                                    out = a + scale * b
// scale_and_cap                                          out = cap * tanh(scale * a / cap); with a cap of 0, scale * a
//
// Outputs may be inputs.
struct ElementArgs {
  float* out;
  const float* a;
  const float* b;
  uint64_t n;
  float scale = 1;
  float cap = 0;
  // Not null: also quantizes the result. n must be a multiple of 32.
  int8_t* q = nullptr;
  ActivationScale* scales = nullptr;
};

// out[r] = in[rows[r]]
struct TakeRowsArgs {
  float* out;
  const float* in;
  const uint32_t* rows;
  uint32_t width;
};

inline constexpr uint32_t kElementThreads = 256;
inline constexpr uint32_t kElementsPerThread = 4;

inline Grid element_grid(uint64_t n) {
  constexpr uint64_t kPerBlock = kElementThreads * kElementsPerThread;
  return {static_cast<uint32_t>((n + kPerBlock - 1) / kPerBlock)};
}
inline Grid row_grid(uint32_t n_rows, uint32_t width) {
  return {n_rows, (width + kElementThreads - 1) / kElementThreads};
}

}  // namespace rocmforge::gpu
