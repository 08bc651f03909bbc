#pragma once
// The one place where library code speaks: messages go to stderr through here and nowhere else (a test greps for that).
// The level comes from ROCMFORGE_LOG (debug, info, warn, error, off; default warn), read once. Thread-safe.

#include <fmt/core.h>

#include <functional>
#include <string_view>

namespace rocmforge {

enum class LogLevel { debug, info, warn, error };

bool log_enabled(LogLevel level);
void log_text(LogLevel level, std::string_view text);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_text(level, fmt::format(format, std::forward<Args>(args)...));
}

// Sends every message of level warn and above to `sink` instead of stderr while the object lives: for tests that
// check what was said. Not for concurrent use.
class LogCapture {
 public:
  explicit LogCapture(std::function<void(LogLevel, std::string_view)> sink);
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
};

}  // namespace rocmforge
