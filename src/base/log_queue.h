#pragma once
// Lines on their way to a slow reader, written by a thread of their own: who logs never waits. While the reader takes
// no bytes, lines are kept up to a bound; those beyond it are dropped, and a line tells their number afterwards.
//
// Threads: any.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace rocmforge {

class LogQueue {
 public:
  static constexpr size_t kMaxBytes = 1u << 20;  // waiting; as many again may be on their way

  struct Options {
    std::function<void(std::string_view lines)> write;  // may block
    std::function<std::string(uint64_t n)> tell_dropped;
    size_t max_bytes = kMaxBytes;
  };
  // no_thread, out_of_memory
  static Result<std::unique_ptr<LogQueue>> start(Options options);
  // Gives lines that wait a second to be written, and leaves behind a writer that is still blocked then.
  ~LogQueue();
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  void push(std::string line) noexcept;  // with its line feed
  // False: not all lines were written in time.
  bool flush(std::chrono::milliseconds patience);

 private:
  struct State;
  LogQueue(std::shared_ptr<State> state, std::thread writer);

  std::shared_ptr<State> state_;
  std::thread writer_;
};

}  // namespace rocmforge
