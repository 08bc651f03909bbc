#include "weights/weight_store.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "support/support.h"
#include "weights/store_fixture_test.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::Gate;
using testing::TempDir;
using testing::TestFiles;
using testing::TestModel;
using testing::TestPlacement;

class WeightStoreTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kLayers = 3;

  WeightId id(std::string_view name) const { return *store->find(name); }
  LoadState state(std::string_view name) const { return store->state(id(name)); }
  // Waits for what happens in loader threads without a call to wait on.
  void wait_until_resident(std::string_view name) const {
    while (state(name) != LoadState::resident) std::this_thread::sleep_for(1ms);
  }

  TempDir dir;
  TestModel model{dir.file("m.gguf"), TestModel::layers(kLayers)};
  TestFiles files;
  TestPlacement placement;
  std::unique_ptr<WeightStore> store = model.store(placement, {.n_loaders = 3}, &files.calls);
};

TEST_F(WeightStoreTest, ReadsAndReservesNothingBeforeTheFirstGet) {
  files.reads.mend();  // counts from here
  const auto other = model.store(placement, {}, nullptr);
  EXPECT_EQ(files.reads.n_calls(), 0);
  EXPECT_EQ(placement.reserves.n_calls(), 0);
  for (const LazyTensor& weight : store->tensors()) EXPECT_EQ(store->state(weight.id), LoadState::unloaded);
  EXPECT_EQ(store->loading_stats().n_loads, 0u);
  EXPECT_EQ(files.reads.n_calls(), 0);
}

TEST_F(WeightStoreTest, GetReadsThatWeightAndNoOther) {
  const auto lease = store->get(id("l1.up"));
  ASSERT_TRUE(lease.ok());
  EXPECT_TRUE(model.holds(*lease));
  EXPECT_EQ(lease->tensor().name, "l1.up");
  for (const LazyTensor& weight : store->tensors()) {
    EXPECT_EQ(store->state(weight.id), weight.name == "l1.up" ? LoadState::resident : LoadState::unloaded);
  }
  EXPECT_EQ(store->loading_stats().read_bytes, lease->tensor().file_bytes);
}

TEST_F(WeightStoreTest, GivesTheFilesBytesBufferedAndDirect) {
  for (const bool cached : {true, false}) {
    files.is_cached = cached;
    for (const LazyTensor& weight : store->tensors()) {
      const auto lease = store->get(weight.id);
      ASSERT_TRUE(lease.ok());
      EXPECT_TRUE(model.holds(*lease)) << weight.name;
    }
    store->clear();
  }
}

TEST_F(WeightStoreTest, AddressesStayBetweenFirstGetAndClear) {
  std::vector<const std::byte*> before;
  for (const LazyTensor& weight : store->tensors()) {
    const auto lease = store->get(weight.id);
    ASSERT_TRUE(lease.ok());
    EXPECT_EQ(lease->data(), placement.base() + weight.address);
    before.push_back(lease->data());
  }
  for (const LazyTensor& weight : store->tensors()) store->evict(weight.id);
  for (size_t i = store->tensors().size(); i-- > 0;) {
    const auto lease = store->get(store->tensors()[i].id);
    ASSERT_TRUE(lease.ok());
    EXPECT_EQ(lease->data(), before[i]);
    EXPECT_TRUE(model.holds(*lease));
  }
  EXPECT_EQ(placement.reserves.n_calls(), 1) << "nothing is allocated between the first load and clear";
}

TEST_F(WeightStoreTest, FindsByName) {
  EXPECT_EQ(store->tensor(id("out")).name, "out");
  const auto absent = store->find("absent");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::gguf_tensor_missing);
}

