// Memory that runs out, at every moment of a load: calls that met it end, and the next ones get their weights.

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "support/heap_faults.h"
#include "support/support.h"
#include "weights/store_fixture_test.h"
#include "weights/weight_store.h"

namespace rocmforge {
namespace {

using testing::HeapFaults;
using testing::TempDir;
using testing::TestModel;
using testing::TestPlacement;

class WeightStoreMemoryTest : public ::testing::Test {
 protected:
  // Every stage in turn, as a pass asks for them: false when one failed for want of memory.
  bool pass() {
    for (uint32_t i = 0; i < store->n_stages(); i++) {
      if (i + 1 < store->n_stages()) store->prefetch(store->stage_weights(i + 1));
      const auto leases = store->get_all(store->stage_weights(i));
      if (!leases.ok()) {
        EXPECT_EQ(leases.error().code, ErrorCode::out_of_memory) << leases.error().message;
        return false;
      }
      for (const WeightStore::Lease& lease : *leases) EXPECT_TRUE(model.holds(lease));
      // One that is there, one that perhaps is not.
      const std::vector<WeightId> both{store->stage_weights(i)[0], store->stage_weights(0)[0]};
      const auto again = store->get_all(both);
      if (!again.ok()) return false;
      store->give_back(store->stage_weights(i));
    }
    return true;
  }

  // For each n, with loads on n_callers threads whose allocations, and the loaders', fail after n, and the store
  // cleared while they do or afterwards.
  void starve(size_t n_callers) {
    int n_ended = 0;
    for (const int64_t n_failing : {1, 4, 1'000'000}) {
      for (const bool clears_starved : {false, true}) {
        int64_t n = 0;
        for (bool met = true; met; n++) {
          std::atomic<int> n_short = 0;
          {
            std::vector<std::thread> callers;
            const HeapFaults faults(n, n_failing);
            for (size_t i = 0; i < n_callers; i++) {
              callers.emplace_back([&] {
                try {
                  n_short += !pass();
                } catch (const std::bad_alloc&) {
                  n_short++;
                }
              });
            }
            for (std::thread& caller : callers) caller.join();
            if (clears_starved) std::thread([&] { store->clear(); }).join();
            met = faults.n_failed() > 0;
          }
          n_ended += n_short > 0;
          ASSERT_TRUE(met || n_short == 0) << n << ", " << n_failing;
          ASSERT_TRUE(pass()) << n << ", " << n_failing;
          store->clear();
          ASSERT_FALSE(HasFailure()) << n << ", " << n_failing;
        }
        EXPECT_GT(n, 10);
      }
    }
    EXPECT_GT(n_ended, 20);
  }

  TempDir dir;
  TestModel model{dir.file("m.gguf"), TestModel::layers(3)};
  TestPlacement placement;
  std::unique_ptr<WeightStore> store = model.store(placement, {.n_loaders = 2});
};

TEST_F(WeightStoreMemoryTest, RunsOutInALoad) {
  starve(1);
}

TEST_F(WeightStoreMemoryTest, RunsOutInLoadsThatSeveralWaitFor) {
  starve(3);
}

TEST_F(WeightStoreMemoryTest, RunsOutWhileWeightsTakeTurns) {
  const uint64_t all = store->arena_bytes();
  store = model.store(placement, {.n_loaders = 2, .budget_bytes = all * 5 / 6});
  ASSERT_GT(store->streamed_bytes(), 0u);
  starve(1);
}

}  // namespace
}  // namespace rocmforge
