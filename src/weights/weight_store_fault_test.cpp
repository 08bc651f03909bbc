// What a store does when reading, landing or the file itself fails.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "support/support.h"
#include "weights/store_fixture_test.h"
#include "weights/weight_store.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::Fuse;
using testing::Gate;
using testing::TempDir;
using testing::TestFiles;
using testing::TestModel;
using testing::TestPlacement;

class WeightStoreFaultTest : public ::testing::Test {
 protected:
  std::vector<WeightId> all_ids() const {
    std::vector<WeightId> ids;
    for (const LazyTensor& weight : store->tensors()) ids.push_back(weight.id);
    return ids;
  }

  // Gets every weight in turn, cold, with one call at the seam failing: for each n until the fault is no longer met.
  // Transient: one get fails, the same get succeeds at once. Persistent: gets fail until the fault is mended.
  void fail_each_call(Fuse& fuse, ErrorCode code) {
    for (const bool persistent : {false, true}) {
      int64_t n = 1;
      for (bool met = true; met; n++) {
        met = false;
        persistent ? fuse.fail_from(n) : fuse.fail_once(n);
        for (const WeightId id : all_ids()) {
          auto lease = store->get(id);
          if (!lease.ok()) {
            EXPECT_FALSE(met) << "the call after the failed one failed too, n = " << n;
            met = true;
            EXPECT_EQ(lease.error().code, code) << lease.error().message;
            const std::string name = fmt::format("weights: tensor '{}': ", store->tensor(id).name);
            EXPECT_EQ(lease.error().message.find(name), 0u) << lease.error().message;
            EXPECT_EQ(store->state(id), LoadState::failed);
            if (persistent) {
              EXPECT_FALSE(store->get(id).ok());
              fuse.mend();
            }
            lease = store->get(id);
          }
          ASSERT_TRUE(lease.ok()) << lease.error().message;
          ASSERT_TRUE(model.holds(*lease)) << n;
        }
        store->clear();
      }
      EXPECT_GT(n, 2) << "no fault was ever met";
      fuse.mend();
    }
  }

  TempDir dir;
  TestModel model{dir.file("m.gguf"), TestModel::layers(2)};
  TestFiles files;
  TestPlacement placement;
  std::unique_ptr<WeightStore> store = model.store(placement, {.n_loaders = 3}, &files.calls);
};

TEST_F(WeightStoreFaultTest, EveryReadMayFailOnceOrFromThenOn) {
  for (const bool cached : {true, false}) {
    files.is_cached = cached;
    files.fault_errno = EIO;
    fail_each_call(files.reads, ErrorCode::file_read);
  }
}

TEST_F(WeightStoreFaultTest, EveryReadMayMeetTheEndOfTheFile) {
  // Buffered only: the last direct read of a file may well end early.
  files.fault_errno = 0;
  fail_each_call(files.reads, ErrorCode::file_truncated);
}

TEST_F(WeightStoreFaultTest, EveryStagingBufferMayFail) {
  fail_each_call(placement.stagings, ErrorCode::out_of_memory);
}

TEST_F(WeightStoreFaultTest, EveryLandingMayFail) {
  fail_each_call(placement.lands, ErrorCode::out_of_memory);
}

TEST_F(WeightStoreFaultTest, EveryFinishMayFail) {
  fail_each_call(placement.finishes, ErrorCode::out_of_memory);
}

TEST_F(WeightStoreFaultTest, ReserveMayFail) {
  fail_each_call(placement.reserves, ErrorCode::out_of_memory);
}

TEST_F(WeightStoreFaultTest, AllCallsThatWaitedFailAndTheNextSucceeds) {
  constexpr int kCallers = 8;
  for (Fuse* fuse : {&files.reads, &placement.reserves, &placement.finishes}) {
    Gate gate;
    // Holds the flight until everybody waits for it.
    placement.before_finish = [&] { gate.pass(); };
    placement.before_reserve = [&] { gate.pass(); };
    files.before_read = [&](size_t) { gate.pass(); };
    fuse->fail_once(1);
    std::vector<std::future<bool>> calls;
    for (int i = 0; i < kCallers; i++) {
      calls.push_back(std::async(std::launch::async, [&] { return store->get(WeightId(0)).ok(); }));
    }
    std::this_thread::sleep_for(50ms);
    gate.open();
    int n_failed = 0;
    for (auto& call : calls) n_failed += !call.get();
    EXPECT_GE(n_failed, 1);
    EXPECT_EQ(store->loading_stats().n_failures, 1u);
    EXPECT_TRUE(store->get(WeightId(0)).ok());
    placement.before_finish = placement.before_reserve = nullptr;
    files.before_read = nullptr;
    store->clear();
    store = nullptr;
    store = model.store(placement, {.n_loaders = 3}, &files.calls);
  }
}

TEST_F(WeightStoreFaultTest, AFailedPrefetchIsTriedAgainByTheNextGet) {
  files.reads.fail_once(1);
  store->prefetch(std::vector{WeightId(0)});
  while (store->state(WeightId(0)) != LoadState::failed) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(store->loading_stats().n_failures, 1u);
  const auto lease = store->get(WeightId(0));
  ASSERT_TRUE(lease.ok());
  EXPECT_TRUE(model.holds(*lease));
}

TEST_F(WeightStoreFaultTest, AFailedWeightCanBeEvictedAndPrefetched) {
  files.reads.fail_once(1);
  EXPECT_FALSE(store->get(WeightId(0)).ok());
  store->evict(WeightId(0));
  EXPECT_EQ(store->state(WeightId(0)), LoadState::unloaded);
  files.reads.fail_once(1);
  EXPECT_FALSE(store->get(WeightId(0)).ok());
  store->prefetch(std::vector{WeightId(0)});
  while (store->state(WeightId(0)) != LoadState::resident) std::this_thread::sleep_for(1ms);
}

