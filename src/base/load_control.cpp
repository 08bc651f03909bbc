#include "base/load_control.h"

#include <fmt/core.h>

namespace rocmforge {

LoadControl LoadControl::within(Duration most) const {
  const TimePoint end = std::chrono::steady_clock::now() + most;
  if (deadline_ && *deadline_ <= end) return *this;
  LoadControl tighter(stop_, end);
  tighter.allowed_ = most;
  return tighter;
}

Result<void> LoadControl::check() const {
  if (is_stopped()) return Error{ErrorCode::cancelled, "told to stop"};
  if (!deadline_ || std::chrono::steady_clock::now() <= *deadline_) return {};
  return Error{ErrorCode::limit_exceeded, allowed_ > Duration::zero()
                                              ? fmt::format("not done within {:g} s", seconds(allowed_))
                                              : std::string("not done in the time allowed")};
}

}  // namespace rocmforge
