#pragma once
// Attention of many rows of one sequence at a time, by matrix fragments, over a cache of F16.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/attend.h"

namespace rocmforge::gpu {

// Sequences with at least this many rows in a batch use this kernel; attend_f16_SIZE computes the others.
inline constexpr uint32_t kMinTiledRows = 16;

// Kernels: attend_tiles_64 and attend_tiles_128, for heads of up to so many elements, in multiples of eight, keys as
// long as values; attend_tiles_alibi_64 and attend_tiles_alibi_128 are the same with ALiBi.
// args.attend.parts is not used.
struct AttendTilesArgs {
  AttendArgs attend;
  uint32_t n_rows;
};

inline constexpr uint32_t kAttendTilesThreads = 128;
inline constexpr uint32_t kMaxTiledHeadSize = 128;

inline bool has_attend_tiles(uint32_t head_size) {
  return head_size % 8 == 0 && head_size <= kMaxTiledHeadSize;
}
// A wave computes sixteen rows.
inline Grid attend_tiles_grid(uint32_t n_rows, uint32_t n_heads, uint32_t wave) {
  const uint32_t tile = kAttendTilesThreads / wave * 16;
  return {(n_rows + tile - 1) / tile, n_heads};
}

}  // namespace rocmforge::gpu
