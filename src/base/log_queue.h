#pragma once
// A bounded queue of log lines with a writer thread, so that logging never waits for a slow reader. When the reader
// stalls, lines beyond the bound are dropped, and a later line gives their number.
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
  static constexpr size_t kMaxBytes = 1u << 20;  // waiting in the queue; as many again may be in the write under way

  struct Options {
    std::function<void(std::string_view lines)> write;  // may block
    std::function<std::string(uint64_t n)> tell_dropped;
    size_t max_bytes = kMaxBytes;
  };
  // no_thread, out_of_memory
  static Result<std::unique_ptr<LogQueue>> start(Options options);
  // Waits up to a second for the remaining lines, then abandons a writer that is still blocked.
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
