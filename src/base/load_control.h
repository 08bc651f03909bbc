#pragma once
// Cancellation and deadline of a long operation, which asks check() regularly. A default-constructed one never stops
// it.
//
//   TRY(control.check());            // between parts, and every few thousand items of a loop
//   read_text_parts(control.within(std::chrono::seconds(60)));
//
// Threads: check() may be called from any thread; the flag may be set by any thread and must outlive the operation.

#include <atomic>
#include <optional>

#include "base/clock.h"
#include "base/result.h"

namespace rocmforge {

class LoadControl {
 public:
  LoadControl() = default;
  // Stops when *stop becomes true (null: never) or `deadline` has passed (none: never).
  explicit LoadControl(const std::atomic<bool>* stop, std::optional<TimePoint> deadline = std::nullopt)
      : stop_(stop), deadline_(deadline) {}

  // The same, with at most this much time from now.
  LoadControl within(Duration most) const;

  bool is_stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }

  // Errors: cancelled (told to stop), limit_exceeded (out of time).
  Result<void> check() const;
  // The same for item `i` of a loop, asked at every 4,096th.
  Result<void> check_at(size_t i) const {
    if (__builtin_expect(i % 4096 != 0, 1)) return {};
    return check();
  }

 private:
  const std::atomic<bool>* stop_ = nullptr;
  std::optional<TimePoint> deadline_;
  Duration allowed_{};  // for the message; 0: not known
};

}  // namespace rocmforge
