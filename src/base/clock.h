#pragma once
// A time source that tests can replace: code with a deadline takes a Clock.

#include <chrono>
#include <functional>

namespace rocmforge {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;
using Clock = std::function<TimePoint()>;

inline Clock system_clock() {
  return [] { return std::chrono::steady_clock::now(); };
}

inline double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace rocmforge
