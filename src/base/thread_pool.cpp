#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "base/trace.h"

namespace rocmforge {

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable job_posted;
  std::condition_variable job_left;
  // Guarded by mutex:
  uint64_t job_number = 0;  // 0: none yet
  size_t n_working = 0;     // workers inside the current job
  bool stop = false;
  std::exception_ptr thrown;  // by a part of the current job: the first
  // Written under mutex while no worker is inside a job, read by workers inside one:
  size_t n_parts = 0;
  void (*call)(void*, size_t) = nullptr;
  void* part = nullptr;
  std::atomic<size_t> next_part = 0;

  std::vector<std::thread> workers;

  // An exception ends the job: parts that nobody has begun are left out.
  void take_parts() {
    try {
      for (size_t i = next_part.fetch_add(1); i < n_parts; i = next_part.fetch_add(1)) call(part, i);
    } catch (...) {
      next_part = n_parts;
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  }

  void work() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      job_posted.wait(lock, [&] { return stop || job_number != seen; });
      if (stop) return;
      seen = job_number;
      n_working++;
      lock.unlock();
      take_parts();
      lock.lock();
      if (--n_working == 0) job_left.notify_all();
    }
  }
};

ThreadPool::ThreadPool(size_t n_threads) : state_(std::make_unique<State>()) {
  if (n_threads == 0) n_threads = available_cores();
  state_->workers = start_threads(n_threads - 1, [s = state_.get()](size_t) {
    name_this_thread("compute");
    s->work();
  });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->job_posted.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

size_t ThreadPool::n_threads() const {
  return state_->workers.size() + 1;
}

void ThreadPool::run_parts(size_t n_parts, void (*call)(void*, size_t), void* part) {
  State& s = *state_;
  if (n_parts <= 1 || s.workers.empty()) {
    for (size_t i = 0; i < n_parts; i++) call(part, i);
    return;
  }
  {
    // A worker that woke late for the previous job may still be leaving it.
    std::unique_lock lock(s.mutex);
    s.job_left.wait(lock, [&] { return s.n_working == 0; });
    s.n_parts = n_parts;
    s.call = call;
    s.part = part;
    s.next_part = 0;
    s.job_number++;
  }
  s.job_posted.notify_all();
  s.take_parts();
  std::unique_lock lock(s.mutex);
  s.job_left.wait(lock, [&] { return s.n_working == 0; });
  // Whoever wakes for this job from now on finds no part left.
  s.n_parts = 0;
  if (s.thrown) std::rethrow_exception(std::exchange(s.thrown, nullptr));
}

size_t available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::max(1u, std::thread::hardware_concurrency());
  return static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace rocmforge
