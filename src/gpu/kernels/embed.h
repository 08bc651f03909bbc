#pragma once
// Rows of a weight as f32. Kernels by format: embed_FORMAT.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/packed/planes.h"

namespace rocmforge::gpu {

// out[r] = scale * table[rows[r]]; added to out[r] if `adds`
struct EmbedArgs {
  Planes table;
  float* out;            // n x width
  const uint32_t* rows;  // n; null: row 0 of the table, once
  uint32_t width;
  float scale = 1;
  uint32_t adds = 0;
};

inline constexpr uint32_t kEmbedThreads = 128;

inline Grid embed_grid(uint32_t n_rows) {
  return {n_rows};
}

}  // namespace rocmforge::gpu
