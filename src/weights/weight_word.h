#pragma once
// One weight's state, leases and hits in one atomic word, so that a hit is a single compare-and-swap.
//
//   bit  0..2    LoadState
//   bit  3       awaited: a thread waits for the leases to end
//   bit  4..27   leases; none unless resident
//   bit 28..63   hits (wraps after 6.8e10)
//
// Threads: reading, try_lease and try_release from any thread; the rest under the loader's mutex. While `awaited` is
// set, leases are taken and released under that mutex too: the waiting thread misses no change, and a lease's last
// access to the store happens before the waiting thread may free the store.

#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "weights/lazy_tensor.h"

namespace rocmforge {

class WeightWord {
 public:
  LoadState state() const { return state_of(word_.load(std::memory_order_acquire)); }
  uint64_t n_leases() const { return leases_of(word_.load(std::memory_order_acquire)); }
  uint64_t n_hits() const { return word_.load(std::memory_order_relaxed) >> kHitShift; }

  // Takes a lease if the weight is resident and not awaited, and counts a hit.
  bool try_lease() {
    uint64_t word = word_.load(std::memory_order_relaxed);
    while ((word & (kStateMask | kAwaited)) == bits(LoadState::resident)) {
      if (word_.compare_exchange_weak(word, with_hit(word), std::memory_order_acquire, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // Releases a lease, unless a thread waits for that. REQUIRES: the caller holds one
  bool try_release() {
    uint64_t word = word_.load(std::memory_order_relaxed);
    while ((word & kAwaited) == 0) {
      if (word_.compare_exchange_weak(word, word - kLease, std::memory_order_release, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // The same regardless of `awaited`. REQUIRES: resident; for release, the caller holds a lease
  void lease() {
    uint64_t word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(word, with_hit(word), std::memory_order_acquire, std::memory_order_relaxed)) {
    }
  }
  void release() { word_.fetch_sub(kLease, std::memory_order_release); }

  // Unloads the weight if there is no lease; otherwise marks it awaited. REQUIRES: resident
  bool try_unload() {
    uint64_t word = word_.fetch_or(kAwaited, std::memory_order_acquire);
    if (leases_of(word) != 0) return false;
    // Awaited: only holders of the mutex change the word now.
    store(LoadState::unloaded, 0);
    return true;
  }

  // The same, but a leased weight is not marked.
  bool try_unload_idle() {
    uint64_t word = word_.load(std::memory_order_acquire);
    while (leases_of(word) == 0) {
      const uint64_t next = word / kHit * kHit | bits(LoadState::unloaded);
      if (word_.compare_exchange_weak(word, next, std::memory_order_acquire)) return true;
    }
    return false;
  }

  // REQUIRES: not resident, next not resident
  void move_to(LoadState next) {
    CHECK(state() != LoadState::resident && next != LoadState::resident);
    store(next, 0);
  }

  // Makes the weight resident, with a lease for each waiting call. REQUIRES: not resident
  void publish(uint64_t n_leases) {
    CHECK(state() != LoadState::resident && n_leases < kMaxLeases);
    store(LoadState::resident, n_leases);
  }

 private:
  static constexpr uint64_t kStateMask = 7;
  static constexpr uint64_t kAwaited = 1 << 3;
  static constexpr uint64_t kLease = 1 << 4;
  static constexpr unsigned kHitShift = 28;
  static constexpr uint64_t kHit = uint64_t{1} << kHitShift;
  static constexpr uint64_t kMaxLeases = kHit / kLease;

  static constexpr uint64_t bits(LoadState state) { return static_cast<uint64_t>(state); }
  static LoadState state_of(uint64_t word) { return static_cast<LoadState>(word & kStateMask); }
  static uint64_t leases_of(uint64_t word) { return word % kHit / kLease; }
  static uint64_t with_hit(uint64_t word) {
    CHECK(leases_of(word) + 1 < kMaxLeases);
    return word + kLease + kHit;
  }

  void store(LoadState state, uint64_t n_leases) {
    const uint64_t hits = word_.load(std::memory_order_relaxed) / kHit * kHit;
    word_.store(hits | n_leases * kLease | bits(state), std::memory_order_release);
  }

  std::atomic<uint64_t> word_ = 0;
};

}  // namespace rocmforge
