#pragma once
// What the program does when: spans of time in the trace event format, which ui.perfetto.dev and chrome://tracing show.
//
//   const TraceSpan span("weights", "read");     // from here to the end of the scope, on this thread's track
//
// While no trace is active, a span costs one load. A span never fails: what cannot be kept is counted and said at the
// end.
//
// Threads: any.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"

namespace rocmforge {

bool is_tracing() noexcept;

// A row of the picture: a thread, or something else that works by itself.
enum class TraceTrack : uint8_t { this_thread, device };

// A span that has ended. A value without a name ends the values. Does nothing while no trace is active.
void trace_span(std::string_view category, std::string_view name, TimePoint begin, TimePoint end,
                std::span<const LogField> args = {}, TraceTrack track = TraceTrack::this_thread) noexcept;

class TraceSpan {
 public:
  static constexpr size_t kMaxArgs = 3;
  using Args = std::array<LogField, kMaxArgs>;  // named values of the span; an empty name ends them

  // REQUIRES: the strings outlive the span
  TraceSpan(std::string_view category, std::string_view name, const Args& args = {}) noexcept
      : category_(category), name_(name), args_(args) {
    if (is_tracing()) begin_ = std::chrono::steady_clock::now();
  }
  ~TraceSpan() {
    if (begin_ != TimePoint()) trace_span(category_, name_, begin_, std::chrono::steady_clock::now(), args_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  std::string_view category_, name_;
  TimePoint begin_{};
  Args args_;
};

// What traces, debuggers and `top -H` call this thread; at most 15 characters.
void name_this_thread(const char* name) noexcept;

// The active trace, from start() to finish() or the destructor. At most one at a time.
class Trace {
 public:
  // file_write: the file cannot be made
  static Result<std::unique_ptr<Trace>> start(const std::string& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Writes the file. Without it there is none.
  Result<void> finish();

  class Sink;

 private:
  explicit Trace(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}
  std::shared_ptr<Sink> sink_;
};

}  // namespace rocmforge