TEST_F(WeightStoreTest, StatsCountWhatHappened) {
  for (int i = 0; i < 3; i++) ASSERT_TRUE(store->get(id("embd")).ok());
  ASSERT_TRUE(store->preload_layers(1, 1).ok());
  const LoadingStats stats = store->loading_stats();
  uint64_t total = 0, loaded = 0, n_chunks = 0;
  for (const LazyTensor& weight : store->tensors()) {
    total += weight.file_bytes;
    if (weight.stage != 0 && weight.stage != 2) continue;
    loaded += weight.file_bytes;
    // 16 KiB of a 24 KiB staging buffer, in units of 4 rows
    const uint64_t unit_bytes = 4 * weight.shape.row_bytes();
    const uint64_t chunk_bytes = (16u << 10) / unit_bytes * unit_bytes;
    n_chunks += (weight.file_bytes + chunk_bytes - 1) / chunk_bytes;
  }
  EXPECT_EQ(stats.n_tensors, 11u);
  EXPECT_EQ(stats.n_tensors_loaded, 4u);
  EXPECT_EQ(stats.n_tensors_loading, 0u);
  EXPECT_EQ(stats.n_layers, kLayers);
  EXPECT_EQ(stats.n_layers_loaded, 1u);
  EXPECT_EQ(stats.total_bytes, total);
  EXPECT_EQ(stats.loaded_bytes, loaded);
  EXPECT_EQ(stats.loading_bytes, 0u);
  EXPECT_EQ(stats.read_bytes, loaded);
  EXPECT_EQ(stats.n_reads, n_chunks);
  EXPECT_EQ(stats.n_hits, 2u);
  EXPECT_EQ(stats.n_loads, 4u);
  EXPECT_EQ(stats.n_failures, 0u);
  EXPECT_GT(stats.seconds, 0);
  EXPECT_GT(stats.gigabytes_per_second(), 0);
}

TEST_F(WeightStoreTest, SecondsRunOnlyWhileSomethingLoads) {
  std::atomic<int> now = 0;
  const auto timed =
      model.store(placement, {.n_loaders = 1, .clock = [&] { return TimePoint(std::chrono::seconds(now)); }});
  now = 100;
  placement.before_finish = [&] { now += 7; };
  ASSERT_TRUE(timed->get(WeightId(0)).ok());
  now = 500;
  ASSERT_TRUE(timed->get(WeightId(0)).ok());
  EXPECT_EQ(timed->loading_stats().seconds, 7);
  placement.before_finish = nullptr;
}

TEST_F(WeightStoreTest, PreloadsExactlyTheLayersAskedFor) {
  ASSERT_TRUE(store->preload_layers(1, 2).ok());
  EXPECT_FALSE(store->is_layer_loaded(0));
  EXPECT_TRUE(store->is_layer_loaded(1));
  EXPECT_TRUE(store->is_layer_loaded(2));
  EXPECT_EQ(state("embd"), LoadState::unloaded);
  EXPECT_EQ(state("out"), LoadState::unloaded);
  store->evict(id("l1.norm"));
  EXPECT_FALSE(store->is_layer_loaded(1));
  ASSERT_TRUE(store->preload_all().ok());
  EXPECT_EQ(store->loading_stats().loaded_bytes, store->loading_stats().total_bytes);
  EXPECT_TRUE(store->preload_layers(3, 0).ok());
  for (const auto& [first, n] : {std::pair{3u, 1u}, {0u, 4u}, {4u, 0u}, {1u, ~0u}}) {
    EXPECT_EQ(store->preload_layers(first, n).error().code, ErrorCode::invalid_argument);
  }
}

TEST_F(WeightStoreTest, PreloadsAListOfLayers) {
  const std::vector<uint32_t> layers = {2, 0, 2};
  ASSERT_TRUE(store->preload_layers(layers).ok());
  EXPECT_TRUE(store->is_layer_loaded(0));
  EXPECT_FALSE(store->is_layer_loaded(1));
  EXPECT_TRUE(store->is_layer_loaded(2));
  EXPECT_TRUE(store->preload_layers(std::span<const uint32_t>()).ok());
  const std::vector<uint32_t> beyond = {1, 3};
  EXPECT_EQ(store->preload_layers(beyond).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(store->is_layer_loaded(1));
}

TEST_F(WeightStoreTest, GetAllLeasesAll) {
  const std::vector<WeightId> ids = {id("out"), id("embd"), id("out")};
  auto leases = store->get_all(ids);
  ASSERT_TRUE(leases.ok());
  ASSERT_EQ(leases->size(), 3u);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ((*leases)[i].tensor().id, ids[i]);
    EXPECT_TRUE(model.holds((*leases)[i]));
  }
  EXPECT_EQ(store->loading_stats().n_loads, 2u);
}