TEST_F(WeightStoreFaultTest, GetAllKeepsNoLeaseWhenOneFails) {
  const std::vector<WeightId> ids = all_ids();
  ASSERT_TRUE(store->get(ids[1]).ok());
  for (int64_t n = 1; n <= 12; n++) {
    files.reads.fail_once(n);
    EXPECT_FALSE(store->get_all(ids).ok()) << n;
    for (const WeightId id : ids) store->evict(id);  // would wait for a lease forever
  }
  files.reads.mend();
  const auto leases = store->get_all(ids);
  ASSERT_TRUE(leases.ok());
  for (const auto& lease : *leases) EXPECT_TRUE(model.holds(lease));
}

TEST_F(WeightStoreFaultTest, PreloadReportsTheError) {
  files.reads.fail_from(5);
  EXPECT_EQ(store->preload_all().error().code, ErrorCode::file_read);
  // The first error ended the call; what it had asked for besides goes on, and fails by itself.
  while (store->loading_stats().n_tensors_loading > 0) std::this_thread::sleep_for(1ms);
  files.reads.mend();
  EXPECT_TRUE(store->preload_all().ok());
}

// A store on the file that something happens to, and another, on a file of its own, that must not notice.
class ChangedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store->get(WeightId(1)).ok());
    ASSERT_TRUE(bystander->get(WeightId(1)).ok());
  }

  void expect_failure(ErrorCode code) {
    for (int round = 0; round < 2; round++) {
      for (const WeightId id : {WeightId(0), WeightId(4)}) {
        const auto lease = store->get(id);
        ASSERT_FALSE(lease.ok());
        EXPECT_EQ(lease.error().code, code) << lease.error().message;
        EXPECT_NE(lease.error().message.find(model.path()), std::string::npos) << lease.error().message;
      }
    }
    // What is resident is ours; what others hold is theirs.
    EXPECT_TRUE(model.holds(*store->get(WeightId(1))));
    ASSERT_TRUE(bystander->preload_all().ok());
    EXPECT_TRUE(bystander_model.holds(*bystander->get(WeightId(0))));
  }

  void append(std::string_view text) { std::ofstream(model.path(), std::ios::app | std::ios::binary) << text; }

  TempDir dir;
  TestModel model{dir.file("m.gguf"), TestModel::layers(2)};
  TestModel bystander_model{dir.file("other.gguf"), TestModel::layers(2), 1};
  TestFiles files;
  TestPlacement placement, bystander_placement;
  std::unique_ptr<WeightStore> store = model.store(placement, {.n_loaders = 2}, &files.calls);
  std::unique_ptr<WeightStore> bystander = bystander_model.store(bystander_placement);
};

TEST_F(ChangedFileTest, TruncatedIsAnError) {
  ASSERT_EQ(::truncate(model.path().c_str(), 1000), 0);
  expect_failure(ErrorCode::file_truncated);
}

TEST_F(ChangedFileTest, EmptiedIsAnError) {
  ASSERT_EQ(::truncate(model.path().c_str(), 0), 0);
  expect_failure(ErrorCode::file_truncated);
}

TEST_F(ChangedFileTest, ReplacedIsAnError) {
  const TestModel replacement(dir.file("new.gguf"), TestModel::layers(2), 2);
  ASSERT_EQ(::rename(replacement.path().c_str(), model.path().c_str()), 0);
  expect_failure(ErrorCode::file_changed);
}

TEST_F(ChangedFileTest, GrownIsAnError) {
  append("x");
  expect_failure(ErrorCode::file_changed);
}

TEST_F(ChangedFileTest, DeletedIsAnErrorUntilTheFileIsBack) {
  ASSERT_EQ(::rename(model.path().c_str(), dir.file("aside").c_str()), 0);
  expect_failure(ErrorCode::file_not_found);
  ASSERT_EQ(::rename(dir.file("aside").c_str(), model.path().c_str()), 0);
  EXPECT_TRUE(model.holds(*store->get(WeightId(0))));
}

TEST_F(ChangedFileTest, ChangedWhileBeingReadIsAnError) {
  Gate gate;
  placement.before_land = [&](size_t) { gate.pass(); };
  auto got = std::async(std::launch::async, [&] { return store->get(WeightId(0)); });
  gate.wait_for_arrivals(1);
  append("x");
  gate.open();
  const auto lease = got.get();
  ASSERT_FALSE(lease.ok());
  EXPECT_EQ(lease.error().code, ErrorCode::file_changed);
  placement.before_land = nullptr;
}

TEST_F(ChangedFileTest, TruncatedBetweenChunksIsAnError) {
  for (const bool cached : {true, false}) {
    files.is_cached = cached;
    Gate gate;
    placement.before_land = [&](size_t) { gate.pass(); };
    auto got = std::async(std::launch::async, [&] { return store->get(WeightId(0)); });
    gate.wait_for_arrivals(2);
    ASSERT_EQ(::truncate(model.path().c_str(), 500), 0);
    gate.open();
    const auto lease = got.get();
    ASSERT_FALSE(lease.ok());
    EXPECT_EQ(lease.error().code, ErrorCode::file_truncated);
    placement.before_land = nullptr;
    // The same again with another file, direct.
    const TestModel again(model.path(), TestModel::layers(2));
    store = again.store(placement, {.n_loaders = 2}, &files.calls);
  }
}

}  // namespace
}  // namespace rocmforge
