#pragma once
// Device memory for products of rows grouped by experts (kernels/experts.h): the groups, the experts' products before
// they are summed, and on Hopper the inputs as tiles.
//
// Threads: one at a time.

#include "gpu/device.h"
#include "gpu/kernels/experts.h"
#include "plan/backend.h"

namespace rocmforge::gpu {

class ExpertMemory {
 public:
  // 0 for models without experts.
  static uint64_t n_bytes(const PassMemory& memory, bool has_hopper);
  static Result<ExpertMemory> make(const Device& device, const PassMemory& memory);

  bool is_there() const { return memory_.data() != nullptr; }
  // What group_experts writes for rows of n_used pairs each.
  // REQUIRES: rows and pairs as `memory` of make() allows
  GroupExpertsArgs group_args(const float* routing, uint32_t n_pairs, uint32_t n_experts, uint32_t tile_rows) const;
  ExpertGroups groups() const { return {order(), tiles(), n_tiles()}; }
  float* products() const { return at<float>(offsets_.products); }
  uint8_t* input_tiles() const { return at<uint8_t>(offsets_.input_tiles); }
  float* input_scales() const { return at<float>(offsets_.input_scales); }
  uint64_t input_tiles_bytes() const { return offsets_.input_scales - offsets_.input_tiles; }

 private:
  struct Offsets {
    uint64_t order, n_tiles, tiles, products, input_tiles, input_scales, end;
  };
  static Offsets offsets(const PassMemory& memory, bool has_hopper);
  template <class T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }
  uint32_t* order() const { return at<uint32_t>(offsets_.order); }
  ExpertTile* tiles() const { return at<ExpertTile>(offsets_.tiles); }
  uint32_t* n_tiles() const { return at<uint32_t>(offsets_.n_tiles); }

  Memory memory_;
  Offsets offsets_{};
};

}  // namespace rocmforge::gpu
