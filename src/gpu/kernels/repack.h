#pragma once
// Repacks blocks from the file's layout into planes.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/packed/planes.h"

namespace rocmforge::gpu {

struct RepackArgs {
  uint8_t* planes[kMaxPlanes];  // the destination of the first of these blocks in each plane
  const uint8_t* blocks;
  PlaneTable table;
  uint64_t n_blocks;
};

inline constexpr uint32_t kRepackThreads = 256;
inline constexpr uint32_t kRepackBlocks = 64;  // format blocks that a thread block moves

inline Grid repack_grid(uint64_t n_blocks) {
  return {static_cast<uint32_t>((n_blocks + kRepackBlocks - 1) / kRepackBlocks)};
}

}  // namespace rocmforge::gpu
