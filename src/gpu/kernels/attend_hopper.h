#pragma once
// Attention of many rows of one sequence at a time, by Hopper's matrix instructions. Twin of kernels/attend_tiles.h:
// the same rows, the same sums up to rounding; scores without a cap.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/attend_tiles.h"

namespace rocmforge::gpu {

// Kernels: attend_hopper_64 and attend_hopper_128, for heads of up to so many elements, in multiples of eight.
inline constexpr uint32_t kAttendHopperThreads = 256;
inline constexpr uint32_t kAttendHopperRows = 128;  // of a block

// Queries, two stages of keys and values, scales of rows; aligned to 1024 bytes by the kernel.
inline uint32_t attend_hopper_shared_bytes(uint32_t head_size) {
  return (head_size <= 64 ? 64 : 128) * 2 * (kAttendHopperRows + 2 * 2 * kPagePositions) + kAttendHopperRows * 4 + 1024;
}
inline bool has_attend_hopper(uint32_t head_size, float softcap) {
  return has_attend_tiles(head_size) && softcap == 0.0f;
}
// The last rows, which look back the furthest, come first.
inline Grid attend_hopper_grid(uint32_t n_rows, uint32_t n_heads) {
  return {n_heads, (n_rows + kAttendHopperRows - 1) / kAttendHopperRows};
}

}  // namespace rocmforge::gpu
