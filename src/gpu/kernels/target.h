#pragma once
// The target that this device's code was compiled for.

#include <cstdint>

#include "gpu/fragment/packed_tile.h"

namespace rocmforge::gpu {

struct Target {
  uint32_t wave;
  uint32_t has_hopper;       // kernels/*_hopper.cu run here
  uint32_t has_mma;          // kernels/attend_matrix.cu runs here
  uint32_t has_matrix_unit;  // fragments are multiplied by instructions of their own
  TileOrder tile_order;
};

struct TargetArgs {
  Target* out;
};

inline constexpr uint32_t kTargetThreads = 64;

}  // namespace rocmforge::gpu
