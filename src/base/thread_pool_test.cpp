#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace rocmforge {
namespace {

TEST(ThreadPool, RunsEveryPartOnceWhateverTheThreads) {
  for (const size_t n_threads : {1, 2, 5}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (const size_t n_parts : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> n_calls(n_parts);
      pool.run(n_parts, [&](size_t i) { n_calls[i]++; });
      for (const auto& n : n_calls) EXPECT_EQ(n.load(), 1);
    }
  }
}

TEST(ThreadPool, JobsThatFollowEachOtherDoNotMix) {
  ThreadPool pool(4);
  for (size_t job = 0; job < 20'000; job++) {
    std::atomic<size_t> sum = 0;
    const size_t n = job % 7;
    pool.run(n, [&](size_t i) { sum += i + 1; });
    ASSERT_EQ(sum.load(), n * (n + 1) / 2);
  }
}

TEST(ThreadPool, WhatAPartWroteIsSeenByTheCaller) {
  ThreadPool pool(3);
  std::vector<int> values(64);
  for (int round = 0; round < 500; round++) {
    pool.run(values.size(), [&](size_t i) { values[i]++; });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), 0), 64 * (round + 1));
  }
}

TEST(ThreadPool, AvailableCoresIsPositive) {
  EXPECT_GE(available_cores(), 1u);
}

}  // namespace
}  // namespace rocmforge
