#pragma once
// The clock of the recorded renderings: 2026-01-02 03:04:05, a Friday.

#include <ctime>

#include "chat/jinja/template.h"

namespace rocmforge::jinja {

inline RenderOptions fixed_time() {
  RenderOptions options;
  options.local_time = [] {
    std::tm time{};
    time.tm_year = 2026 - 1900;
    time.tm_mday = 2;
    time.tm_hour = 3;
    time.tm_min = 4;
    time.tm_sec = 5;
    time.tm_wday = 5;
    time.tm_yday = 1;
    return time;
  };
  return options;
}

}  // namespace rocmforge::jinja
