#pragma once
// Threads whose start may fail. A system refuses threads at a limit (pids.max of a container, TasksMax of systemd,
// ulimit -u); that is an Error, not an exception. All threads of src and apps start here.
//
// An exception that escapes `work` ends its thread and is logged; the process goes on. If other threads wait for the
// work, the work must catch its own exceptions and report them to those threads.

#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rocmforge {

// The error for an exception, for threads that others wait for: std::bad_alloc is out_of_memory, a thread that cannot
// start is no_thread, anything else is internal.
Error error_of(const std::exception& exception) noexcept;

namespace thread_detail {
void log_exception(const char* what) noexcept;
void log_fewer(size_t n_started, size_t n_asked, const Error& error) noexcept;
}  // namespace thread_detail

// For work that may take long and that few wait for: other threads of the process come first. It cannot be undone.
void lower_this_threads_priority() noexcept;

// A thread that calls work(); the caller joins it. Errors: no_thread (the system starts no more threads; the message
// names the limits to raise), out_of_memory.
template <class Work>
Result<std::thread> start_thread(Work work) noexcept {
  try {
    return std::thread([work = std::move(work)]() mutable {
      try {
        work();
      } catch (const std::exception& error) {
        thread_detail::log_exception(error.what());
      }
    });
  } catch (const std::exception& error) {
    return error_of(error);
  }
}

// Up to n threads that call work(0), work(1), and so on: for pools that can work with fewer threads. Fewer than n are
// logged. On std::bad_alloc no thread was started.
template <class Work>
std::vector<std::thread> start_threads(size_t n, const Work& work) {
  std::vector<std::thread> threads;
  threads.reserve(n);
  while (threads.size() < n) {
    auto thread = start_thread([work, i = threads.size()] { work(i); });
    if (!thread.ok()) {
      thread_detail::log_fewer(threads.size(), n, thread.error());
      break;
    }
    threads.push_back(std::move(*thread));
  }
  return threads;
}

}  // namespace rocmforge
