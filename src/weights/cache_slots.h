#pragma once
// The state of the cache slots that streamed weights occupy: which group (a layer or an expert, GroupId) is in
// which slot.
//
// Threads: address, used and done from any thread (an address is valid while a lease or a load pins the group); the
// rest under the loader's mutex.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "weights/weight_table.h"

namespace rocmforge {

class CacheSlots {
 public:
  explicit CacheSlots(const WeightTable& table);

  std::optional<uint64_t> address(GroupId group) const;  // of its slot, if it has one

  // Eviction order: groups marked done first, then least recently used.
  void used(GroupId group) { groups_[group.value].last_use = ++now_; }
  void done(GroupId group) { groups_[group.value].last_use = 0; }

  bool has(GroupId group) const { return groups_[group.value].slot != kNone; }
  // Gives the group a slot unless it has one: a free slot, or that of the first group for which empty(group) evicts it.
  using Empty = std::function<bool(GroupId tenant)>;
  bool claim(GroupId group, const Empty& empty);
  // Marks every slot as free.
  void reset();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Group {
    std::atomic<uint32_t> slot = kNone;  // slot number in its pool
    std::atomic<uint64_t> last_use = 0;
  };
  using Tenants = std::vector<std::optional<GroupId>>;
  using Candidate = std::pair<uint64_t, uint32_t>;  // last use of the group in the slot, slot number

  const WeightTable& table_;
  std::vector<Group> groups_;
  std::vector<Tenants> pools_;         // by pool and slot
  std::vector<Candidate> candidates_;  // scratch of a claim, allocated ahead: claims must not allocate
  std::atomic<uint64_t> now_ = 0;
};

}  // namespace rocmforge
