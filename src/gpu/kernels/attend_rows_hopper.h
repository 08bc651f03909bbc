#pragma once
// Attention of many rows, each by itself (kernels/attend.h), on Hopper, over a cache of F16: bit-identical to
// attend_matrix_SIZE. Keys and values pass through shared memory, which can hold more loads in flight than registers.

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/attend_matrix.h"

namespace rocmforge::gpu {

// Kernels attend_rows_SIZE: kAttendThreads; heads of up to SIZE elements, in multiples of eight. A block loops over
// items. An item is a row with some of its query heads and all chunks of the row: AttendArgs::n_blocks is 1.
struct AttendRowsArgs {
  AttendArgs attend;
  uint32_t n_rows = 0;
  uint32_t n_head_blocks = 0;  // attend_head_blocks(attend, kMatrixHeads)
};

inline constexpr uint32_t kAttendRowsAtOnce = 264;  // blocks that an H200 runs at a time
inline uint32_t attend_rows_items(const AttendRowsArgs& args) {
  return args.n_rows * args.n_head_blocks;
}
inline Grid attend_rows_grid(const AttendRowsArgs& args) {
  return {std::min(attend_rows_items(args), kAttendRowsAtOnce)};
}
// With fewer items it is faster to divide a row among several blocks.
inline bool has_attend_rows(const AttendRowsArgs& args) {
  return has_attend_matrix(args.attend.head_size) && args.attend.head_size <= 128 &&
         2 * attend_rows_items(args) > kAttendRowsAtOnce;
}

// Each slot of a wave's ring holds the keys or the values of one tile.
inline constexpr uint32_t kAttendRowsSlots = 3;
constexpr uint32_t attend_rows_slot_bytes(uint32_t size) {
  return 32 * size * 2;
}
constexpr uint32_t attend_rows_ring_bytes(uint32_t size) {
  return kAttendThreads / 32 * kAttendRowsSlots * attend_rows_slot_bytes(size);
}
// The ring, and the memory through which waves combine results.
constexpr uint32_t attend_rows_shared_bytes(uint32_t size) {
  return attend_rows_ring_bytes(size) + kAttendThreads / 32 * kMatrixHeads * (size + 4 + 2) * 4 + 16;
}

}  // namespace rocmforge::gpu
