#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <mutex>

#include "base/check.h"

namespace rocmforge {
namespace {

struct Capture {
  std::mutex mutex;
  std::function<void(LogLevel, std::string_view)> sink;
};

Capture& capture() {
  static Capture instance;
  return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  RF_UNREACHABLE("a LogLevel outside its enum");
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("rocmforge", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("rocmforge: %l: %v");
    const char* asked = std::getenv("ROCMFORGE_LOG");
    made->set_level(asked ? spdlog::level::from_str(asked) : spdlog::level::warn);
    return made;
  }();
  return *instance;
}

}  // namespace

bool log_enabled(LogLevel level) {
  if (level >= LogLevel::warn) {
    const std::lock_guard lock(capture().mutex);
    if (capture().sink) return true;
  }
  return logger().should_log(to_spdlog(level));
}

void log_text(LogLevel level, std::string_view text) {
  if (level >= LogLevel::warn) {
    const std::lock_guard lock(capture().mutex);
    if (capture().sink) return capture().sink(level, text);
  }
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

LogCapture::LogCapture(std::function<void(LogLevel, std::string_view)> sink) {
  const std::lock_guard lock(capture().mutex);
  CHECK(!capture().sink);
  capture().sink = std::move(sink);
}

LogCapture::~LogCapture() {
  const std::lock_guard lock(capture().mutex);
  capture().sink = nullptr;
}

void fail_check(const char* file, int line, const char* what) {
  log(LogLevel::error, "{}:{}: broken invariant: {}", file, line, what);
  logger().flush();
  std::abort();
}

}  // namespace rocmforge
