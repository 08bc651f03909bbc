#pragma once
// The order of loads: weights that a call waits for come first, then prefetched ones, each group in request order.
//
// Threads: one at a time. Only push and promote allocate; if memory runs out they change nothing.

#include <algorithm>
#include <deque>
#include <optional>

#include "weights/lazy_tensor.h"

namespace rocmforge {

enum class Urgency : uint8_t { awaited, ahead };

class LoadQueue {
 public:
  bool empty() const { return awaited_.empty() && ahead_.empty(); }

  void push(WeightId id, Urgency urgency) {
    switch (urgency) {
      case Urgency::awaited:
        awaited_.push_back(id);
        return;
      case Urgency::ahead:
        ahead_.push_back(id);
        return;
    }
  }

  // A call now waits for this weight. No effect if it is not queued or already promoted.
  void promote(WeightId id) {
    const auto at = std::ranges::find(ahead_, id);
    if (at == ahead_.end()) return;
    awaited_.push_back(id);
    ahead_.erase(at);
  }

  void remove(WeightId id) {
    if (!erase(awaited_, id)) erase(ahead_, id);
  }

  // The first weight for which can_begin(id) holds.
  template <class F>
  std::optional<WeightId> first(F&& can_begin) const {
    for (const auto* ids : {&awaited_, &ahead_}) {
      for (const WeightId id : *ids) {
        if (can_begin(id)) return id;
      }
    }
    return std::nullopt;
  }

 private:
  // A weight is queued at most once, usually near the front.
  static bool erase(std::deque<WeightId>& ids, WeightId id) {
    const auto at = std::find(ids.begin(), ids.end(), id);
    if (at == ids.end()) return false;
    ids.erase(at);
    return true;
  }

  std::deque<WeightId> awaited_;
  std::deque<WeightId> ahead_;
};

}  // namespace rocmforge
