#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "base/log_queue.h"
#include "base/printable.h"

namespace rocmforge {
namespace {

struct Capture {
  std::mutex mutex;
  std::function<void(LogLevel, std::string_view)> sink;
  LogLevel least = LogLevel::warn;
};

Capture& capture() {
  static Capture instance;
  return instance;
}

// How lines look and who writes them, while there is a ServiceLog.
struct Service {
  LogFormat format;
  std::unique_ptr<LogQueue> queue;
};

struct Output {
  std::mutex mutex;
  std::shared_ptr<Service> service;
};

Output& output() {
  static Output instance;
  return instance;
}

std::shared_ptr<Service> current_service() {
  const std::lock_guard lock(output().mutex);
  return output().service;
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

std::string_view name_of(LogLevel level) {
  const auto name = spdlog::level::to_string_view(to_spdlog(level));
  return {name.data(), name.size()};
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("rocmforge", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    const char* asked = std::getenv("ROCMFORGE_LOG");
    made->set_level(asked ? spdlog::level::from_str(asked) : spdlog::level::warn);
    return made;
  }();
  return *instance;
}

// Writes whole lines; the last line feed is the sink's.
void write_lines(std::string_view lines) {
  if (lines.ends_with('\n')) lines.remove_suffix(1);
  logger().sinks().front()->log(
      spdlog::details::log_msg("", spdlog::level::off, spdlog::string_view_t(lines.data(), lines.size())));
  logger().sinks().front()->flush();
}

std::string time_now() {
  using namespace std::chrono;
  const auto now = time_point_cast<milliseconds>(std::chrono::system_clock::now());
  const std::time_t whole = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&whole, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, now.time_since_epoch().count() % 1000);
}

std::string quoted(std::string_view text) {
  JsonWriter w;
  return w.value(text).take();
}

// A text that needs no quotes to be told from what follows.
bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '='; });
}

std::string text_of(std::string_view text, std::span<const LogField> fields) {
  std::string out(text);
  for (const LogField& field : fields) {
    out.append(" ").append(field.name).append("=");
    if (const auto* word = std::get_if<std::string_view>(&field.value)) {
      out += is_word(*word) ? std::string(*word) : quoted(*word);
    } else if (const auto* n = std::get_if<uint64_t>(&field.value)) {
      out += fmt::format("{}", *n);
    } else {
      out += fmt::format("{:.6f}", std::get<double>(field.value));
    }
  }
  return printable(out);
}

std::string json_of(LogLevel level, std::string_view text, std::span<const LogField> fields) {
  JsonWriter w;
  w.begin_object().key("time").value(time_now()).key("level").value(name_of(level)).key("message").value(text);
  for (const LogField& field : fields) {
    w.key(field.name);
    std::visit([&](const auto& value) { w.value(value); }, field.value);
  }
  return w.end_object().take();
}

std::string service_line(LogFormat format, LogLevel level, std::string_view text, std::span<const LogField> fields) {
  if (format == LogFormat::json) return json_of(level, text, fields) + "\n";
  return fmt::format("{} {} {}\n", time_now(), name_of(level), text_of(text, fields));
}

}  // namespace

bool log_enabled(LogLevel level) {
  {
    const std::lock_guard lock(capture().mutex);
    if (capture().sink && level >= capture().least) return true;
  }
  return logger().should_log(to_spdlog(level));
}

void log_event(LogLevel level, std::string_view text, std::span<const LogField> fields) {
  {
    const std::lock_guard lock(capture().mutex);
    if (capture().sink && level >= capture().least) return capture().sink(level, text_of(text, fields));
  }
  if (!logger().should_log(to_spdlog(level))) return;
  if (const auto service = current_service()) {
    return service->queue->push(service_line(service->format, level, text, fields));
  }
  write_lines(fmt::format("rocmforge: {}: {}", name_of(level), text_of(text, fields)));
}

void log_text(LogLevel level, std::string_view text) {
  log_event(level, text, {});
}

Result<std::unique_ptr<ServiceLog>> ServiceLog::start(const Options& options) {
  auto service = std::make_shared<Service>();
  service->format = options.format;
  service->queue = TRY(LogQueue::start({.write = write_lines, .tell_dropped = [format = options.format](uint64_t n) {
                                          const LogField lost[] = {{"lines", n}};
                                          return service_line(format, LogLevel::warn, "log lines were dropped", lost);
                                        }}));
  const auto before = logger().level();
  if (options.level) {
    logger().set_level(to_spdlog(*options.level));
  } else if (!std::getenv("ROCMFORGE_LOG")) {
    logger().set_level(spdlog::level::info);
  }
  const std::lock_guard lock(output().mutex);
  CHECK(!output().service);
  output().service = std::move(service);
  return std::unique_ptr<ServiceLog>(new ServiceLog(static_cast<int>(before)));
}

ServiceLog::~ServiceLog() {
  std::shared_ptr<Service> service;
  {
    const std::lock_guard lock(output().mutex);
    service = std::move(output().service);
  }
  logger().set_level(static_cast<spdlog::level::level_enum>(level_before_));
}

LogCapture::LogCapture(std::function<void(LogLevel, std::string_view)> sink, LogLevel least) {
  const std::lock_guard lock(capture().mutex);
  CHECK(!capture().sink);
  capture().sink = std::move(sink);
  capture().least = least;
}

LogCapture::~LogCapture() {
  const std::lock_guard lock(capture().mutex);
  capture().sink = nullptr;
}

void fail_check(const char* file, int line, const char* what) {
  write_lines(fmt::format("rocmforge: error: {}:{}: broken invariant: {}", file, line, what));
  std::abort();
}

}  // namespace rocmforge
