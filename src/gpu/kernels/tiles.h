#pragma once
// Activations as F16 tiles, the input of Hopper's matrix kernel (kernels/matmul_hopper.h).
//
// A tile holds 32 columns of `tile_rows` rows, 64 bytes a row; tiles of one set of rows are consecutive. The order of
// the columns depends on the weight's format: within 256 of them, step j of 16 columns takes from lane t (of four) word
// j % 4 of its group j / 4, and that group is the one the lane reads from the weight's planes. So weights go from their
// planes into a fragment without data movement between lanes. The 16-byte quarters of a row are swizzled as the matrix
// unit requires: quarter c of row r is stored at c ^ (r / 2 % 4).
//
// A row that exceeds the range of halves is scaled down (kernels/row_scale.h), and the product scales its sums up.

#include <cstdint>

#include "gpu/kernels/experts.h"

namespace rocmforge::gpu {

inline constexpr uint32_t kTileColumns = 32;
inline constexpr uint32_t kTileRowBytes = 64;

// Kernels: tiles_FORMAT.
struct TilesArgs {
  uint8_t* tiles;
  float* scales;   // n_rows: the factors for the product's sums
  const float* x;  // n_rows x width
  uint32_t n_rows;
  uint32_t width;      // a multiple of 256
  uint32_t tile_rows;  // rows past n_rows are zeros
  // Not null: tile t holds the inputs of the pairs of tile t of the groups, one input for pairs_per_input neighbouring
  // pairs. Then n_rows is tile_rows for each tile that there can be.
  ExpertGroups groups = {};
  uint32_t pairs_per_input = 1;
};

inline constexpr uint32_t kTilesThreads = 256;

inline uint32_t padded_rows(uint32_t n_rows, uint32_t tile_rows) {
  return (n_rows + tile_rows - 1) / tile_rows * tile_rows;
}

// A block converts one row.
inline Grid tiles_grid(const TilesArgs& args) {
  return {padded_rows(args.n_rows, args.tile_rows)};
}

}  // namespace rocmforge::gpu
