#pragma once
// Attention of many rows of one sequence with Hopper's matrix instructions. The reference implementation is
// kernels/attend_tiles.h: the same rows and the same sums up to rounding; this one has no softcap.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/attend_tiles.h"

namespace rocmforge::gpu {

// Kernels: attend_hopper_64 and attend_hopper_128, for heads of up to so many elements, in multiples of eight.
inline constexpr uint32_t kAttendHopperThreads = 256;
inline constexpr uint32_t kAttendHopperRows = 128;  // of a block

// Queries, two pipeline stages of keys and values, scales of rows; the kernel aligns them to 1024 bytes.
inline uint32_t attend_hopper_shared_bytes(uint32_t head_size) {
  return (head_size <= 64 ? 64 : 128) * 2 * (kAttendHopperRows + 2 * 2 * kPagePositions) + kAttendHopperRows * 4 + 1024;
}
inline bool has_attend_hopper(uint32_t head_size, float softcap) {
  return has_attend_tiles(head_size) && softcap == 0.0f;
}
// The last rows attend to the most positions and come first.
inline Grid attend_hopper_grid(uint32_t n_rows, uint32_t n_heads) {
  return {n_heads, (n_rows + kAttendHopperRows - 1) / kAttendHopperRows};
}

}  // namespace rocmforge::gpu
