#pragma once
// Decides which of a model's weights stay resident under a memory budget and which are streamed.
//
// A pass uses the stages in the same order every time, so the most recently used stage is the one needed last: keeping
// recent ones (LRU) would keep the wrong ones. Instead a fixed set of layers stays resident, and the others are
// streamed through two cache slots: one is used while the next layer is read into the other. The streamed
// layers are spread evenly over the model, so that resident layers compute while streamed ones arrive.
//
// Experts are used in no fixed order. They share the remaining cache slots with LRU eviction. There are slots for at
// least all experts of one layer, because a batch may be routed to every one of them.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace rocmforge {

// The bytes of a stage's weights: the embedding, one layer, the output.
struct StageBytes {
  uint64_t own = 0;  // of the weights that every pass needs
  uint64_t experts = 0;
  uint64_t largest_expert = 0;
  uint32_t n_experts = 0;
};

struct Residency {
  // Cache slots of one size.
  struct Pool {
    uint64_t slot_bytes = 0;
    uint32_t n_slots = 0;  // 0: no weights of this kind are streamed
  };
  std::vector<bool> streamed;  // by stage: its own weights are streamed through a slot of `stages`
  Pool stages, experts;
};

inline constexpr uint32_t kStageSlots = 2;

// out_of_memory: too little even with every layer streamed. The first and the last stage are always resident.
// REQUIRES: all sizes together fit 64 bits
Result<Residency> choose_residency(std::span<const StageBytes> stages, uint64_t budget_bytes);

}  // namespace rocmforge
