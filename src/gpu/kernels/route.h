#pragma once
// Selects the experts of each row.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

enum class RouteScores : uint32_t {
  softmax,            // softmax over all experts
  softmax_of_chosen,  // softmax over the selected experts
  sigmoid,            // each expert's sigmoid
};

struct RouteArgs {
  float* out;           // n_rows x n_used pairs (expert, routing weight)
  const float* logits;  // n_rows x n_experts
  const float* bias;    // n_experts: added to the scores for the selection only; or null
  uint32_t n_experts;
  uint32_t n_used;
  RouteScores scores;
  uint32_t normalise;  // divide the selected experts' weights by their sum, or by kLeastChosenShare if the sum is less
  float scale;         // then multiply them by this
  const float* expert_scale = nullptr;       // n_experts; then multiply them by these; or null
  uint32_t n_groups = 0, n_groups_used = 0;  // select experts of the best groups only; 0: no groups
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
