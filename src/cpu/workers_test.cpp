#include "cpu/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace rocmforge::cpu {
namespace {

TEST(Workers, EachTaskRunsOnce) {
  for (const size_t n_threads : {1, 2, 4}) {
    Workers workers(n_threads);
    EXPECT_EQ(workers.n_threads(), n_threads);
    for (size_t n_tasks = 0; n_tasks < 200; n_tasks++) {
      std::vector<int> counts(n_tasks);
      workers.run(n_tasks, [&](size_t i, size_t) { counts[i]++; });
      EXPECT_TRUE(std::all_of(counts.begin(), counts.end(), [](int c) { return c == 1; }));
    }
  }
}

TEST(Workers, AWorkersScratchIsItsOwn) {
  Workers workers(3);
  struct alignas(64) Scratch {
    uint64_t sum = 0;  // a race would lose counts, and show under ThreadSanitizer
  };
  std::vector<Scratch> scratch(3);
  constexpr uint64_t kJobs = 300, kTasks = 20;
  for (uint64_t job = 0; job < kJobs; job++) {
    workers.run(kTasks, [&](size_t i, size_t worker) { scratch[worker].sum += i; });
  }
  uint64_t total = 0;
  for (const Scratch& s : scratch) total += s.sum;
  EXPECT_EQ(total, kJobs * (kTasks * (kTasks - 1) / 2));
}

TEST(Workers, WakeAfterSleeping) {
  Workers workers(2);
  for (int i = 0; i < 5; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> n = 0;
    workers.run(8, [&](size_t, size_t) { n++; });
    EXPECT_EQ(n, 8);
  }
}

TEST(Workers, EndWithoutHavingWorked) {
  for (int i = 0; i < 50; i++) const Workers workers(3);
}

}  // namespace
}  // namespace rocmforge::cpu
