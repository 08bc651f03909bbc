// Many threads on one store: single flight, content under random use, and loads behind the computation.

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <random>
#include <thread>

#include "support/support.h"
#include "weights/store_fixture_test.h"
#include "weights/weight_store.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::TempDir;
using testing::TestFiles;
using testing::TestModel;
using testing::TestPlacement;

TEST(WeightStoreStress, SixtyFourThreadsOnOneColdWeightCauseOneLoad) {
  constexpr int kThreads = 64, kRounds = 100;
  const TempDir dir;
  const TestModel model(dir.file("m.gguf"), TestModel::layers(1));
  TestPlacement placement;
  const auto store = model.store(placement);
  const WeightId id = *store->find("l0.down");
  std::atomic<int> n_wrong = 0;
  std::atomic<const std::byte*> seen = nullptr;
  int round = 0;
  // Between rounds, on one thread: the round's load was the only one, and the weight is cold again.
  std::barrier turn(kThreads, [&]() noexcept {
    if (round > 0 && store->loading_stats().n_loads != static_cast<uint64_t>(round)) n_wrong++;
    round % 10 == 9 ? store->clear() : store->evict(id);
    seen = nullptr;
    round++;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      for (int r = 0; r < kRounds; r++) {
        turn.arrive_and_wait();
        const auto lease = store->get(id);
        if (!lease.ok() || !model.holds(*lease)) {
          n_wrong++;
          continue;
        }
        const std::byte* expected = nullptr;
        if (!seen.compare_exchange_strong(expected, lease->data()) && expected != lease->data()) n_wrong++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
  const LoadingStats stats = store->loading_stats();
  EXPECT_EQ(stats.n_loads, static_cast<uint64_t>(kRounds));
  EXPECT_EQ(stats.n_failures, 0u);
}

// Random gets, prefetches, evictions, clears and faults; whatever a lease shows must be the file's bytes.
TEST(WeightStoreStress, RandomUseNeverShowsWrongBytes) {
  constexpr int kThreads = 6, kSteps = 400;
  const TempDir dir;
  const TestModel model(dir.file("m.gguf"), TestModel::layers(3));
  TestFiles files;
  TestPlacement placement;
  const auto store = model.store(placement, {.n_loaders = 3}, &files.calls);
  store->on_progress([](const LoadingStats&) {});
  const auto n_weights = static_cast<uint32_t>(store->tensors().size());
  std::atomic<int> n_wrong = 0, n_good = 0, n_failed = 0;
  std::mt19937_64 seeds = testing::seeded_rng();

  const auto count = [&](const auto& leases) {
    if (leases.ok()) {
      for (const auto& lease : *leases) model.holds(lease) ? n_good++ : n_wrong++;
      return;
    }
    const ErrorCode code = leases.error().code;
    code == ErrorCode::cancelled || code == ErrorCode::file_read ? n_failed++ : n_wrong++;
    std::this_thread::sleep_for(100us);  // lets a clear get on
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) {
    threads.emplace_back([&, seed = seeds()] {
      std::mt19937_64 rng(seed);
      for (int step = 0; step < kSteps; step++) {
        std::vector<WeightId> ids(1 + rng() % 4);
        for (WeightId& id : ids) id = WeightId(static_cast<uint32_t>(rng() % n_weights));
        const uint64_t what = rng() % 1000;
        if (what < 600) {
          count(store->get_all(ids));
        } else if (what < 800) {
          store->prefetch(ids);
        } else if (what < 970) {
          store->evict(ids[0]);
        } else if (what < 990) {
          files.reads.fail_once(static_cast<int64_t>(1 + rng() % 5));
        } else {
          store->clear();
        }
        static_cast<void>(store->loading_stats());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
  EXPECT_GT(n_failed, 0);
  EXPECT_GT(n_good, kThreads * kSteps / 4);
  files.reads.mend();
  ASSERT_TRUE(store->preload_all().ok());
  for (const LazyTensor& weight : store->tensors()) EXPECT_TRUE(model.holds(*store->get(weight.id)));
  store->clear();
  EXPECT_FALSE(placement.is_reserved());
}

// A store may end while leases on other threads are on their way out.
TEST(WeightStoreStress, TheEndOfAStoreWaitsForLeases) {
  const TempDir dir;
  const TestModel model(dir.file("m.gguf"), TestModel::layers(1));
  for (int round = 0; round < 50; round++) {
    TestPlacement placement;
    auto store = model.store(placement);
    std::vector<std::thread> holders;
    std::barrier leased(4);
    for (int i = 0; i < 3; i++) {
      holders.emplace_back([&] {
        const auto lease = store->get(WeightId(1));
        leased.arrive_and_wait();
      });
    }
    leased.arrive_and_wait();
    store.reset();
    for (std::thread& holder : holders) holder.join();
  }
}

// A read takes 2 ms, a layer's computation as long as its reads: in turn they take twice as long as side by side.
TEST(WeightStoreStress, LoadsOverlapTheComputation) {
  constexpr uint32_t kLayers = 12;
  const TempDir dir;
  const TestModel model(dir.file("m.gguf"), TestModel::layers(kLayers));
  TestFiles files;
  files.before_read = [](size_t) { std::this_thread::sleep_for(2ms); };
  TestPlacement placement;
  const auto store = model.store(placement, {.n_loaders = 1}, &files.calls);

  const auto pass = [&](uint32_t window, std::chrono::nanoseconds compute_per_layer) {
    store->clear();
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t stage = 1; stage <= kLayers; stage++) {
      for (uint32_t ahead = 1; ahead <= window && stage + ahead <= kLayers; ahead++) {
        store->prefetch(store->stage_weights(stage + ahead));
      }
      const auto leases = store->get_all(store->stage_weights(stage));
      EXPECT_TRUE(leases.ok());
      std::this_thread::sleep_for(compute_per_layer);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // The best of three: other programs may take the processor from one of them.
  double best_ratio = 1;
  for (int attempt = 0; attempt < 3 && best_ratio > 0.75; attempt++) {
    const double load = pass(0, 0ns);
    const double compute = load;
    const double overlapped = pass(2, std::chrono::nanoseconds(static_cast<int64_t>(compute / kLayers * 1e9)));
    best_ratio = std::min(best_ratio, overlapped / (load + compute));
  }
  EXPECT_LE(best_ratio, 0.75);
}

}  // namespace
}  // namespace rocmforge
