#pragma once
// Root-mean-square and layer normalisation, with what comes before and after it: a sum that is normalised, and 8-bit
// integers of the result.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/quantize.h"

namespace rocmforge::gpu {

// Each `group` consecutive elements of a row by themselves: the whole row, or a head.
struct NormArgs {
  float* out;  // n_rows x n_groups x group; may be in
  const float* in;
  const float* weight;  // or null: 1
  const float* bias;    // or null
  uint32_t group;
  uint32_t n_groups;     // of a row
  uint32_t weight_step;  // from one group's weights and biases to the next one's; 0: all have the same
  float epsilon;
  // Not null: in + added_scale * added is normalised, and put where `in` is.
  const float* added = nullptr;
  float added_scale = 1;
  // Not null: the result, quantized. Groups are multiples of 32 then.
  int8_t* q = nullptr;
  ActivationScale* scales = nullptr;
};

inline constexpr uint32_t kNormThreads = 256;
inline constexpr uint32_t kNormPerThread = 16;

inline Grid norm_grid(uint32_t n_rows, uint32_t n_groups) {
  return {n_rows, n_groups};
}

}  // namespace rocmforge::gpu
