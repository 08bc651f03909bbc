#pragma once
// A packed tile: 16 rows of 32 columns of an operand, as 64 chunks of eight halves (1 KiB), in the order in which a
// wave's lanes hold them. A lane loads its part by 16-byte loads from neighbouring addresses.

#include <cstdint>

#include "tensor/portable.h"

namespace rocmforge::gpu {

inline constexpr uint32_t kPackedRows = 16, kPackedColumns = 32, kPackedChunks = 64;
inline constexpr uint32_t kPackedBytes = kPackedChunks * 16;

enum class TileOrder : uint32_t {
  by_row,     // chunk c of row r at 4 r + c
  by_column,  // at 16 c + r
};

RF_HOST_DEVICE constexpr uint32_t chunk_of(TileOrder order, uint32_t row, uint32_t chunk) {
  return order == TileOrder::by_row ? 4 * row + chunk : 16 * chunk + row;
}

}  // namespace rocmforge::gpu
