#include "gpu/expert_memory.h"

#include <algorithm>

#include "gpu/product_choice.h"

namespace rocmforge::gpu {

ExpertMemory::Offsets ExpertMemory::offsets(const PassMemory& memory, bool has_hopper) {
  const ExpertsMemory& experts = memory.experts;
  const uint32_t n_pairs = memory.max_rows * experts.n_used;
  uint64_t end = 0;
  const auto take = [&](uint64_t n_bytes) {
    const uint64_t at = end;
    end += (n_bytes + 255) / 256 * 256;
    return at;
  };
  // Whatever number of rows a pass has.
  uint32_t most_tiles = 0, most_tile_rows = 0;
  for (const uint32_t tile_rows : kExpertTileRows) {
    const uint32_t n_tiles = max_expert_tiles(n_pairs, experts.n_experts, tile_rows);
    most_tiles = std::max(most_tiles, n_tiles);
    most_tile_rows = std::max(most_tile_rows, n_tiles * tile_rows);
  }
  Offsets out{};
  out.order = take(uint64_t{n_pairs} * sizeof(uint32_t));
  out.n_tiles = take(sizeof(uint32_t));
  out.tiles = take(uint64_t{most_tiles} * sizeof(ExpertTile));
  out.products = take(uint64_t{n_pairs} * experts.widest_combine * sizeof(float));
  out.input_tiles = take(has_hopper ? uint64_t{most_tile_rows} * experts.widest_input * 2 : 0);
  out.input_scales = take(uint64_t{has_hopper ? std::max(most_tile_rows, n_pairs) : n_pairs} * sizeof(float));
  out.end = end;
  return out;
}

uint64_t ExpertMemory::n_bytes(const PassMemory& memory, bool has_hopper) {
  return memory.experts.n_used == 0 ? 0 : offsets(memory, has_hopper).end;
}

Result<ExpertMemory> ExpertMemory::make(const Device& device, const PassMemory& memory) {
  ExpertMemory out;
  if (memory.experts.n_used == 0) return out;
  out.offsets_ = offsets(memory, device.has_hopper());
  out.memory_ = TRY(Memory::allocate(device, Memory::Kind::device, out.offsets_.end));
  return out;
}

GroupExpertsArgs ExpertMemory::group_args(const float* routing, uint32_t n_pairs, uint32_t n_experts,
                                          uint32_t tile_rows) const {
  return {order(), tiles(), n_tiles(), routing, n_pairs, n_experts, tile_rows};
}

}  // namespace rocmforge::gpu
