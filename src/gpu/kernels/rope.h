#pragma once
// Rotation of heads by position.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

struct RopeArgs {
  float* heads[2];  // n_rows x n_heads x head_size each: queries and keys
  uint32_t n_heads[2];
  const uint32_t* positions;  // by row
  const double* turns;        // n_pairs: radians per position
  const float* factors;       // n_pairs divisors of the turns, or null
  float magnitude;            // rotated values grow by this
  uint32_t head_size;
  uint32_t n_pairs;
  uint32_t pair_step;   // from one pair's first element to the next pair's
  uint32_t pair_apart;  // from a pair's first element to its second
};

inline constexpr uint32_t kRopeThreads = 128;

// A thread turns one pair of this many heads: finding the turn costs more than turning.
inline constexpr uint32_t kRopeHeads = 4;

inline Grid rope_grid(uint32_t n_rows, const RopeArgs& args) {
  const uint32_t n_sets = (args.n_heads[0] + args.n_heads[1] + kRopeHeads - 1) / kRopeHeads;
  return {n_rows, (n_sets * args.n_pairs + kRopeThreads - 1) / kRopeThreads};
}

}  // namespace rocmforge::gpu
