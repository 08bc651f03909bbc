#pragma once
// The state of the cache slots ("berths") that streamed weights occupy: which unit (a layer or an expert, UnitId) is in
// which slot.
//
// Threads: address, used and done from any thread (an address is valid while a lease or a load pins the unit); the rest
// under the loader's mutex.

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

  std::optional<uint64_t> address(UnitId unit) const;  // of its slot, if it has one

  // Eviction order: units marked done first, then least recently used.
  void used(UnitId unit) { units_[unit.value].last_use = ++now_; }
  void done(UnitId unit) { units_[unit.value].last_use = 0; }

  bool has(UnitId unit) const { return units_[unit.value].berth != kNone; }
  // Gives the unit a slot unless it has one: a free slot, or that of the first unit for which empty(unit) evicts it.
  using Empty = std::function<bool(UnitId tenant)>;
  bool claim(UnitId unit, const Empty& empty);
  // Marks every slot as free.
  void reset();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Unit {
    std::atomic<uint32_t> berth = kNone;  // slot number in its pool
    std::atomic<uint64_t> last_use = 0;
  };
  using Tenants = std::vector<std::optional<UnitId>>;
  using Candidate = std::pair<uint64_t, uint32_t>;  // last use of the unit in the slot, slot number

  const WeightTable& table_;
  std::vector<Unit> units_;
  std::vector<Tenants> pools_;         // by pool and slot
  std::vector<Candidate> candidates_;  // scratch of a claim, allocated ahead: claims must not allocate
  std::atomic<uint64_t> now_ = 0;
};

}  // namespace rocmforge
