#pragma once
// The order in which weights are loaded: those that somebody waits for first, then those asked for ahead of time, each
// in the order of asking.
//
// Threads: one at a time.

#include <deque>
#include <optional>
#include <vector>

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

  // Somebody waits for it now. No effect on a weight that is not queued, or awaited already.
  void promote(WeightId id) {
    if (std::erase(ahead_, id) > 0) awaited_.push_back(id);
  }

  void remove(WeightId id) {
    if (std::erase(awaited_, id) == 0) std::erase(ahead_, id);
  }

  // REQUIRES: !empty()
  WeightId front() const { return awaited_.empty() ? ahead_.front() : awaited_.front(); }

  std::vector<WeightId> all() const {
    std::vector<WeightId> ids(awaited_.begin(), awaited_.end());
    ids.insert(ids.end(), ahead_.begin(), ahead_.end());
    return ids;
  }

 private:
  std::deque<WeightId> awaited_;
  std::deque<WeightId> ahead_;
};

}  // namespace rocmforge
