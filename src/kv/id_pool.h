#pragma once
// The ids 0 to n - 1 of things of one kind, each free or held by a number of holders.
//
// Threads: one at a time.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"

namespace rocmforge {

template <class IdType>
class IdPool {
 public:
  explicit IdPool(uint32_t n) : n_holders_(n, 0) {
    free_.reserve(n);
    for (uint32_t i = n; i > 0; i--) free_.push_back(IdType(i - 1));
  }

  uint32_t size() const { return static_cast<uint32_t>(n_holders_.size()); }
  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }

  // One that was free, held once; nothing when none is free.
  std::optional<IdType> take() {
    if (free_.empty()) return std::nullopt;
    const IdType id = free_.back();
    free_.pop_back();
    n_holders_[id.value] = 1;
    return id;
  }
  // One more holder. REQUIRES: it is held
  void share(IdType id) {
    CHECK(n_holders(id) > 0);
    n_holders_[id.value]++;
  }
  // One holder less; free when it was the last. REQUIRES: it is held
  void release(IdType id) {
    CHECK(n_holders(id) > 0);
    if (--n_holders_[id.value] == 0) free_.push_back(id);
  }
  uint32_t n_holders(IdType id) const {
    CHECK(id.value < size());
    return n_holders_[id.value];
  }

  // free + held == total, and none is both.
  bool is_consistent() const {
    std::vector<bool> is_free(size(), false);
    for (const IdType id : free_) {
      if (id.value >= size() || is_free[id.value] || n_holders_[id.value] != 0) return false;
      is_free[id.value] = true;
    }
    uint32_t n_held = 0;
    for (const uint32_t n : n_holders_) n_held += n > 0;
    return n_held + n_free() == size();
  }

 private:
  std::vector<uint32_t> n_holders_;  // reference count by id; 0: free
  std::vector<IdType> free_;         // last in, first out: what was freed last may still be in a cache
};

}  // namespace rocmforge
