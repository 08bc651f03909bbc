#include "server/http/workers.h"

#include <algorithm>
#include <iterator>

#include "base/attempt.h"
#include "base/thread.h"

namespace rocmforge::server {
Result<std::unique_ptr<Workers>> Workers::start(size_t n_threads, size_t max_queued) {
  std::unique_ptr<Workers> workers(new Workers(n_threads, max_queued));
  Workers* w = workers.get();
  w->threads_.reserve(n_threads);
  w->threads_.push_back(TRY(start_thread([w] { w->run(w->began_[0]); })));
  auto more = start_threads(n_threads - 1, [w](size_t i) { w->run(w->began_[i + 1]); });
  std::ranges::move(more, std::back_inserter(w->threads_));
  return workers;
}

Workers::~Workers() {
  std::deque<std::function<void()>> dropped, large;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    dropped.swap(small_);
    large.swap(large_);
    changed_.notify_all();
  }
  dropped.clear();
  large.clear();
  for (std::thread& thread : threads_) thread.join();
}

std::deque<std::function<void()>>* Workers::ready_queue() {
  if (!small_.empty()) return &small_;
  const size_t n_most_large = std::max<size_t>(1, began_.size() / 2);
  return !large_.empty() && n_large_running_ < n_most_large ? &large_ : nullptr;
}

void Workers::run(std::optional<Time>& began) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_ending_ || ready_queue() != nullptr; });
    if (is_ending_) return;
    auto& queue = *ready_queue();
    const bool is_large = &queue == &large_;
    std::function<void()> work = std::move(queue.front());
    queue.pop_front();
    n_large_running_ += is_large;
    began = std::chrono::steady_clock::now();
    lock.unlock();
    attempt_in("server", work);
    work = nullptr;  // what it held ends here, too
    lock.lock();
    began.reset();
    n_large_running_ -= is_large;
  }
}

void Workers::push(std::function<void()> work, WorkSize size) {
  (size == WorkSize::large ? large_ : small_).push_back(std::move(work));
  changed_.notify_one();
}

bool Workers::try_post(std::function<void()> work, WorkSize size) {
  const std::lock_guard lock(mutex_);
  if (is_ending_ || n_queued() >= max_queued_) return false;
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