TEST_F(WeightStoreTest, PrefetchLoadsWithoutAnybodyWaiting) {
  store->prefetch(store->stage_weights(2));
  for (const WeightId weight : store->stage_weights(2)) wait_until_resident(store->tensor(weight).name);
  EXPECT_TRUE(store->is_layer_loaded(1));
  store->prefetch(store->stage_weights(2));
  const LoadingStats stats = store->loading_stats();
  EXPECT_EQ(stats.n_loads, 3u) << "what is resident is not asked for again";
  EXPECT_EQ(stats.n_hits, 0u);
}

// With one loader the order of loads is the order of lands.
TEST_F(WeightStoreTest, GetsGoBeforePrefetchesAndPrefetchesKeepTheirOrder) {
  Gate gate;
  std::mutex mutex;
  std::vector<std::string> order;
  const auto single = model.store(placement, {.n_loaders = 1});
  placement.before_land = [&](size_t) { gate.pass(); };
  placement.before_finish = [&] {
    const std::lock_guard lock(mutex);
    for (const LazyTensor& weight : single->tensors()) {
      if (single->state(weight.id) == LoadState::in_flight) order.emplace_back(weight.name);
    }
  };
  const auto find = [&](std::string_view name) { return *single->find(name); };
  single->prefetch(std::vector{find("l0.norm"), find("l2.norm"), find("l1.norm"), find("l0.up")});
  gate.wait_for_arrivals(1);  // l0.norm is being landed
  std::promise<void> asking;
  auto promoted = std::async(std::launch::async, [&] {
    asking.set_value();
    return single->get(find("l1.norm")).ok();
  });
  auto fresh = std::async(std::launch::async, [&] { return single->get(find("out")).ok(); });
  while (single->loading_stats().n_loads < 5) std::this_thread::sleep_for(1ms);
  asking.get_future().wait();
  std::this_thread::sleep_for(100ms);  // joining a load begins none: nothing tells that it has happened
  gate.open();
  EXPECT_TRUE(promoted.get());
  EXPECT_TRUE(fresh.get());
  while (single->loading_stats().n_tensors_loaded < 5) std::this_thread::sleep_for(1ms);
  single->clear();
  ASSERT_EQ(order.size(), 5u);
  EXPECT_EQ(order[0], "l0.norm");
  EXPECT_TRUE((order[1] == "l1.norm" && order[2] == "out") || (order[1] == "out" && order[2] == "l1.norm"));
  EXPECT_EQ(order[3], "l2.norm");
  EXPECT_EQ(order[4], "l0.up");
  placement.before_land = nullptr;
  placement.before_finish = nullptr;
}

