#pragma once
// The threads for work that an event loop has no time for, and the queue before them.
//
// Work of two kinds: what a new request brings is refused when the queue is full; what ends or continues a request is
// always taken, and is bounded by the requests there are.
//
// Large work has a queue of its own and at most half of the threads: a small request never waits for many large ones.
//
// Threads: any, except ~Workers(), which ends the threads: what is queued by then is dropped, what runs is waited for.

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
  std::chrono::milliseconds longest = {};  // how long the oldest of those that run has been running
};

class Workers {
 public:
  // With fewer threads where the system starts no more. no_thread: not even one.
  static Result<std::unique_ptr<Workers>> start(size_t n_threads, size_t max_queued);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False: the queue is full, and the work was not taken.
  [[nodiscard]] bool try_post(std::function<void()> work, WorkSize size = WorkSize::small);
  void post(std::function<void()> work, WorkSize size = WorkSize::small);
  WorkerStats stats() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  Workers(size_t n_threads, size_t max_queued) : max_queued_(max_queued), began_(n_threads) {}
  void run(std::optional<Time>& began);
  std::deque<std::function<void()>>* ready_queue();  // with work that a thread may begin now; null: none
  size_t n_queued() const { return small_.size() + large_.size(); }
  void push(std::function<void()> work, WorkSize size);

  const size_t max_queued_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> small_, large_;
  size_t n_large_running_ = 0;
  std::vector<std::optional<Time>> began_;  // per thread: when its work began; nothing while it waits
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rocmforge::server
