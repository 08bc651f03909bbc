#pragma once
// Experts' weights times the rows that are routed to them, by matrix fragments, for tiles of many rows.

#include <cstdint>

#include "gpu/kernels/experts.h"
#include "gpu/kernels/panels.h"

namespace rocmforge::gpu {

// A weight of every expert.
struct ExpertsPart {
  Planes w;
  ExpertPlace place;
  const float* bias;  // n_out of each expert, or null
  float* out;         // a row for each pair
  uint32_t n_out;
};

// Kernels: experts_FORMAT_64. out[pair] = w[expert] * x[pair / pairs_per_input] + bias[expert]
struct ExpertsFragmentsArgs {
  ExpertsPart parts[2];   // of one format with one input; the second may have no outputs
  ExpertGroups groups;    // with tiles of kExpertFragmentRows at most
  const uint8_t* inputs;  // panels of x in the order tiles_by_row (kernels/panels.h)
  const float* scales;    // of the panels' rows
  uint32_t pairs_per_input;
  uint32_t width;  // a multiple of 32
};

inline constexpr uint32_t kExpertFragmentThreads = 256;
inline constexpr uint32_t kExpertFragmentRows = 64;

inline uint32_t expert_fragment_blocks(uint32_t n_out) {
  return padded_to(n_out, kWeightPanelRows) / kWeightPanelRows;
}
inline Grid experts_fragments_grid(const ExpertsFragmentsArgs& args, uint32_t max_tiles) {
  return {expert_fragment_blocks(args.parts[0].n_out) + expert_fragment_blocks(args.parts[1].n_out), max_tiles};
}

}  // namespace rocmforge::gpu
