#include "server/http/workers.h"

#include <algorithm>
#include <iterator>

#include "base/attempt.h"
#include "base/thread.h"

namespace rocmforge::server {

Result<std::unique_ptr<Workers>> Workers::start(size_t n_threads, size_t max_queued) {
  const size_t n_large = std::max<size_t>(1, n_threads / 2);
  std::unique_ptr<Workers> workers(new Workers(n_threads + n_large, max_queued));
  Workers* w = workers.get();
  w->threads_.reserve(n_threads + n_large);
  const auto run_small = [w](size_t i) { w->run(w->small_, w->began_[i]); };
  const auto run_large = [w, n_threads](size_t i) {
    lower_this_threads_priority();
    w->run(w->large_, w->began_[n_threads + i]);
  };
  w->threads_.push_back(TRY(start_thread([run_small] { run_small(0); })));
  w->threads_.push_back(TRY(start_thread([run_large] { run_large(0); })));
  std::ranges::move(start_threads(n_threads - 1, [run_small](size_t i) { run_small(i + 1); }),
                    std::back_inserter(w->threads_));
  std::ranges::move(start_threads(n_large - 1, [run_large](size_t i) { run_large(i + 1); }),
                    std::back_inserter(w->threads_));
  return workers;
}

Workers::~Workers() {
  std::deque<std::function<void()>> dropped, large;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    dropped.swap(small_);
    large.swap(large_);
    small_changed_.notify_all();
    large_changed_.notify_all();
  }
  dropped.clear();
  large.clear();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(std::deque<std::function<void()>>& queue, std::optional<Time>& began) {
  std::condition_variable& changed = &queue == &small_ ? small_changed_ : large_changed_;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed.wait(lock, [&] { return is_ending_ || !queue.empty(); });
    if (is_ending_) return;
    std::function<void()> work = std::move(queue.front());
    queue.pop_front();
    began = std::chrono::steady_clock::now();
    lock.unlock();
    attempt_in("server", work);
    work = nullptr;  // what it held ends here, too
    lock.lock();
    began.reset();
  }
}

void Workers::push(std::function<void()> work, WorkSize size) {
  const bool is_large = size == WorkSize::large;
  (is_large ? large_ : small_).push_back(std::move(work));
  (is_large ? large_changed_ : small_changed_).notify_one();
}

bool Workers::try_post(std::function<void()> work, WorkSize size) {
  const std::lock_guard lock(mutex_);
  const size_t n_before = (size == WorkSize::large ? large_ : small_).size();
  if (is_ending_ || n_before >= max_queued_) return false;
  push(std::move(work), size);
  return true;
}

void Workers::post(std::function<void()> work, WorkSize size) {
  const std::lock_guard lock(mutex_);
  if (is_ending_) return;
  push(std::move(work), size);
}

WorkerStats Workers::stats() const {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  WorkerStats out{.n_queued = n_queued()};
  for (const auto& began : began_) {
    if (!began) continue;
    out.n_running++;
    out.longest = std::max(out.longest, std::chrono::duration_cast<std::chrono::milliseconds>(now - *began));
  }
  return out;
}

}  // namespace rocmforge::server
