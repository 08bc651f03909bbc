#pragma once
// Counts roughly what grammars, their tables and their parsers hold: each by itself, and all of the process together. A
// small grammar can ask for any number of states, and a server keeps many grammars.
//
// Threads: one at a time for each object; the total is shared by all threads.

#include <atomic>
#include <cstdint>
#include <utility>

namespace rocmforge::grammar {

struct StateLimits {
  uint64_t of_one = 64u << 20, of_all = 256u << 20;  // bytes
};

class StateMemory {
 public:
  static inline StateLimits limits;  // tests change it, before there are threads

  StateMemory() = default;
  StateMemory(StateMemory&& other) noexcept : n_counted_(std::exchange(other.n_counted_, 0)) {}
  StateMemory& operator=(StateMemory&& other) noexcept {
    std::swap(n_counted_, other.n_counted_);
    return *this;
  }
  ~StateMemory() { all_ -= n_counted_; }

  // Counts `n` bytes from now on, in steps. False: there is no room for them, and the count is unchanged.
  [[nodiscard]] bool set(uint64_t n) {
    const bool is_counted = n <= n_counted_ && n_counted_ - n < 2 * kStep;
    return is_counted || count(n);
  }
  static uint64_t bytes_of_all() { return all_; }

 private:
  static constexpr uint64_t kStep = 64u << 10;

  bool count(uint64_t n) {
    const uint64_t wanted = (n + kStep - 1) / kStep * kStep;
    if (wanted <= n_counted_) {
      all_ -= n_counted_ - wanted;
    } else {
      const uint64_t more = wanted - n_counted_;
      if (wanted > limits.of_one) return false;
      if (all_.fetch_add(more) + more > limits.of_all) {
        all_ -= more;
        return false;
      }
    }
    n_counted_ = wanted;
    return true;
  }

  static inline std::atomic<uint64_t> all_ = 0;
  uint64_t n_counted_ = 0;
};

}  // namespace rocmforge::grammar
