#pragma once
// Which experts a row uses.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

struct RouteArgs {
  float* out;           // n_rows x n_used pairs (expert, share)
  const float* logits;  // n_rows x n_experts
  uint32_t n_experts;
  uint32_t n_used;
  uint32_t normalise;  // shares of the used experts sum to one; else they are shares of all
};

inline constexpr uint32_t kRouteThreads = 64;
inline constexpr uint32_t kMaxExperts = 1024;
inline constexpr uint32_t kMaxUsedExperts = 64;

inline Grid route_grid(uint32_t n_rows) {
  return {n_rows};
}

}  // namespace rocmforge::gpu
