#pragma once
// The key-value cache and causal attention over it. The cache of a layer:
//
//   page -> keys | values -> position (64) -> all heads' elements        (f16 or f32)

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/batch_view.h"

namespace rocmforge::gpu {

inline constexpr uint32_t kPagePositions = 64;

struct StoreKvArgs {
  void* cache;          // of the layer, page 0
  const float* keys;    // n_rows x width
  const float* values;  // n_rows x value_width
  BatchView batch;
  uint32_t width;
  uint32_t value_width;
};

// Kernels attend_TYPE_SIZE for heads of up to SIZE elements, and (attend_matrix.h) the same with matrix instructions.
// Kernels attend_any_TYPE_SIZE (attend_any.h) have larger heads, keys and values of different size, and ALiBi.
//
// A block computes one row, some query heads that share keys and values, and every n_blocks-th chunk of the row's
// positions. Its result for a chunk is a partial sum in `parts`; the last block to arrive for a row and its heads
// reduces the chunks in their order. The division into chunks depends only on the row's own length, read on the device,
// so neither the number of blocks nor their order of arrival changes a bit.
struct AttendArgs {
  float* out;  // n_rows x n_heads x value_size
  const float* q;
  const void* cache;   // of the layer, page 0
  const float* sinks;  // n_heads, or null
  BatchView batch;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t head_size;   // of queries and keys
  uint32_t value_size;  // of values and output: head_size but for kernels attend_any_TYPE_SIZE
  uint32_t window;      // positions a row attends to, itself included; 0: all
  float scale;
  float softcap;                 // 0: none
  uint32_t chunk = 0;            // 0: none; else a row attends to positions from the last multiple of this on
  float alibi_bias = 0;          // plan/step.h; 0 but for kernels that have it
  uint32_t min_tiled_rows = 0;   // not 0: attend_tiles has already computed sequences with at least this many rows
  uint32_t n_blocks = 1;         // blocks that divide a row's chunks: the grid's z dimension
  float* parts = nullptr;        // partial sums: n_rows x n_heads x kMaxChunks x attend_part_floats(head_size)
  float* tops = nullptr;         // n_rows x n_heads x kMaxChunks x 2: largest score, sum of e^(score - largest)
  uint32_t* arrivals = nullptr;  // n_rows x blocks along y; zero before and after
};

// Rows are divided at multiples of kChunkStep positions into chunks of that many, or of more if there would be more
// than kMaxChunks.
inline constexpr uint32_t kChunkStep = 32;
inline constexpr uint32_t kMinChunkPositions = 128;
inline constexpr uint32_t kMaxChunks = 32;

// Floats of a head's partial sum, padded to whole 16-byte words.
inline uint32_t attend_part_floats(uint32_t head_size) {
  return (head_size + 3) / 4 * 4;
}

inline constexpr uint32_t kStoreKvThreads = 256;
inline constexpr uint32_t kAttendThreads = 128;
inline constexpr uint32_t kMinHeadSize = 8;
inline constexpr uint32_t kMaxHeadSize = 256;
inline constexpr uint32_t kMaxAnyKeySize = 576, kMaxAnyValueSize = 512;  // of attend_any_TYPE_SIZE

inline Grid store_kv_grid(uint32_t n_rows, const StoreKvArgs& args) {
  const uint32_t most = args.width > args.value_width ? args.width : args.value_width;
  return {n_rows, (most + kStoreKvThreads - 1) / kStoreKvThreads};
}

// Query heads of a block.
inline constexpr uint32_t kAttendHeads = 4;

// Blocks along y for all heads of a row, when a block computes n heads.
inline uint32_t attend_head_blocks(const AttendArgs& args, uint32_t n) {
  return args.n_kv_heads * ((args.n_heads / args.n_kv_heads + n - 1) / n);
}
inline Grid attend_grid(uint32_t n_rows, const AttendArgs& args, uint32_t heads_of_block = kAttendHeads) {
  return {n_rows, attend_head_blocks(args, heads_of_block), args.n_blocks};
}

// Blocks for the chunks of a row: with all rows, as many as an H200 runs at a time. More blocks would cost more
// start-up and reduction, and be idle for short rows.
// most_seen: positions that a row attends to at most; 0: all
inline uint32_t attend_blocks_of_row(uint32_t n_rows, uint32_t head_blocks, uint32_t longest, uint32_t most_seen) {
  constexpr uint32_t kEnough = 264;
  const uint32_t seen = most_seen != 0 && most_seen < longest ? most_seen : longest;
  const uint32_t n_chunks = (seen + kChunkStep - 1 + kMinChunkPositions - 1) / kMinChunkPositions;
  const uint32_t n = kEnough / (n_rows * head_blocks);
  const uint32_t most = n_chunks < kMaxChunks ? n_chunks : kMaxChunks;
  return n < 1 ? 1 : n < most ? n : most;
}

}  // namespace rocmforge::gpu
