#pragma once
// Products of an F32 weight with many rows of activations, in f32 throughout.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

// Kernel: matmul_f32.
// out (n_rows x n_out) = x (n_rows x width) * w (n_out x width)^T
struct MatmulF32Args {
  const float* w;
  float* out;
  const float* bias;  // or null
  const float* x;
  uint32_t n_out;
  uint32_t n_rows;
  uint32_t width;
};

inline constexpr uint32_t kMatmulF32Threads = 256;
// Of a block. Small, since the weights are small: routers of experts have some hundred outputs.
inline constexpr uint32_t kMatmulF32Rows = 16, kMatmulF32Outputs = 32;

inline Grid matmul_f32_grid(uint32_t n_out, uint32_t n_rows) {
  return {(n_out + kMatmulF32Outputs - 1) / kMatmulF32Outputs, (n_rows + kMatmulF32Rows - 1) / kMatmulF32Rows};
}

}  // namespace rocmforge::gpu
