#pragma once
// Matrix products of a quantized weight with two or more rows of activations on NVIDIA's Hopper: warpgroup matrix
// instructions, weights decoded in registers, activations brought by bulk copies. Every device has
// kernels/matmul_fragments.cu and, for few rows, kernels/matvec.cu: the same products up to rounding.

#include <cstdint>

#include "gpu/kernels/experts.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/tiles.h"

namespace rocmforge::gpu {

// Kernels: matmul_hopper_FORMAT_ROWS, ROWS being how many rows a block takes.
struct HopperMatmulArgs {
  MatvecPart parts[3];   // weights of one format with one input, computed by consecutive ranges of blocks
  const uint8_t* tiles;  // the rows, as tiles_FORMAT makes them with tile_rows = ROWS
  const float* scales;   // n_rows: scales of the tiles' rows
  uint32_t n_rows;
  uint32_t width;  // a multiple of 256
};

// The same with rows grouped by experts. Kernels: experts_hopper_FORMAT_ROWS. Tile t of `groups`, which has at most
// ROWS pairs, lies in rows ROWS * t and following of `tiles`; out[pair] is its product. Weights and biases are those of
// all experts, as MatvecArgs has them.
struct HopperExpertsArgs {
  HopperMatmulArgs product;  // n_rows is not read
  ExpertGroups groups;
  ExpertPlace places[3];  // of the parts
};

inline constexpr uint32_t kHopperThreads = 256;
inline constexpr uint32_t kHopperOutputs = 128;  // of a block
inline constexpr uint32_t kHopperMaxRows = 128;  // of a block

// Enough blocks to occupy an H200 (132 multiprocessors with two each).
inline constexpr uint32_t kHopperBlocks = 264;

struct HopperShape {
  uint32_t rows;  // of a block: 8, 16, 64 or 128
  Grid grid;
};

// Blocks along x for a part.
inline uint32_t hopper_across(uint32_t n_out) {
  return (n_out + kHopperOutputs - 1) / kHopperOutputs;
}

// Few rows or outputs give few blocks: then up to eight blocks (a cluster, along z) split the width of one tile and
// reduce their sums at the end. `across`: blocks along x, of all parts.
inline HopperShape hopper_shape(uint32_t across, uint32_t n_rows) {
  uint32_t rows = n_rows <= 8 ? 8 : n_rows <= 16 ? 16 : 64;
  if (n_rows > 64 && across * ((n_rows + 127) / 128) >= kHopperBlocks) rows = 128;
  const uint32_t down = (n_rows + rows - 1) / rows;
  uint32_t split = rows == 128 ? 1 : 8;
  while (split > 1 && across * down * split > kHopperBlocks + kHopperBlocks / 8) split /= 2;
  return {rows, Grid{across, down, split, split}};
}

}  // namespace rocmforge::gpu
