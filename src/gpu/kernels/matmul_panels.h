#pragma once
// Matrix products of weights with many rows on NVIDIA's Hopper, both as panels of F16 (kernels/panels.h). Every device
// has kernels/matmul_fragments.cu: the same products up to rounding.

#include <cstdint>

#include "gpu/kernels/panels.h"

namespace rocmforge::gpu {

// n outputs of a weight, from first_out on.
struct PanelsPart {
  float* out;         // n_rows x n_out
  const float* bias;  // n_out, or null
  uint32_t n_out;
  uint32_t first_out;
  uint32_t n;
};

// Kernels: matmul_panels_128 and matmul_panels_256, for 128 or 256 rows per block.
struct MatmulPanelsArgs {
  const uint8_t* weights;  // the parts' weights, each in whole panels
  const uint8_t* inputs;
  const float* scales;  // n_rows: scales of the panels' rows
  uint32_t n_rows;
  uint32_t width;  // a multiple of 64
  uint32_t n_parts;
  PanelsPart parts[3];
};

inline constexpr uint32_t kMatmulPanelsThreads = 384;
inline constexpr uint32_t kMatmulPanelsBlocks = 132;  // blocks at a time: the multiprocessors of an H100 or H200

constexpr uint32_t matmul_panels_stages(uint32_t rows) {
  return rows == 256 ? 4 : 6;
}
// Pipeline stages, barriers, scales of rows, and padding to align to 1024 bytes.
constexpr uint32_t matmul_panels_shared_bytes(uint32_t rows) {
  return matmul_panels_stages(rows) * (kWeightPanelRows + rows) * kPanelRowBytes + 256 + rows * 4 + 1024;
}

struct MatmulPanelsShape {
  uint32_t rows;  // of a block
  Grid grid;
};
// For n_sets panels of outputs. Blocks compute 256 rows, or 128 where that would leave multiprocessors idle. Two
// neighbours along z (a cluster) have the same rows; sets of rows are consecutive, so that weights are read from memory
// once.
inline MatmulPanelsShape matmul_panels_shape(uint32_t n_sets, uint32_t n_rows) {
  const auto cost = [&](uint32_t rows) {
    const uint32_t n_blocks = padded_to(n_sets, 2) * (padded_to(n_rows, rows) / rows);
    return padded_to(n_blocks, kMatmulPanelsBlocks) / kMatmulPanelsBlocks * (rows + 16);
  };
  const uint32_t rows = cost(256) <= cost(128) ? 256 : 128;
  return {rows, Grid{padded_to(n_rows, rows) / rows, padded_to(n_sets, 2) / 2, 2, 2}};
}

}  // namespace rocmforge::gpu
