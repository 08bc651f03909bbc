#pragma once
// Worker threads, and the queue of their work.
//
// The work of a new request is refused when the queue is full (try_post). Work that continues or ends a request is
// always accepted (post); the number of requests bounds it.
//
// Large work has its own queue and at most half of the threads: a small request never waits for many large ones.
//
// Threads: any. ~Workers() drops queued work and waits for running work.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"

namespace rocmforge::server {

enum class WorkSize : uint8_t { small, large };

struct WorkerStats {
  size_t n_queued = 0;
  size_t n_running = 0;
  std::chrono::milliseconds longest = {};  // running time of the oldest running work
};

class Workers {
 public:
  // Starts fewer threads if the system allows no more. no_thread: none could be started.
  static Result<std::unique_ptr<Workers>> start(size_t n_threads, size_t max_queued);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False: the queue is full; the work was not accepted.
  [[nodiscard]] bool try_post(std::function<void()> work, WorkSize size = WorkSize::small);
  void post(std::function<void()> work, WorkSize size = WorkSize::small);
  WorkerStats stats() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  Workers(size_t n_threads, size_t max_queued) : max_queued_(max_queued), began_(n_threads) {}
  void run(std::optional<Time>& began);
  std::deque<std::function<void()>>* ready_queue();  // has work that a thread may begin now; null: no such queue
  size_t n_queued() const { return small_.size() + large_.size(); }
  void push(std::function<void()> work, WorkSize size);

  const size_t max_queued_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> small_, large_;
  size_t n_large_running_ = 0;
  std::vector<std::optional<Time>> began_;  // per thread: when its work began; none while it waits
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rocmforge::server
