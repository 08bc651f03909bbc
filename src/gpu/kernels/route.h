#pragma once
// Which experts a row uses.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

enum class RouteScores : uint32_t {
  softmax,            // shares of all experts
  softmax_of_chosen,  // shares of the used experts
  sigmoid,            // each by itself
};

struct RouteArgs {
  float* out;           // n_rows x n_used pairs (expert, share)
  const float* logits;  // n_rows x n_experts
  const float* bias;    // n_experts, added to what ranks for the choice alone; or null
  uint32_t n_experts;
  uint32_t n_used;
  RouteScores scores;
  uint32_t normalise;  // shares of the used experts are divided by their sum, or by kLeastChosenShare where it is less
  float scale;         // and multiplied by this
  const float* expert_scale = nullptr;       // n_experts, and by these; or null
  uint32_t n_groups = 0, n_groups_used = 0;  // 0, or only experts of the best groups are chosen
};

inline constexpr float kLeastChosenShare = 0x1p-14f;
inline constexpr uint32_t kRouteThreads = 64;
inline constexpr uint32_t kMaxExperts = 1024;
inline constexpr uint32_t kMaxUsedExperts = 64;
inline constexpr uint32_t kMaxExpertGroups = 32;

inline Grid route_grid(uint32_t n_rows) {
  return {n_rows};
}

}  // namespace rocmforge::gpu
