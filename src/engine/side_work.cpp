#include "engine/side_work.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "base/trace.h"

namespace rocmforge {
namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

SideWork::~SideWork() {
  std::vector<std::shared_ptr<Job>> dropped;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    dropped.swap(queue_);
    wanted_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void SideWork::begin_step(bool has_no_limit) {
  begun_.clear();
  has_limit_ = !has_no_limit;
  step_end_ = now() + limits_.of_step;
}

std::shared_ptr<const SideWork::Job> SideWork::begin(std::function<void()> work, Duration spent) {
  const auto job = std::make_shared<Job>();
  job->work = std::move(work);
  job->spent = spent;
  std::unique_lock lock(mutex_);
  if (now() >= wary_until_ || !has_threads()) {
    lock.unlock();
    run(job);
    return job;
  }
  queue_.push_back(job);
  begun_.push_back(job);
  wanted_.notify_one();
  return job;
}

// Without the lock.
void SideWork::run(const std::shared_ptr<Job>& job) {
  const TimePoint begin = now();
  job->work();
  job->work = nullptr;
  const TimePoint end = now();
  const std::lock_guard lock(mutex_);
  if (end - begin > limits_.slow) wary_until_ = end + limits_.wary;
  job->took = end - begin;
  job->is_done = true;
  n_done_++;
  done_.notify_all();
}

void SideWork::wait() {
  std::unique_lock lock(mutex_);
  const auto are_done = [&] {
    return std::ranges::all_of(begun_, [](const auto& job) { return job->is_done.load(); });
  };
  if (has_limit_) {
    done_.wait_until(lock, step_end_, are_done);
  } else {
    done_.wait(lock, are_done);
  }
}

uint64_t SideWork::n_done() {
  const std::lock_guard lock(mutex_);
  return n_done_;
}

void SideWork::wait_for_another(uint64_t n_before, Duration most) {
  std::unique_lock lock(mutex_);
  const auto is_another = [&] { return n_done_ > n_before; };
  if (has_limit_) {
    done_.wait_for(lock, most, is_another);
  } else {
    done_.wait(lock, is_another);
  }
}

// Where the system allows no threads, the caller does the work.
bool SideWork::has_threads() {
  if (!std::exchange(has_asked_for_threads_, true)) {
    threads_ = start_threads(kThreads, [this](size_t) { work(); });
  }
  return !threads_.empty();
}

void SideWork::work() {
  name_this_thread("constraints");
  lower_this_threads_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
    if (is_ending_) return;
    const auto next = std::ranges::min_element(queue_, {}, [](const auto& job) { return job->spent; });
    const std::shared_ptr<Job> job = std::move(*next);
    queue_.erase(next);
    lock.unlock();
    run(job);
    lock.lock();
  }
}

}  // namespace rocmforge
