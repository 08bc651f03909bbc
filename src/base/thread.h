#pragma once
// Threads whose start may fail. A system refuses threads at a limit (pids.max of a container, TasksMax of systemd,
// ulimit -u), and that is an Error like a file that cannot be opened, not an exception. All threads of src and apps
// start here.
//
// An exception that leaves `work` ends its thread and is logged; the process goes on. Work that others wait for
// catches its own exceptions and tells those who wait.

#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rocmforge {

// What an exception means, for threads that others wait for: out_of_memory of std::bad_alloc, no_thread of a thread
// that cannot start, internal of all others.
Error error_of(const std::exception& exception) noexcept;

namespace thread_detail {
void log_exception(const char* what) noexcept;
void log_fewer(size_t n_started, size_t n_asked, const Error& error) noexcept;
}  // namespace thread_detail

// A thread that calls work(); the caller joins it. no_thread: the system starts no more, and the message names the
// limits to raise. out_of_memory
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

// Up to n threads that call work(0), work(1), and so on: for pools that do the same work with fewer threads. Fewer
// than asked for are logged. std::bad_alloc: no thread was started.
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
