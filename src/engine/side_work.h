#pragma once
// Work beside the engine's thread. To choose a token under a hostile grammar may take seconds; nobody but the request
// waits for it.
//
// While such work is quick, the caller does it itself. After one piece that took long, all of it is done by threads of
// lower priority for a while, and the caller goes on when a step has waited long enough.
//
// Threads: one at a time calls the members. The destructor drops work that has not begun and waits for the rest.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace rocmforge {

struct SideWorkLimits {
  Duration slow = std::chrono::milliseconds(5);      // a piece that takes longer,
  Duration wary = std::chrono::seconds(10);          // and for how long others are not trusted after it
  Duration of_step = std::chrono::milliseconds(20);  // what a step waits for the work that was begun in it
};

class SideWork {
 public:
  struct Job {
    std::function<void()> work;  // throws nothing
    Duration spent{};            // on its request before
    Duration took{};             // when it is done
    std::atomic<bool> is_done = false;
  };

  explicit SideWork(const SideWorkLimits& limits = {}) : limits_(limits) {}
  ~SideWork();
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;

  // The step's time begins. `has_no_limit`: wait() waits until all is done.
  void begin_step(bool has_no_limit);
  // Of work that waits, the request's comes first on which the least time was spent.
  std::shared_ptr<const Job> begin(std::function<void()> work, Duration spent = {});
  // Until all jobs that were begun in this step are done, or its time is over.
  void wait();
  // Until any job is done that was not when n_done() gave `n_before`, or the time is over.
  void wait_for_another(uint64_t n_before, Duration most);
  uint64_t n_done();

 private:
  static constexpr size_t kThreads = 2;
  void run(const std::shared_ptr<Job>& job);
  void work();
  bool has_threads();

  const SideWorkLimits limits_;
  // The caller's alone.
  std::vector<std::shared_ptr<const Job>> begun_;  // in this step
  TimePoint step_end_{};
  bool has_limit_ = true, has_asked_for_threads_ = false;

  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  std::vector<std::shared_ptr<Job>> queue_;  // in the order of arrival
  TimePoint wary_until_{};
  uint64_t n_done_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rocmforge
