#pragma once
// Who is where: the units of a table and the berths they take turns in.
//
// Threads: address, used and done from anywhere (an address lasts while a lease or a load keeps the unit where it is);
// the rest under the loader's mutex.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "weights/weight_table.h"

namespace rocmforge {

class Berths {
 public:
  explicit Berths(const WeightTable& table);

  std::optional<uint64_t> address(UnitId unit) const;  // of its berth, if it has one

  // Units leave in the order of their last use, those that are done first.
  void used(UnitId unit) { units_[unit.value].last_use = ++now_; }
  void done(UnitId unit) { units_[unit.value].last_use = 0; }

  bool has(UnitId unit) const { return units_[unit.value].berth != kNone; }
  // Gives the unit a berth unless it has one: a free one, or that of the first tenant for which empty(tenant), which
  // makes it leave.
  using Empty = std::function<bool(UnitId tenant)>;
  bool claim(UnitId unit, const Empty& empty);
  // Every berth is free.
  void reset();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Unit {
    std::atomic<uint32_t> berth = kNone;  // of its pool
    std::atomic<uint64_t> last_use = 0;
  };
  using Tenants = std::vector<std::optional<UnitId>>;
  using Candidate = std::pair<uint64_t, uint32_t>;  // when its tenant was used last, which berth

  const WeightTable& table_;
  std::vector<Unit> units_;
  std::vector<Tenants> pools_;         // by pool and berth
  std::vector<Candidate> candidates_;  // of a claim, which must need no memory
  std::atomic<uint64_t> now_ = 0;
};

}  // namespace rocmforge
