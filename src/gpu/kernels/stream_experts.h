#pragma once
// Experts' weights times the few rows that are routed to each, decoded in registers (kernels/stream_fragments.h).

#include "gpu/kernels/experts_fragments.h"
#include "gpu/kernels/stream_fragments.h"

namespace rocmforge::gpu {

// Kernels: experts_FORMAT_16. They take ExpertsFragmentsArgs with tiles of kStreamExpertRows at most and panels in the
// order tiles_by_column.
inline constexpr uint32_t kStreamExpertRows = 16;

inline Grid stream_experts_grid(const ExpertsFragmentsArgs& args, uint32_t max_tiles, uint32_t wave) {
  return {stream_fragments_tiles(args.parts[0].n_out, wave) + stream_fragments_tiles(args.parts[1].n_out, wave),
          max_tiles};
}

}  // namespace rocmforge::gpu
