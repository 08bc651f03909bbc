#pragma once
// Root-mean-square and layer normalisation. Optionally adds the residual before, and quantizes the result to 8-bit
// integers.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/quantize.h"

namespace rocmforge::gpu {

// Normalises each `group` of consecutive elements by itself: a whole row, or a head.
struct NormArgs {
  float* out;  // n_rows x n_groups x group; may be in
  const float* in;
  const float* weight;  // or null: 1
  const float* bias;    // or null
  uint32_t group;
  uint32_t n_groups;     // per row
  uint32_t weight_step;  // offset from one group's weights and biases to the next one's; 0: all groups use the same
  float epsilon;
  // Not null: computes in + added_scale * added, normalises that, and stores it in `in`.
  const float* added = nullptr;
  float added_scale = 1;
  // Not null: also quantizes the result. Groups must be multiples of 32.
  int8_t* q = nullptr;
  ActivationScale* scales = nullptr;
};

inline constexpr uint32_t kNormThreads = 256;
inline constexpr uint32_t kNormPerThread = 16;

inline Grid norm_grid(uint32_t n_rows, uint32_t n_groups) {
  return {n_rows, n_groups};
}

}  // namespace rocmforge::gpu
