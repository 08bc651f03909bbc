#include "cpu/workers.h"

#include <algorithm>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/thread.h"

namespace rocmforge::cpu {
namespace {

// About 50 microseconds on its feet: longer than the gaps inside a pass, shorter than those between tokens.
constexpr int kSpins = 2'000;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Workers::Workers(size_t n_threads) : shares_(std::max<size_t>(n_threads, 1)) {
  threads_ = start_threads(shares_.size() - 1, [this](size_t i) { work(i + 1); });
}

Workers::~Workers() {
  stop_ = true;
  n_posted_++;
  n_posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// An exception of a task is kept for the caller of run(); the other tasks run.
void Workers::take_tasks(size_t worker) {
  for (size_t k = 0; k < shares_.size(); k++) {
    Share& share = shares_[(worker + k) % shares_.size()];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      try {
        if (const size_t i = share.next++; i < share.end) call_(task_, i, worker);
      } catch (...) {
        const std::lock_guard lock(thrown_mutex_);
        if (!thrown_) thrown_ = std::current_exception();
      }
    }
  }
}

void Workers::work(size_t worker) {
  uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < kSpins && n_posted_ == seen; i++) pause();
    n_posted_.wait(seen);
    if (stop_) return;
    seen = n_posted_;
    n_inside_++;
    if (is_open_) take_tasks(worker);
    if (--n_inside_ == 0) n_inside_.notify_one();
  }
}

void Workers::run_tasks(size_t n_tasks, Call call, void* task) {
  if (n_tasks <= 1 || threads_.empty()) {
    for (size_t i = 0; i < n_tasks; i++) call(task, i, 0);
    return;
  }
  call_ = call;
  task_ = task;
  for (size_t w = 0; w < shares_.size(); w++) {
    shares_[w].next = n_tasks * w / shares_.size();
    shares_[w].end = n_tasks * (w + 1) / shares_.size();
  }
  is_open_ = true;
  n_posted_++;
  n_posted_.notify_all();
  take_tasks(0);
  is_open_ = false;
  for (int i = 0; i < kSpins && n_inside_ != 0; i++) pause();
  for (uint32_t n = n_inside_; n != 0; n = n_inside_) n_inside_.wait(n);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

}  // namespace rocmforge::cpu