// Each loader's first chunk waits until all loaders have one, so a loader left out would hang the test.
TEST_F(WeightStoreTest, OneLargeWeightIsReadByAllLoaders) {
  const size_t n_loaders = 4;
  const TestModel big(dir.file("big.gguf"), {{"embd", {DType::q8_0, 512, 20'000}, 0}});
  TestPlacement roomy(4 << 20);
  const auto many = big.store(roomy, {.n_loaders = n_loaders});
  Gate gate;
  roomy.before_land = [&](size_t) { gate.pass(); };
  auto got = std::async(std::launch::async, [&] { return many->get(WeightId(0)).ok(); });
  gate.wait_for_arrivals(n_loaders);
  EXPECT_EQ(many->state(WeightId(0)), LoadState::loading);
  gate.open();
  EXPECT_TRUE(got.get());
  EXPECT_TRUE(big.holds(*many->get(WeightId(0))));
}

TEST_F(WeightStoreTest, IsInFlightUntilFinished) {
  Gate gate;
  placement.before_finish = [&] { gate.pass(); };
  auto got = std::async(std::launch::async, [&] { return store->get(id("embd")).ok(); });
  gate.wait_for_arrivals(1);
  EXPECT_EQ(state("embd"), LoadState::in_flight);
  EXPECT_EQ(store->loading_stats().n_tensors_loading, 1u);
  EXPECT_EQ(got.wait_for(20ms), std::future_status::timeout);
  gate.open();
  EXPECT_TRUE(got.get());
  EXPECT_EQ(state("embd"), LoadState::resident);
}

TEST_F(WeightStoreTest, LeasesMove) {
  WeightStore::Lease lease;
  {
    WeightStore::Lease first = *store->get(id("embd"));
    lease = *store->get(id("out"));
    lease = std::move(first);  // lets go of "out"
  }
  EXPECT_EQ(lease.tensor().name, "embd");
  store->evict(id("out"));
  lease = WeightStore::Lease();
  store->evict(id("embd"));
  EXPECT_EQ(state("embd"), LoadState::unloaded);
}

TEST_F(WeightStoreTest, EvictWaitsForLeasesAndTheNextGetLoadsAgain) {
  std::optional<WeightStore::Lease> lease = *store->get(id("embd"));
  auto evicted = std::async(std::launch::async, [&] { store->evict(id("embd")); });
  EXPECT_EQ(evicted.wait_for(30ms), std::future_status::timeout);
  // A holder may lease again meanwhile: blocking it would be a deadlock.
  EXPECT_TRUE(store->get(id("embd")).ok());
  EXPECT_TRUE(model.holds(*lease));
  lease.reset();
  evicted.get();
  EXPECT_EQ(state("embd"), LoadState::unloaded);
  EXPECT_TRUE(model.holds(*store->get(id("embd"))));
  EXPECT_EQ(store->loading_stats().n_loads, 2u);
}

TEST_F(WeightStoreTest, EvictWaitsForALoad) {
  Gate gate;
  placement.before_finish = [&] { gate.pass(); };
  store->prefetch(std::vector{id("embd")});
  gate.wait_for_arrivals(1);
  auto evicted = std::async(std::launch::async, [&] { store->evict(id("embd")); });
  EXPECT_EQ(evicted.wait_for(20ms), std::future_status::timeout);
  gate.open();
  evicted.get();
  EXPECT_EQ(state("embd"), LoadState::unloaded);
}

TEST_F(WeightStoreTest, ClearWaitsForLeasesFreesEverythingAndTheStoreIsReusable) {
  for (int round = 1; round <= 3; round++) {
    ASSERT_TRUE(store->preload_all().ok());
    std::optional<WeightStore::Lease> lease = *store->get(id("l1.up"));
    auto cleared = std::async(std::launch::async, [&] { store->clear(); });
    while (state("embd") != LoadState::unloaded) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(cleared.wait_for(20ms), std::future_status::timeout);
    EXPECT_TRUE(placement.is_reserved());
    EXPECT_TRUE(model.holds(*lease));
    // What would have to wait for the clear, which waits for us, fails instead.
    EXPECT_EQ(store->get(id("embd")).error().code, ErrorCode::cancelled);
    EXPECT_EQ(store->get(id("l1.up")).error().code, ErrorCode::cancelled);
    lease.reset();
    cleared.get();
    EXPECT_FALSE(placement.is_reserved());
    EXPECT_EQ(placement.n_releases, round);
    EXPECT_EQ(store->loading_stats().loaded_bytes, 0u);
    for (const LazyTensor& weight : store->tensors()) EXPECT_EQ(store->state(weight.id), LoadState::unloaded);
  }
  EXPECT_EQ(placement.reserves.n_calls(), 3);
}

TEST_F(WeightStoreTest, ClearAbandonsWhatIsQueuedAndFinishesWhatIsUnderWay) {
  Gate gate;
  placement.before_land = [&](size_t) { gate.pass(); };
  auto small = std::async(std::launch::async, [&] { return store->get(id("l0.norm")); });
  gate.wait_for_arrivals(1);
  std::vector<WeightId> all;
  for (const LazyTensor& weight : store->tensors()) all.push_back(weight.id);
  store->prefetch(all);
  gate.wait_for_arrivals(3);
  auto waiting = std::async(std::launch::async, [&] { return store->get(id("out")); });
  while (waiting.wait_for(20ms) == std::future_status::ready) FAIL() << "nothing can land yet";
  auto cleared = std::async(std::launch::async, [&] { store->clear(); });
  const auto refused = waiting.get();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::cancelled);
  EXPECT_NE(refused.error().message.find("weights: tensor 'out'"), std::string::npos) << refused.error().message;
  gate.open();
  {
    const auto lease = small.get();
    ASSERT_TRUE(lease.ok()) << lease.error().message;
    EXPECT_TRUE(model.holds(*lease));
  }
  cleared.get();
  EXPECT_FALSE(placement.is_reserved());
  placement.before_land = nullptr;
  EXPECT_TRUE(store->preload_all().ok());
}

TEST_F(WeightStoreTest, ClearDuringReserveAbandonsTheLoad) {
  Gate gate;
  placement.before_reserve = [&] { gate.pass(); };
  auto got = std::async(std::launch::async, [&] { return store->get(id("embd")); });
  gate.wait_for_arrivals(1);
  auto cleared = std::async(std::launch::async, [&] { store->clear(); });
  EXPECT_EQ(got.get().error().code, ErrorCode::cancelled);
  gate.open();
  cleared.get();
  EXPECT_FALSE(placement.is_reserved());
  EXPECT_TRUE(store->get(id("embd")).ok());
}

TEST_F(WeightStoreTest, ClearOfAnUntouchedStoreDoesNothing) {
  store->clear();
  store->clear();
  EXPECT_EQ(placement.n_releases, 0);
  EXPECT_EQ(placement.reserves.n_calls(), 0);
}

TEST_F(WeightStoreTest, ProgressIsMonotoneAndCompleteBeforeTheCallReturns) {
  std::atomic<int64_t> now_ms = 0;
  const auto timed = model.store(
      placement, {.n_loaders = 3, .clock = [&] { return TimePoint(std::chrono::milliseconds(now_ms += 20)); }});
  std::vector<LoadingStats> seen;  // callbacks come one at a time
  timed->on_progress([&](const LoadingStats& stats) { seen.push_back(stats); });
  ASSERT_TRUE(timed->preload_all().ok());
  ASSERT_GT(seen.size(), 1u);
  for (size_t i = 1; i < seen.size(); i++) {
    EXPECT_GE(seen[i].read_bytes, seen[i - 1].read_bytes);
    EXPECT_GE(seen[i].n_reads, seen[i - 1].n_reads);
    EXPECT_GE(seen[i].loaded_bytes, seen[i - 1].loaded_bytes);
    EXPECT_GE(seen[i].seconds, seen[i - 1].seconds);
  }
  EXPECT_EQ(seen.back().loaded_bytes, seen.back().total_bytes);
  EXPECT_EQ(seen.back().n_tensors_loading, 0u);
  const size_t n_seen = seen.size();
  ASSERT_TRUE(timed->preload_all().ok());
  EXPECT_EQ(seen.size(), n_seen) << "hits are no progress";
  timed->on_progress(nullptr);
  timed->evict(WeightId(0));
  ASSERT_TRUE(timed->preload_all().ok());
  EXPECT_EQ(seen.size(), n_seen);
}

TEST_F(WeightStoreTest, ProgressComesAtMostEvery50MillisecondsAndAtTheEnd) {
  const auto timed = model.store(placement, {.n_loaders = 1, .clock = [] { return TimePoint(1h); }});
  int n_calls = 0;
  timed->on_progress([&](const LoadingStats&) { n_calls++; });
  ASSERT_TRUE(timed->preload_all().ok());
  EXPECT_EQ(n_calls, 2) << "the first chunk and the end: the clock stood still";
}

TEST(WeightStore, LoadsFromEveryShardOfASplitModel) {
  const TempDir dir;
  std::vector<std::vector<std::byte>> contents;
  for (uint16_t shard = 0; shard < 2; shard++) {
    gguf::HeaderBuilder header;
    header.set_u16("split.no", shard);
    header.set_u16("split.count", 2);
    header.set_i32("split.tensors.count", 2);
    header.add_tensor(fmt::format("w{}", shard), DType::f32, {100, 30});
    contents.emplace_back(12'000, static_cast<std::byte>(0x11 + shard));
    auto writer = gguf::GgufWriter::create(dir.file(fmt::format("m-0000{}-of-00002.gguf", shard + 1)), header,
                                           {.durable = false});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write(contents.back()).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  auto opened = gguf::GgufFile::open(dir.file("m-00001-of-00002.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto file = std::make_shared<const gguf::GgufFile>(*std::move(opened));
  TestPlacement placement;
  std::vector<WeightRequest> requests;
  for (const gguf::TensorInfo& info : file->tensors()) requests.push_back({&info, {DType::f32, 100, 30}, 0});
  const auto store = *WeightStore::create(file, placement, requests, {});
  for (uint32_t i = 0; i < 2; i++) {
    const auto lease = store->get(WeightId(i));
    ASSERT_TRUE(lease.ok());
    EXPECT_EQ(std::memcmp(lease->data(), contents[i].data(), contents[i].size()), 0);
  }
}

}  // namespace
}  // namespace rocmforge
