#pragma once
// Matrix products of weights with many rows on every device, both as panels of packed tiles (kernels/panels.h).

#include "gpu/kernels/matmul_panels.h"

namespace rocmforge::gpu {

// Kernels: matmul_fragments_64 and matmul_fragments_128, for 64 or 128 rows a block. A block computes kWeightPanelRows
// outputs. They take MatmulPanelsArgs; the inputs are panels of whole blocks' rows, of which those past n_rows may hold
// anything.
inline constexpr uint32_t kMatmulFragmentsThreads = 256;

constexpr uint32_t matmul_fragments_rows(uint32_t n_rows) {
  return n_rows <= 64 ? 64 : 128;
}
inline Grid matmul_fragments_grid(uint32_t n_sets, uint32_t n_rows) {
  const uint32_t rows = matmul_fragments_rows(n_rows);
  return {(n_rows + rows - 1) / rows, n_sets};
}

}  // namespace rocmforge::gpu
