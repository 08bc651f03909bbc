#pragma once
// Worker threads, and the queue of their work.
//
// The work of a new request is refused when its queue is full (try_post). Work that continues or ends a request is
// always accepted (post); the number of requests bounds it.
//
// Large work (large bodies, and what is compiled) has its own queue and its own threads, half as many and of lower
// priority: a small request never waits for large ones.
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
  // n_threads for small work. Starts fewer if the system allows no more; no_thread: one for each kind could not be
  // started.
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
  void run(std::deque<std::function<void()>>& queue, std::optional<Time>& began);
  size_t n_queued() const { return small_.size() + large_.size(); }
  void push(std::function<void()> work, WorkSize size);

  const size_t max_queued_;
  mutable std::mutex mutex_;
  std::condition_variable small_changed_, large_changed_;
  std::deque<std::function<void()>> small_, large_;
  std::vector<std::optional<Time>> began_;  // per thread: when its work began; none while it waits
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rocmforge::server
