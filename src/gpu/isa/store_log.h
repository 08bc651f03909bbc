#pragma once
// The stores of a launch to device memory: for each word the last one, and what atomics pass on with a word.
//
// Threads: may be used from any thread.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/isa/memory.h"

namespace rocmforge::gpu::isa {

// For each wave of a launch, the number of one of its stores: that one and all before it.
class Clock {
 public:
  uint32_t of(uint32_t wave) const;
  void raise(uint32_t wave, uint32_t store);
  void join(const Clock& other);
  void clear() { last_.clear(); }
  bool empty() const { return last_.empty(); }

 private:
  std::vector<std::pair<uint32_t, uint32_t>> last_;  // by wave
};

// Who stored a word last. Waves of a launch count from 1.
struct StoredWord {
  uint32_t wave = 0;    // 0: nobody
  uint32_t number = 0;  // of the wave's stores; 24 bits
  uint8_t bytes = 0;    // a bit for each
  bool is_atomic = false;
  bool is_shared = false;  // several waves stored a part of it each: not followed any more

  uint64_t packed() const;
  static StoredWord unpacked(uint64_t bits);
};

class StoreLog {
 public:
  explicit StoreLog(const MemoryMap& memory);
  ~StoreLog();
  StoreLog(const StoreLog&) = delete;
  StoreLog& operator=(const StoreLog&) = delete;

  // Whether anybody stored into this range of the map.
  bool has_stores(uint32_t range) const {
    return range < parts_.size() && parts_[range].load(std::memory_order_acquire) != nullptr;
  }
  // address: of a word in the range.
  StoredWord at(const Range& range, uint64_t address) const;
  StoredWord exchange(const Range& range, uint64_t address, const StoredWord& word);

  void release(uint64_t address, const Clock& stores);
  Clock acquire(uint64_t address);
  // Held while an atomic changes its word and the log: the log has them in the order in which memory had them.
  std::unique_lock<std::mutex> one_atomic() { return std::unique_lock(atomics_); }

 private:
  static constexpr uint64_t kPageBytes = 4096;
  using Page = std::array<std::atomic<uint64_t>, kPageBytes / 4>;
  using Pages = std::vector<std::atomic<Page*>>;  // of a range

  std::vector<std::atomic<Pages*>> parts_;  // by range
  std::mutex atomics_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Clock> released_;  // by address
};

}  // namespace rocmforge::gpu::isa
