#pragma once
// Points in time as APIs write them.

#include <fmt/chrono.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>

namespace rocmforge::server {

// 2026-11-18T23:15:00Z
inline std::string rfc3339(int64_t seconds_since_1970) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds_since_1970)));
}

// The same for now, with the fraction of the second.
inline std::string rfc3339_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::string out = rfc3339(micros / 1000000);
  out.pop_back();
  return out + fmt::format(".{:06}Z", micros % 1000000);
}

}  // namespace rocmforge::server
