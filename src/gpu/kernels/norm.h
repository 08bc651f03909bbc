#pragma once
// Root-mean-square and layer normalisation.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

struct NormArgs {
  float* out;  // may be in
  const float* in;
  const float* weight;
  const float* bias;  // or null
  uint32_t width;
  float epsilon;
};

inline constexpr uint32_t kNormThreads = 256;

inline Grid norm_grid(uint32_t n_rows) {
  return {n_rows};
}

}  // namespace rocmforge::gpu
