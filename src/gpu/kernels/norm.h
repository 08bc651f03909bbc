#pragma once
// Root-mean-square and layer normalisation.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

// Each `group` consecutive elements of a row by themselves: the whole row, or a head.
struct NormArgs {
  float* out;  // n_rows x n_groups x group; may be in
  const float* in;
  const float* weight;
  const float* bias;  // or null
  uint32_t group;
  uint32_t n_groups;     // of a row
  uint32_t weight_step;  // from one group's weights and biases to the next one's; 0: all have the same
  float epsilon;
};

inline constexpr uint32_t kNormThreads = 256;

inline Grid norm_grid(uint32_t n_rows, uint32_t n_groups) {
  return {n_rows, n_groups};
}

}  // namespace rocmforge::gpu
