#pragma once
// The bytes behind state ids: a slot holds the states of all recurrent layers, one behind the other, in f32.

#include <limits>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "cpu/memory.h"
#include "kv/state.h"
#include "plan/backend.h"

namespace rocmforge::cpu {

inline uint64_t state_cache_bytes(const PassMemory& memory) {
  const CheckedU64 bytes = CheckedU64(memory.state_elements()) * memory.n_states * sizeof(float);
  return bytes.get().value_or(std::numeric_limits<uint64_t>::max());
}

class StateCache {
 public:
  StateCache() = default;
  StateCache(const PassMemory& shape, Memory memory)
      : n_states_(shape.n_states), slot_elements_(shape.state_elements()), memory_(std::move(memory)) {
    uint64_t at = 0;
    for (const uint32_t width : shape.state_widths) {
      places_.push_back(at);
      at += width;
    }
  }

  float* at(StateId id, uint32_t layer) const {
    CHECK(id.value < n_states_ && layer < places_.size());
    return reinterpret_cast<float*>(memory_.data()) + id.value * slot_elements_ + places_[layer];
  }

 private:
  uint32_t n_states_ = 0;
  uint64_t slot_elements_ = 0;
  std::vector<uint64_t> places_;  // by layer
  Memory memory_;
};

}  // namespace rocmforge::cpu
