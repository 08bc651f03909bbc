#pragma once
// Products of weights with many rows on NVIDIA's Hopper, both as panels of F16 (kernels/panels.h). Twin of
// kernels/matmul.cu: the same products up to rounding.

#include <cstdint>

#include "gpu/kernels/panels.h"

namespace rocmforge::gpu {

// Some outputs of a weight: n of them, from first_out on.
struct PanelsPart {
  float* out;         // n_rows x n_out
  const float* bias;  // n_out, or null
  uint32_t n_out;
  uint32_t first_out;
  uint32_t n;
};

// Kernels: matmul_panels_128 and matmul_panels_256, for so many rows a block.
struct MatmulPanelsArgs {
  const uint8_t* weights;  // of the parts, each in whole panels
  const uint8_t* inputs;
  const float* scales;  // n_rows: of the panels' rows
  uint32_t n_rows;
  uint32_t width;  // a multiple of 64
  uint32_t n_parts;
  PanelsPart parts[3];
};

inline constexpr uint32_t kMatmulPanelsThreads = 384;
inline constexpr uint32_t kMatmulPanelsBlocks = 132;  // at a time: multiprocessors of an H100 and H200

constexpr uint32_t matmul_panels_stages(uint32_t rows) {
  return rows == 256 ? 4 : 6;
}
// Stages, barriers, scales of rows, and room to begin at a multiple of 1024 bytes.
constexpr uint32_t matmul_panels_shared_bytes(uint32_t rows) {
  return matmul_panels_stages(rows) * (kWeightPanelRows + rows) * kPanelRowBytes + 256 + rows * 4 + 1024;
}

struct MatmulPanelsShape {
  uint32_t rows;  // of a block
  Grid grid;
};
// For n_sets panels' outputs. Blocks take 256 rows, unless that leaves multiprocessors without work. Two neighbours
// along z (a cluster) have the same rows; sets of rows come one after the other, so that weights are read once.
inline MatmulPanelsShape matmul_panels_shape(uint32_t n_sets, uint32_t n_rows) {
  const auto cost = [&](uint32_t rows) {
    const uint32_t n_blocks = padded_to(n_sets, 2) * (padded_to(n_rows, rows) / rows);
    return padded_to(n_blocks, kMatmulPanelsBlocks) / kMatmulPanelsBlocks * (rows + 16);
  };
  const uint32_t rows = cost(256) <= cost(128) ? 256 : 128;
  return {rows, Grid{padded_to(n_rows, rows) / rows, padded_to(n_sets, 2) / 2, 2, 2}};
}

}  // namespace rocmforge::gpu
