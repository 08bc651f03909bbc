#pragma once
// Products of quantized weights with 17 to 128 rows of activations on Hopper, with the norm before and the sum or
// activation after them: kernels/stream_many_hopper.h for more rows, and for the formats of packed/exact_strips.h.
//
// A block has 256 outputs (a tile; 128 where rows are more than 64) and a share of the width; weights and inputs pass
// through its shared memory. Where there are fewer tiles than multiprocessors several blocks share a tile's width,
// leave their sums in memory, wait for each other, and each adds up a part of the rows. How a width is shared depends
// on the weights and on the size of tiles, so that a row's bits do not depend on how many rows there are up to 64, nor
// above.

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/stream_many_hopper.h"

namespace rocmforge::gpu {

constexpr bool has_rows_kernels(DType dtype) {
  return dtype == DType::q4_k || dtype == DType::q5_k || dtype == DType::q6_k;
}
inline constexpr uint32_t kRowsMinRows = 17, kRowsMaxRows = 128;
constexpr uint32_t rows_at_once(uint32_t n_rows) {  // of the kernel for so many
  return n_rows <= 32 ? 32 : n_rows <= 64 ? 64 : 128;
}

// 256 columns of `rows` rows, as stream_many_inputs leaves them: four panels of halves, sums of groups as two halves
// each, a factor for each row.
constexpr uint32_t rows_input_bytes(uint32_t rows, uint32_t n_scales) {
  return rows * many_row_bytes(n_scales);
}
constexpr uint32_t rows_place_bytes(uint32_t rows, uint32_t n_scales) {
  return (rows_input_bytes(rows, n_scales) + 1023) / 1024 * 1024;
}

// How parts that have roles are turned and stored, where they are added up from several shares.
struct RowsTurn {
  const float* turns = nullptr;  // this and the next: of row_turns (kernels/rope.h)
  const uint32_t* cache_rows = nullptr;
  void* cache = nullptr;  // of the layer, page 0
  uint32_t width = 0;     // of the cache
  bool caches_halves = false;
  uint32_t head_size = 0, n_pairs = 0;
  bool are_halves = false;  // pairs are a head's halves; else neighbours
};
// Of a part's outputs: whole warps of them are turned. A lane that has four elements asks the one that has the other
// four of their pairs.
constexpr bool can_turn_rows(const RowsTurn& turn, uint32_t n_out) {
  const bool can = turn.are_halves ? turn.head_size == 2 * turn.n_pairs && (turn.n_pairs == 32 || turn.n_pairs == 64)
                                   : turn.n_pairs % 2 == 0;
  return can && turn.head_size % 4 == 0 && n_out % 128 == 0;
}

// A norm (root mean square) around the inputs of products. Sums that it normalises are left by the product that makes
// them as inputs of the one that takes them, times its weights, but not scaled yet: how long a row is, all blocks know
// together. What was left of each row and 256 columns are their squares, and the product that takes the row scales its
// outputs. So that halves hold the inputs they are lifted by what would have normalised the row the last time, roughly:
// a power of two.
struct RowsNext {  // of the product that makes them
  const float* norm_weight = nullptr;
  const float* lifts = nullptr;  // of rows
  float* squares = nullptr;      // rows x pieces
  ManyOrders to = {};
};
struct RowsNorm {  // of the product that takes them
  const float* squares = nullptr;
  const float* lifts = nullptr;
  float* next_lifts = nullptr;  // another place
  float epsilon = 0;
};

// stream_rows_FORMAT_ROWS: for sets of 32, 64 or 128 rows.
struct RowsArgs {
  const uint8_t* x;  // what stream_many_inputs makes
  uint32_t n_rows = 0;
  uint32_t width = 0;
  uint32_t n_parts = 0;
  // Not store: of two parts of equal size, activated[r] = activation(first) * second.
  StreamAfter after = StreamAfter::store;
  // Blocks from first_block on, n_blocks of them. With one share they take tile after tile; with several each has one
  // share of one tile, and those of a tile must be able to run at the same time.
  uint32_t first_block = 0, n_blocks = 0;
  uint32_t n_tiles = 0, n_shares = 1;
  MatvecPart parts[3] = {};  // out may be null where there is a sum or an activation
  float* activated = nullptr;
  // Not null: of the one part, sum[r] += sum_scale * out[r].
  float* sum = nullptr;
  float sum_scale = 1;
  // Not none: the parts of several shares go, turned, where attention reads them: queries to `out`, the others into the
  // cache alone.
  StreamRole roles[3] = {};
  RowsTurn turn = {};
  // Has squares: of one set of rows.
  RowsNorm norm = {};
  // Has a weight: of a sum over several shares and one set of rows, whose outputs are whole tiles of 256.
  RowsNext next = {};
  float* partial = nullptr;      // of several shares: sets x n_tiles x n_shares x kRowsTileSums
  uint32_t* counters = nullptr;  // of several shares: two of each tile, zero before and after
};
// Of two formats: the first one's blocks come first.
struct RowsPairArgs {
  RowsArgs first, second;
};

// Of a tile: as many as a block's registers have room for the sums of a set of rows.
constexpr uint32_t rows_tile_outputs(uint32_t rows) {
  return rows == 128 ? 128 : 256;
}
inline constexpr uint32_t kRowsTileSums = 64 * 256;
constexpr uint32_t rows_sets(uint32_t n_rows, uint32_t rows) {
  return (n_rows + rows - 1) / rows;
}
constexpr uint32_t rows_threads(uint32_t rows) {  // a warp has sixteen outputs
  return rows_tile_outputs(rows) / kStreamOutputs * 32;
}
inline constexpr uint32_t kRowsMaxShares = 8;  // more would wait longer for each other than they save
inline constexpr uint32_t kRowsMaxSlots = 6, kRowsBarrierBytes = 128, kRowsSlack = 1024;

// Of outputs, or of half as many and their partners.
constexpr uint32_t rows_tiles(uint32_t n_strips, uint32_t rows) {
  return (n_strips * kStreamOutputs + rows_tile_outputs(rows) - 1) / rows_tile_outputs(rows);
}
// Into which the width of so many tiles is divided.
constexpr uint32_t rows_shares(uint32_t n_tiles, uint32_t n_pieces) {
  return std::max(1u, std::min({kStreamBlocks / n_tiles, n_pieces, kRowsMaxShares}));
}

// Pieces of a warp, and places of the block, on their way or being used: two places where rows are many, and what they
// leave; else two pieces.
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
