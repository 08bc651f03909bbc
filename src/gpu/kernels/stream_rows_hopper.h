#pragma once
// Products of quantized weights with 17 to 128 rows of activations on Hopper, fused with the norm before and the sum or
// activation after them: kernels/stream_many_hopper.h for more rows, for the formats of packed/exact_strips.h.
//
// A block computes a tile of 256 outputs (128 outputs above 64 rows) over all or a slice of the width; weights and
// inputs pass through its shared memory. With fewer tiles than multiprocessors the width is split (split-K): several
// blocks compute slices ("shares") of one tile, write partial sums to memory, wait for each other at a barrier, and
// each block reduces some of the rows. The split depends only on the weights and the tile size. So a row's bits are the
// same for all row counts up to 64, and for all from 65 to 128.

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu {

constexpr bool has_rows_kernels(DType dtype) {
#define RF_OR_FORMAT(name, Block) || dtype == DType::name
  return false RF_ROWS_FORMATS(RF_OR_FORMAT);
#undef RF_OR_FORMAT
}
inline constexpr uint32_t kRowsMinRows = 17, kRowsMaxRows = 128;
constexpr uint32_t rows_at_once(uint32_t n_rows) {  // of the kernel for this many rows
  return n_rows <= 32 ? 32 : n_rows <= 64 ? 64 : 128;
}

// 256 columns of `rows` rows, as stream_many_inputs writes them: four panels of halves, sums of groups as two halves
// each, a scale for each row.
constexpr uint32_t rows_input_bytes(uint32_t rows, uint32_t n_scales) {
  return rows * many_row_bytes(n_scales);
}
constexpr uint32_t rows_place_bytes(uint32_t rows, uint32_t n_scales) {
  return (rows_input_bytes(rows, n_scales) + 1023) / 1024 * 1024;
}

// How the split-K epilogue rotates (RoPE) and stores parts that have a role in attention.
struct RowsTurn {
  const float* turns = nullptr;  // this and the next: tables of row_rotations (kernels/rope.h)
  const uint32_t* cache_rows = nullptr;
  void* cache = nullptr;  // of the layer, page 0
  uint32_t width = 0;     // of the cache
  bool caches_halves = false;
  uint32_t head_size = 0, n_pairs = 0;
  bool are_halves = false;  // a pair's elements are half a head apart; else neighbours
};
// Whether the epilogue can rotate a part's outputs: only whole warps of them. A lane with four elements gets the other
// elements of their pairs from another lane.
constexpr bool can_turn_rows(const RowsTurn& turn, uint32_t n_out) {
  const bool can = turn.are_halves ? turn.head_size == 2 * turn.n_pairs && (turn.n_pairs == 32 || turn.n_pairs == 64)
                                   : turn.n_pairs % 2 == 0;
  return can && turn.head_size % 4 == 0 && n_out % 128 == 0;
}

// An RMS norm split between two products. The epilogue of the first writes the next product's inputs: the residual sum
// times the norm's weights, unscaled, because no block sees a whole row. It also writes the sum of squares of each row
// and 256 columns. From these the second product computes the row's RMS scale and applies it to its outputs. To keep
// the unscaled inputs in the range of halves, they are multiplied by a power of two near the row's previous RMS scale
// (called its lift).
// For the product that writes the inputs:
struct RowsNext {
  const float* norm_weight = nullptr;
  const float* lifts = nullptr;  // of rows
  float* squares = nullptr;      // rows x pieces
  ManyOrders to = {};
};
struct RowsNorm {  // for the product that reads the inputs
  const float* squares = nullptr;
  const float* lifts = nullptr;
  float* next_lifts = nullptr;  // receives the new lifts; a different array
  float epsilon = 0;
};

// stream_rows_FORMAT_ROWS: for sets of 32, 64 or 128 rows.
struct RowsArgs {
  const uint8_t* x;  // output of stream_many_inputs
  uint32_t n_rows = 0;
  uint32_t width = 0;
  uint32_t n_parts = 0;
  // Not store: for two parts of equal size, activated[r] = activation(first) * second.
  StreamAfter after = StreamAfter::store;
  // Blocks from first_block on, n_blocks of them. Without a split they loop over tiles; with n_shares slices per tile
  // each block computes one slice of one tile, and all blocks of a tile must be able to run at the same time.
  uint32_t first_block = 0, n_blocks = 0;
  uint32_t n_tiles = 0, n_shares = 1;
  MatvecPart parts[3] = {};  // out may be null if there is a sum or an activation
  float* activated = nullptr;
  // Not null: for a single part, sum[r] += sum_scale * out[r].
  float* sum = nullptr;
  float sum_scale = 1;
  // Not none, with a split width: outputs are rotated as their role requires; queries are written to `out`, keys and
  // values only to the cache.
  StreamRole roles[3] = {};
  RowsTurn turn = {};
  // Used if it has squares; for one set of rows.
  RowsNorm norm = {};
  // Used if it has a weight: for a sum with a split width and one set of rows, whose outputs are whole tiles of 256.
  RowsNext next = {};
  float* partial = nullptr;      // with a split width: sets x n_tiles x n_shares x kRowsTileSums
  uint32_t* counters = nullptr;  // with a split width: two per tile, zero before and after
};
// Two formats in one launch: the first one's blocks come first.
struct RowsPairArgs {
  RowsArgs first, second;
};

// Outputs of a tile: limited by the registers for the sums of a set of rows.
constexpr uint32_t rows_tile_outputs(uint32_t rows) {
  return rows == 128 ? 128 : 256;
}
inline constexpr uint32_t kRowsTileSums = 64 * 256;
constexpr uint32_t rows_sets(uint32_t n_rows, uint32_t rows) {
  return (n_rows + rows - 1) / rows;
}
constexpr uint32_t rows_threads(uint32_t rows) {  // a warp computes sixteen outputs
  return rows_tile_outputs(rows) / kStreamOutputs * 32;
}
inline constexpr uint32_t kRowsMaxShares = 8;  // with more, waiting for each other costs more than it saves
inline constexpr uint32_t kRowsMaxSlots = 6, kRowsBarrierBytes = 128, kRowsSlack = 1024;

// Tiles of all outputs, or of pairs of gate and up outputs.
constexpr uint32_t rows_tiles(uint32_t n_strips, uint32_t rows) {
  return (n_strips * kStreamOutputs + rows_tile_outputs(rows) - 1) / rows_tile_outputs(rows);
}
// The number of slices of the width, for this many tiles.
constexpr uint32_t rows_shares(uint32_t n_tiles, uint32_t n_pieces) {
  return std::max(1u, std::min({kStreamBlocks / n_tiles, n_pieces, kRowsMaxShares}));
}

// Shared memory for the pieces of a warp and the input buffers of the block, in flight or in use. With many rows: two
// input buffers, and pieces in the remaining room; else two pieces, and input buffers in the remaining room.
constexpr uint32_t rows_room() {
  return kStreamMaxShared - kRowsBarrierBytes - kRowsSlack;
}
constexpr uint32_t rows_stages(const StripShape& strip, uint32_t rows) {
  if (rows < 128) return 2;
  const uint32_t left = rows_room() - 2 * rows_place_bytes(rows, strip.n_scales);
  return std::min(left / (rows_threads(rows) / 32 * strip.stage_bytes), 4u);
}
constexpr uint32_t rows_ring_bytes(const StripShape& strip, uint32_t rows) {
  return rows_threads(rows) / 32 * rows_stages(strip, rows) * strip.stage_bytes;
}
constexpr uint32_t rows_slots(const StripShape& strip, uint32_t rows) {
  return std::min((rows_room() - rows_ring_bytes(strip, rows)) / rows_place_bytes(rows, strip.n_scales), kRowsMaxSlots);
}
constexpr uint32_t rows_shared_bytes(const StripShape& strip, uint32_t rows) {
  return kRowsBarrierBytes + kRowsSlack + rows_ring_bytes(strip, rows) +
         rows_slots(strip, rows) * rows_place_bytes(rows, strip.n_scales);
}

}  // namespace rocmforge::gpu
