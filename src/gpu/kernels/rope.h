#pragma once
// RoPE: rotation of query and key heads by position. In names, "turn" means this rotation or its angle.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/attend.h"

namespace rocmforge::gpu {

struct RopeArgs {
  float* heads[2];  // n_rows x n_heads x head_size each: queries and keys
  uint32_t n_heads[2];
  const uint32_t* positions;  // by row
  const double* turns;        // n_pairs: radians per position
  const float* factors;       // n_pairs: divisors of the angles, or null
  uint32_t factors_are_made;  // a previous kernel writes the factors; else they are a weight
  float magnitude;            // factor on rotated values
  uint32_t head_size;
  uint32_t n_pairs;
  uint32_t pair_step;   // from one pair's first element to the next pair's
  uint32_t pair_apart;  // from a pair's first element to its second
};

// rope_store_TYPE: also stores the rotated keys and the values in the cache. rope.heads[1] is store.keys.
struct RopeStoreArgs {
  RopeArgs rope;
  StoreKvArgs store;
  uint32_t n_turning;  // as below
};

// row_rotations: a table of the rotations of a pass's rows and of their positions in the cache, for products whose
// epilogue rotates and stores (kernels/stream_rows_hopper.h). All layers with the same RoPE settings use one table.
struct RowRotationsArgs {
  RopeArgs rope;  // the fields `heads` are not used
  BatchView batch;
  uint32_t n_rows;
  float* turns;  // n_rows x n_pairs x (sine, cosine)
  // By row: the position of its keys in a layer's cache, counting keys and values of all pages; or kNotStored.
  uint32_t* cache_rows;
};

inline constexpr uint32_t kNotStored = ~0u;

inline constexpr uint32_t kRopeThreads = 128;

inline Grid row_rotations_grid(const RowRotationsArgs& args) {
  return {(args.n_rows * args.rope.n_pairs + kRopeThreads - 1) / kRopeThreads};
}

// A thread rotates one pair of this many heads: computing sine and cosine costs more than rotating.
inline constexpr uint32_t kRopeHeads = 4;

// Threads for the pairs of a row.
constexpr uint32_t n_turning(const RopeArgs& args) {
  return (args.n_heads[0] + args.n_heads[1] + kRopeHeads - 1) / kRopeHeads * args.n_pairs;
}
inline Grid rope_grid(uint32_t n_rows, const RopeArgs& args) {
  return {n_rows, (n_turning(args) + kRopeThreads - 1) / kRopeThreads};
}
inline Grid rope_store_grid(uint32_t n_rows, const RopeStoreArgs& args) {
  const uint32_t n_still = args.rope.n_heads[1] * (args.rope.head_size - 2 * args.rope.n_pairs);
  return {n_rows, (n_turning(args.rope) + args.store.value_width + n_still + kRopeThreads - 1) / kRopeThreads};
}

}  // namespace rocmforge::gpu
