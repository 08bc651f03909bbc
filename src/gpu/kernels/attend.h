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

// Kernels attend_TYPE_SIZE: heads of up to SIZE elements. A block takes a row, a head and a chunk of the row's
// positions; join_chunks puts the chunks of a row together. Where a row is cut depends on its own length alone, read on
// the device: a grid of more chunks than a row has, as a graph keeps it, gives the same bits.
struct AttendArgs {
  float* out;  // n_rows x n_heads x head_size
  const float* q;
  const void* cache;   // of the layer, page 0
  float* parts;        // n_rows x n_heads x kMaxChunks x (head_size + 2): sums, then maximum and total; null: one chunk
  const float* sinks;  // n_heads, or null
  BatchView batch;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t head_size;
  uint32_t window;  // positions a row looks back, itself included; 0: all
  float scale;
  float softcap;                // 0: none
  uint32_t min_tiled_rows = 0;  // not 0: sequences with so many rows were done by attend_tiles
};

// Rows are cut into chunks of this many positions, or, when there would be more than kMaxChunks, of more.
inline constexpr uint32_t kMinChunkPositions = 256;
inline constexpr uint32_t kMaxChunks = 32;

inline constexpr uint32_t kStoreKvThreads = 256;
inline constexpr uint32_t kAttendThreads = 128;
inline constexpr uint32_t kMinHeadSize = 8;
inline constexpr uint32_t kMaxHeadSize = 256;

inline Grid store_kv_grid(uint32_t n_rows, uint32_t width) {
  return {n_rows, (width + kStoreKvThreads - 1) / kStoreKvThreads};
}
inline Grid attend_grid(uint32_t n_rows, uint32_t n_heads, uint32_t n_chunks) {
  return {n_rows, n_heads, n_chunks};
}

}  // namespace rocmforge::gpu
