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
  void* cache;  // of the layer, page 0
  const float* keys;
  const float* values;  // n_rows x width each
  BatchView batch;
  uint32_t width;
};

// Kernels attend_TYPE_SIZE: heads of up to SIZE elements, and (attend_matrix.h) their like for matrix instructions.
//
// A block takes a row, some query heads that share keys and values, and chunks of the row's positions: every
// n_blocks-th. What it finds of a chunk goes to `parts`; the block that comes last for a row and its heads puts the
// chunks together, in their order. Where a row is cut depends on its own length alone, read on the device: neither the
// number of blocks nor which of them is last changes a bit.
struct AttendArgs {
  float* out;  // n_rows x n_heads x head_size
  const float* q;
  const void* cache;   // of the layer, page 0
  const float* sinks;  // n_heads, or null
  BatchView batch;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t head_size;
  uint32_t window;  // positions a row looks back, itself included; 0: all
  float scale;
  float softcap;                 // 0: none
  uint32_t min_tiled_rows = 0;   // not 0: sequences with so many rows were done by attend_tiles
  uint32_t n_blocks = 1;         // that share a row's chunks: the grid's third number
  float* parts = nullptr;        // n_rows x n_heads x kMaxChunks x attend_part_floats(head_size): sums
  float* tops = nullptr;         // n_rows x n_heads x kMaxChunks x 2: largest score, sum of e^(score - largest)
  uint32_t* arrivals = nullptr;  // n_rows x blocks beside each other: zeros, before and after
};

// Rows are cut at multiples of kChunkStep positions into chunks of this many, or, when there would be more than
// kMaxChunks, of more.
inline constexpr uint32_t kChunkStep = 32;
inline constexpr uint32_t kMinChunkPositions = 128;
inline constexpr uint32_t kMaxChunks = 32;

// Floats of a head's part: whole 16-byte words.
inline uint32_t attend_part_floats(uint32_t head_size) {
  return (head_size + 3) / 4 * 4;
}

inline constexpr uint32_t kStoreKvThreads = 256;
inline constexpr uint32_t kAttendThreads = 128;
inline constexpr uint32_t kMinHeadSize = 8;
inline constexpr uint32_t kMaxHeadSize = 256;

inline Grid store_kv_grid(uint32_t n_rows, uint32_t width) {
  return {n_rows, (width + kStoreKvThreads - 1) / kStoreKvThreads};
}

// Query heads of a block.
inline constexpr uint32_t kAttendHeads = 4;

// Blocks beside each other for all heads of a row, when a block takes n.
inline uint32_t attend_head_blocks(const AttendArgs& args, uint32_t n) {
  return args.n_kv_heads * ((args.n_heads / args.n_kv_heads + n - 1) / n);
}
inline Grid attend_grid(uint32_t n_rows, const AttendArgs& args, uint32_t heads_of_block = kAttendHeads) {
  return {n_rows, attend_head_blocks(args, heads_of_block), args.n_blocks};
}

// Blocks for the chunks of a row: together as many as an H200 runs at a time. More would begin and join more often, and
// come in vain where rows turn out to be short.
inline uint32_t attend_blocks_of_row(uint32_t n_rows, uint32_t head_blocks, uint32_t longest, uint32_t window) {
  constexpr uint32_t kEnough = 264;
  const uint32_t seen = window != 0 && window < longest ? window : longest;
  const uint32_t n_chunks = (seen + kChunkStep - 1 + kMinChunkPositions - 1) / kMinChunkPositions;
  const uint32_t n = kEnough / (n_rows * head_blocks);
  const uint32_t most = n_chunks < kMaxChunks ? n_chunks : kMaxChunks;
  return n < 1 ? 1 : n < most ? n : most;
}

}  // namespace rocmforge::gpu
