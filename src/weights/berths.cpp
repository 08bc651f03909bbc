#include "weights/berths.h"

#include <algorithm>

namespace rocmforge {

Berths::Berths(const WeightTable& table) : table_(table), units_(table.units().size()) {
  for (const WeightTable::Pool& pool : table.pools()) {
    pools_.emplace_back(pool.n_berths);
    candidates_.reserve(std::max<size_t>(candidates_.capacity(), pool.n_berths));
  }
}

std::optional<uint64_t> Berths::address(UnitId unit) const {
  const WeightTable::Pool& pool = table_.pools()[table_.unit(unit).pool];
  const uint32_t berth = units_[unit.value].berth;
  if (berth == kNone) return std::nullopt;
  return pool.address + berth * pool.berth_bytes;
}

bool Berths::claim(UnitId unit, const Empty& empty) {
  if (has(unit)) return true;
  Tenants& tenants = pools_[table_.unit(unit).pool];
  // By last use; a free slot counts as one that was never used.
  candidates_.clear();
  for (uint32_t i = 0; i < tenants.size(); i++) {
    candidates_.emplace_back(tenants[i] ? 1 + units_[tenants[i]->value].last_use : 0, i);
  }
  std::ranges::make_heap(candidates_, std::greater<>());
  while (!candidates_.empty()) {
    const uint32_t berth = candidates_.front().second;
    std::ranges::pop_heap(candidates_, std::greater<>());
    candidates_.pop_back();
    if (tenants[berth]) {
      if (!empty(*tenants[berth])) continue;
      units_[tenants[berth]->value].berth = kNone;
    }
    tenants[berth] = unit;
    units_[unit.value].berth = berth;
    used(unit);
    return true;
  }
  return false;
}

void Berths::reset() {
  for (Tenants& tenants : pools_) std::ranges::fill(tenants, std::nullopt);
  for (Unit& unit : units_) {
    unit.berth = kNone;
    unit.last_use = 0;
  }
}

}  // namespace rocmforge
