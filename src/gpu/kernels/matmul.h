#pragma once
// Matrix products of a weight with many rows of activations, in tiles.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/packed/planes.h"

namespace rocmforge::gpu {

// out[r] = w * x[r] + bias
struct MatmulArgs {
  Planes w;
  float* out;         // n_rows x n_out
  const float* bias;  // n_out, or null
  const float* x;     // n_rows x width
  uint32_t n_out;
  uint32_t n_rows;
  uint32_t width;  // a multiple of 16; for f32 any
};

inline constexpr uint32_t kMatmulThreads = 256;
inline constexpr uint32_t kMatmulTile = 64;  // rows and outputs of a block

inline Grid matmul_grid(uint32_t n_out, uint32_t n_rows) {
  return {(n_out + kMatmulTile - 1) / kMatmulTile, (n_rows + kMatmulTile - 1) / kMatmulTile};
}

}  // namespace rocmforge::gpu
