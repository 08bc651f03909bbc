#include "weights/cache_slots.h"

#include <algorithm>

namespace rocmforge {

CacheSlots::CacheSlots(const WeightTable& table) : table_(table), groups_(table.groups().size()) {
  for (const WeightTable::Pool& pool : table.pools()) {
    pools_.emplace_back(pool.n_slots);
    candidates_.reserve(std::max<size_t>(candidates_.capacity(), pool.n_slots));
  }
}

std::optional<uint64_t> CacheSlots::address(GroupId group) const {
  const WeightTable::Pool& pool = table_.pools()[table_.group(group).pool];
  const uint32_t slot = groups_[group.value].slot;
  if (slot == kNone) return std::nullopt;
  return pool.address + slot * pool.slot_bytes;
}

bool CacheSlots::claim(GroupId group, const Empty& empty) {
  if (has(group)) return true;
  Tenants& tenants = pools_[table_.group(group).pool];
  // By last use; a free slot counts as one that was never used.
  candidates_.clear();
  for (uint32_t i = 0; i < tenants.size(); i++) {
    candidates_.emplace_back(tenants[i] ? 1 + groups_[tenants[i]->value].last_use : 0, i);
  }
  std::ranges::make_heap(candidates_, std::greater<>());
  while (!candidates_.empty()) {
    const uint32_t slot = candidates_.front().second;
    std::ranges::pop_heap(candidates_, std::greater<>());
    candidates_.pop_back();
    if (tenants[slot]) {
      if (!empty(*tenants[slot])) continue;
      groups_[tenants[slot]->value].slot = kNone;
    }
    tenants[slot] = group;
    groups_[group.value].slot = slot;
    used(group);
    return true;
  }
  return false;
}

void CacheSlots::reset() {
  for (Tenants& tenants : pools_) std::ranges::fill(tenants, std::nullopt);
  for (Group& group : groups_) {
    group.slot = kNone;
    group.last_use = 0;
  }
}

}  // namespace rocmforge
