#pragma once
// Rows grouped by the experts they are routed to, so that a product reads each expert's weights once for all its rows.
//
// The pairs (row, expert) of a batch are numbered row by row. group_experts sorts their numbers by expert, lower
// numbers first, and divides the pairs of each expert into tiles of at most tile_rows. The host does not know how many
// tiles there are: products are launched for as many as there can be, and blocks without a tile end at once.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

// Where a weight of every expert lies, counted in bytes from the first one's.
struct ExpertPlace {
  uint64_t stride = 0;           // from one expert to the next, or
  const uint64_t* at = nullptr;  // the offset of each; null: use stride
};

// The pairs order[first .. first + n) of one expert.
struct ExpertTile {
  uint32_t expert, first, n;
};

// What products read. Null pointers: rows are not grouped.
struct ExpertGroups {
  const uint32_t* order = nullptr;  // pairs
  const ExpertTile* tiles = nullptr;
  const uint32_t* n_tiles = nullptr;
};

// Kernel: group_experts.
struct GroupExpertsArgs {
  uint32_t* order;       // n_pairs
  ExpertTile* tiles;     // max_expert_tiles()
  uint32_t* n_tiles;     // one
  const float* routing;  // n_pairs pairs (expert, routing weight)
  uint32_t n_pairs;
  uint32_t n_experts;
  uint32_t tile_rows;
};

inline constexpr uint32_t kGroupExpertsThreads = 256;

// A block places the pairs of one expert.
inline Grid group_experts_grid(uint32_t n_experts) {
  return {n_experts};
}

// No division of n_pairs among the experts gives more tiles.
constexpr uint32_t max_expert_tiles(uint32_t n_pairs, uint32_t n_experts, uint32_t tile_rows) {
  return n_pairs / tile_rows + (n_pairs < n_experts ? n_pairs : n_experts);
}

// Kernel: combine_experts. out[r] = the sum over row r's n_used pairs, in order, of routing weight times product.
struct CombineExpertsArgs {
  float* out;             // n_rows x width
  const float* products;  // a row for each pair
  const float* routing;
  uint32_t n_used;
  uint32_t width;
};

inline constexpr uint32_t kCombineExpertsThreads = 256;

inline Grid combine_experts_grid(uint32_t n_rows, uint32_t width) {
  return {n_rows, (width + kCombineExpertsThreads - 1) / kCombineExpertsThreads};
}

}  // namespace rocmforge::gpu
