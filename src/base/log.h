#pragma once
// The only place where library code prints: messages go to stderr through here (a test greps for other ways).
// The level comes from ROCMFORGE_LOG (debug, info, warn, error, off; default warn), read once. Thread-safe.

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace rocmforge {

enum class LogLevel { debug, info, warn, error };

bool log_enabled(LogLevel level);
void log_text(LogLevel level, std::string_view text);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_text(level, fmt::format(format, std::forward<Args>(args)...));
}

// A message with named values for programs: "request id=... status=200", or members of a JSON object.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, uint64_t, double> value;
};
void log_event(LogLevel level, std::string_view text, std::span<const LogField> fields);

enum class LogFormat : uint8_t { text, json };

// The log of a service, active while the object lives: every line has its time in UTC, and a separate thread writes the
// lines, so that no caller waits for stderr (base/log_queue.h).
//   2026-11-16T20:17:25.123Z info request id=req-5f3a status=200
//   {"time":"2026-11-16T20:17:25.123Z","level":"info","message":"request","id":"req-5f3a","status":200}
// At most one at a time.
class ServiceLog {
 public:
  struct Options {
    std::optional<LogLevel> level = {};  // none: ROCMFORGE_LOG, else info
    LogFormat format = LogFormat::text;
  };
  // no_thread, out_of_memory
  static Result<std::unique_ptr<ServiceLog>> start(const Options& options);
  ~ServiceLog();
  ServiceLog(const ServiceLog&) = delete;
  ServiceLog& operator=(const ServiceLog&) = delete;

 private:
  explicit ServiceLog(int level_before) : level_before_(level_before) {}
  int level_before_;  // the logging library's
};

// Sends every message of level `least` and above to `sink` instead of stderr while the object lives, with its fields in
// text format: for tests that check messages. Not for concurrent use.
class LogCapture {
 public:
  explicit LogCapture(std::function<void(LogLevel, std::string_view)> sink, LogLevel least = LogLevel::warn);
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
};

}  // namespace rocmforge
