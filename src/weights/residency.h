#pragma once
// What a memory budget makes of a model's weights: which stay, and which take turns.
//
// A pass uses the stages in the same order every time, so whatever was used last is needed last: keeping the most
// recent ones would keep the wrong ones. Instead a fixed set of layers stays, and the others go through two berths: one
// is being used while the next is being read. They are spread evenly over the model, so that the layers that stay
// compute while the others arrive.
//
// Experts are not used in any order. They share as many berths as the budget leaves, and whichever was not used for the
// longest time makes room. There are enough for all experts of a layer: a batch may be routed to every one of them.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace rocmforge {

// What the weights of a stage take: the embedding's, one layer's, the output's.
struct StageBytes {
  uint64_t own = 0;  // of those that every pass needs
  uint64_t experts = 0;
  uint64_t largest_expert = 0;
  uint32_t n_experts = 0;
};

struct Residency {
  // Places of one size, for weights that take turns.
  struct Pool {
    uint64_t berth_bytes = 0;
    uint32_t n_berths = 0;  // 0: nothing of this kind moves
  };
  std::vector<bool> streamed;  // by stage: its own weights go through a berth of `stages`
  Pool stages, experts;
};

inline constexpr uint32_t kStageBerths = 2;

// out_of_memory: too little even with every layer streamed. The first and the last stage always stay.
// REQUIRES: all sizes together fit 64 bits
Result<Residency> choose_residency(std::span<const StageBytes> stages, uint64_t budget_bytes);

}  // namespace rocmforge
