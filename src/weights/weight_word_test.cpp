#include "weights/weight_word.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace rocmforge {
namespace {

TEST(WeightWord, LeasesOnlyWhatIsResident) {
  WeightWord word;
  for (const LoadState state : {LoadState::unloaded, LoadState::loading, LoadState::in_flight, LoadState::failed}) {
    word.move_to(state);
    EXPECT_EQ(word.state(), state);
    EXPECT_FALSE(word.try_lease());
  }
  word.publish(2);
  EXPECT_EQ(word.state(), LoadState::resident);
  EXPECT_EQ(word.n_leases(), 2u);
  EXPECT_EQ(word.n_hits(), 0u);
  EXPECT_TRUE(word.try_lease());
  EXPECT_EQ(word.n_leases(), 3u);
  EXPECT_EQ(word.n_hits(), 1u);
}

TEST(WeightWord, IsUnloadedOnlyWithoutLeases) {
  WeightWord word;
  word.publish(1);
  EXPECT_TRUE(word.try_lease());
  EXPECT_TRUE(word.try_release());
  EXPECT_FALSE(word.try_unload());
  // Somebody waits now: leases are left to those who hold the mutex.
  EXPECT_FALSE(word.try_lease());
  EXPECT_FALSE(word.try_release());
  word.lease();
  word.release();
  EXPECT_FALSE(word.try_unload());
  word.release();
  EXPECT_EQ(word.state(), LoadState::resident);
  EXPECT_TRUE(word.try_unload());
  EXPECT_EQ(word.state(), LoadState::unloaded);
  EXPECT_EQ(word.n_leases(), 0u);
  EXPECT_EQ(word.n_hits(), 2u) << "hits outlive residency";
  word.publish(0);
  EXPECT_TRUE(word.try_lease());
  EXPECT_TRUE(word.try_release());
  EXPECT_TRUE(word.try_unload());
}

TEST(WeightWord, CountsEveryLeaseOfManyThreads) {
  constexpr int kRounds = 20'000;
  WeightWord word;
  word.publish(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; round++) {
        if (!word.try_lease() || !word.try_release()) return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(word.n_leases(), 0u);
  EXPECT_EQ(word.n_hits(), 4u * kRounds);
  EXPECT_EQ(word.state(), LoadState::resident);
}

}  // namespace
}  // namespace rocmforge
