#pragma once
// For products of grouped rows (kernels/experts.h): the tile that a block computes, and where its expert's weights are.

#include "gpu/kernels/experts.h"
#include "gpu/packed/planes.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// The planes of an expert; `w` are those of the first. The offset is negative for an expert stored before it.
RF_DEVICE Planes planes_of_expert(const Planes& w, const ExpertPlace& place, uint64_t expert) {
  const auto offset = static_cast<int64_t>(place.at != nullptr ? place.at[expert] : expert * place.stride);
  Planes out;
  RF_UNROLL
  for (uint32_t p = 0; p < kMaxPlanes; p++) {
    // Pointers, not integers: AMD's compiler would no longer know that these are global memory, and would wait for all
    // loads at once.
    out.at[p] = w.at[p] != nullptr ? w.at[p] + offset : nullptr;
  }
  return out;
}

// At most kRows rows of tile block_y(): those from kRows * block_z() on. A block without rows has n == 0.
struct ExpertRows {
  uint32_t expert = 0, first = 0, n = 0;
  RF_DEVICE ExpertRows(const ExpertGroups& groups, uint32_t max_rows) {
    if (block_y() >= *groups.n_tiles) return;
    const ExpertTile tile = groups.tiles[block_y()];
    const uint32_t skipped = block_z() * max_rows;
    if (skipped >= tile.n) return;
    expert = tile.expert;
    first = tile.first + skipped;
    n = tile.n - skipped < max_rows ? tile.n - skipped : max_rows;
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
