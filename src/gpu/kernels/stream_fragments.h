#pragma once
// Matrix products of weights with few rows of activations on every device: the weights' bytes are read once, decoded in
// registers and multiplied by matrix fragments.
//
// A block computes a tile of outputs for up to 64 rows. With few tiles the width is split (split-K): the blocks of a
// tile compute slices of it and write partial sums, and the last one to arrive adds them in order. The number of slices
// depends on the weights alone, so a row has the same bits among any other rows.

#include <algorithm>
#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/panels.h"

namespace rocmforge::gpu {

// Kernels: stream_fragments_FORMAT_16, _32 and _64, by rows of a block.
struct StreamFragmentsArgs {
  MatvecPart parts[3];    // of one format with one input
  const uint8_t* inputs;  // panels of whole blocks' rows, in the order tiles_by_column (kernels/panels.h)
  const float* scales;    // of the panels' rows
  uint32_t n_rows;
  uint32_t width;  // a multiple of kPackedColumns
  uint32_t n_slices;
  float* partial;      // for more than one slice: stream_fragments_partial() numbers
  uint32_t* counters;  // likewise: one for each tile and set of rows, zero before and after
};

inline constexpr uint32_t kStreamFragmentsThreads = 256;
// With more rows, panels take less time; with fewer, products of bytes do (kernels/matvec.h), which compute eight rows
// at once.
inline constexpr uint32_t kStreamFragmentsMaxRows = 64;
constexpr uint32_t stream_fragments_min_rows(bool has_matrix_unit) {
  return has_matrix_unit ? 2 : 17;
}

constexpr uint32_t stream_fragments_rows(uint32_t n_rows) {
  return n_rows <= 16 ? 16 : n_rows <= 32 ? 32 : 64;
}
// A wave computes sixteen outputs.
RF_HOST_DEVICE constexpr uint32_t stream_fragments_outputs(uint32_t wave) {
  return kStreamFragmentsThreads / wave * kPackedRows;
}
RF_HOST_DEVICE constexpr uint32_t stream_fragments_tiles(uint32_t n_out, uint32_t wave) {
  return (n_out + stream_fragments_outputs(wave) - 1) / stream_fragments_outputs(wave);
}
// About two blocks for each multiprocessor of a large card, and no slice below 512 columns.
constexpr uint32_t stream_fragments_slices(uint32_t n_tiles, uint32_t width) {
  constexpr uint32_t kBlocks = 264, kMost = 16, kLeastColumns = 512;
  return std::clamp(kBlocks / n_tiles, 1u, std::clamp(width / kLeastColumns, 1u, kMost));
}
inline Grid stream_fragments_grid(uint32_t n_tiles, uint32_t n_slices, uint32_t n_rows) {
  const uint32_t rows = stream_fragments_rows(n_rows);
  return {n_tiles, n_slices, (n_rows + rows - 1) / rows};
}
constexpr uint64_t stream_fragments_partial(uint32_t n_tiles, uint32_t n_slices, uint32_t n_rows, uint32_t wave) {
  const uint32_t rows = stream_fragments_rows(n_rows);
  return uint64_t{n_tiles} * n_slices * ((n_rows + rows - 1) / rows * rows) * stream_fragments_outputs(wave);
}

}  // namespace rocmforge::gpu
