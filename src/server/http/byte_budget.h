#pragma once
// Counts the bytes that clients can make the server hold: bodies of requests, and answers. A ByteBudget bounds their
// sum. A ByteHold counts some of the bytes and is stored beside them: both are moved and destroyed together, so that no
// byte is held uncounted.
//
// Threads: any. A hold is used by one thread at a time.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace rocmforge::server {

class ByteBudget {
 public:
  explicit ByteBudget(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  uint64_t max_bytes() const { return max_bytes_; }
  uint64_t used_bytes() const { return n_used_; }

 private:
  friend class ByteHold;
  bool take(uint64_t n) {
    uint64_t used = n_used_;
    do {
      if (n > max_bytes_ - used) return false;
    } while (!n_used_.compare_exchange_weak(used, used + n));
    return true;
  }
  void give_back(uint64_t n) { n_used_ -= n; }

  const uint64_t max_bytes_;
  std::atomic<uint64_t> n_used_ = 0;  // never above max_bytes_
};

// Counts 0 bytes at first. A hold without a budget is not limited.
class ByteHold {
 public:
  ByteHold() = default;
  explicit ByteHold(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ByteHold(ByteHold&& other) noexcept : budget_(std::move(other.budget_)), n_bytes_(std::exchange(other.n_bytes_, 0)) {}
  ByteHold& operator=(ByteHold&& other) noexcept {
    ByteHold old(std::move(*this));
    budget_ = std::move(other.budget_);
    n_bytes_ = std::exchange(other.n_bytes_, 0);
    return *this;
  }
  ~ByteHold() {
    if (budget_) budget_->give_back(n_bytes_);
  }

  uint64_t bytes() const { return n_bytes_; }
  // Counts `n` bytes from now on. False: the budget has no room; the number is unchanged.
  [[nodiscard]] bool resize(uint64_t n) {
    if (budget_ && n > n_bytes_ && !budget_->take(n - n_bytes_)) return false;
    if (budget_ && n < n_bytes_) budget_->give_back(n_bytes_ - n);
    n_bytes_ = n;
    return true;
  }

 private:
  std::shared_ptr<ByteBudget> budget_;
  uint64_t n_bytes_ = 0;
};

}  // namespace rocmforge::server
