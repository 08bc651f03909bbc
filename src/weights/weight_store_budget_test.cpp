// A store with less memory than its weights take: what moves is right whenever it is leased, what is leased stays, and
// nothing is read more often than it must be.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "support/support.h"
#include "weights/store_fixture_test.h"

namespace rocmforge {
namespace {

using testing::TempDir;
using testing::TestFiles;
using testing::TestModel;
using testing::TestPlacement;

constexpr uint32_t kLayers = 6;

class WeightStoreBudget : public ::testing::Test {
 protected:
  // A store whose arena has this share of what all weights take.
  std::unique_ptr<WeightStore> store(double share, size_t n_loaders = 3) {
    const uint64_t all = model.store(placement, {.n_loaders = n_loaders})->arena_bytes();
    const auto budget = static_cast<uint64_t>(share * static_cast<double>(all));
    auto made = model.store(placement, {.n_loaders = n_loaders, .budget_bytes = budget}, &files.calls);
    EXPECT_LE(made->arena_bytes(), budget);
    return made;
  }

  // As a forward pass does it; every weight is looked at.
  void pass(WeightStore& weights) {
    std::vector<uint32_t> streamed;
    for (uint32_t i = 0; i < weights.n_stages(); i++) {
      if (weights.is_streamed(i)) streamed.push_back(i);
    }
    for (uint32_t i = 0; i < weights.n_stages(); i++) {
      {
        const auto leases = weights.get_all(weights.stage_weights(i));
        ASSERT_TRUE(leases.ok()) << leases.error().message;
        for (const auto& lease : *leases) EXPECT_TRUE(model.holds(lease)) << lease.tensor().name;
      }
      const auto turn = std::ranges::find(streamed, i);
      if (turn == streamed.end()) continue;
      weights.give_back(weights.stage_weights(i));
      const size_t next = static_cast<size_t>(turn - streamed.begin() + 2) % streamed.size();
      weights.prefetch(weights.stage_weights(streamed[next]));
    }
  }

  std::vector<uint32_t> streamed_stages(const WeightStore& weights) const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < weights.n_stages(); i++) {
      if (weights.is_streamed(i)) out.push_back(i);
    }
    return out;
  }

  TempDir dir;
  TestModel model{dir.file("m.gguf"), TestModel::layers(kLayers)};
  TestPlacement placement;
  TestFiles files;
};

TEST_F(WeightStoreBudget, EveryPassSeesEveryWeight) {
  for (const double share : {0.95, 0.8, 0.7}) {
    const auto weights = store(share);
    ASSERT_GE(streamed_stages(*weights).size(), 3u) << share;
    EXPECT_FALSE(weights->is_settled());
    for (int i = 0; i < 4; i++) pass(*weights);
  }
}

TEST_F(WeightStoreBudget, APassReadsWhatIsStreamedAndNoMore) {
  const auto weights = store(0.8);
  for (int i = 0; i < 3; i++) pass(*weights);
  // The first two of the next pass may be on their way.
  const auto settle = [&] {
    while (weights->loading_stats().n_tensors_loading > 0) std::this_thread::yield();
    return weights->loading_stats().read_bytes;
  };
  const uint64_t before = settle();
  for (int i = 0; i < 5; i++) pass(*weights);
  // Three layers share two cache slots: one of them may still be resident when it is used again.
  const uint64_t n_read = settle() - before;
  EXPECT_LE(n_read, 5 * weights->streamed_bytes());
  EXPECT_GE(n_read, 5 * weights->streamed_bytes() * 2 / 3);
  EXPECT_LT(weights->loading_stats().loaded_bytes, weights->loading_stats().total_bytes);
}

TEST_F(WeightStoreBudget, WeightsThatAreToStayAreNotStreamedWithTheirStage) {
  const auto file = model.open();
  std::vector<WeightRequest> requests = model.requests(*file);
  const auto is_norm = [](std::string_view name) { return name.ends_with(".norm"); };
  for (WeightRequest& request : requests) request.stays = is_norm(request.tensor->name);
  const uint64_t all = model.store(placement)->arena_bytes();
  const auto made = WeightStore::create(file, placement, requests, {.n_loaders = 3, .budget_bytes = all * 6 / 10});
  ASSERT_TRUE(made.ok()) << made.error().message;
  WeightStore& weights = **made;
  EXPECT_LE(weights.arena_bytes(), all * 6 / 10);
  EXPECT_GT(streamed_stages(weights).size(), 2u);
  for (int i = 0; i < 2; i++) pass(weights);
  size_t n_norms = 0;
  for (const LazyTensor& tensor : weights.tensors()) {
    EXPECT_EQ(tensor.group.has_value(), weights.is_streamed(tensor.stage) && !is_norm(tensor.name)) << tensor.name;
    if (!is_norm(tensor.name)) continue;
    const auto lease = weights.try_get(tensor.id);
    ASSERT_TRUE(lease.has_value()) << tensor.name << " is not there between two passes";
    EXPECT_TRUE(model.holds(*lease));
    n_norms++;
  }
  EXPECT_EQ(n_norms, kLayers);
}

TEST_F(WeightStoreBudget, WhatIsLeasedStays) {
  const auto weights = store(0.7);
  const auto streamed = streamed_stages(*weights);
  const auto held = *weights->get_all(weights->stage_weights(streamed[0]));
  for (int round = 0; round < 3; round++) {
    for (size_t i = 1; i < streamed.size(); i++) {
      const auto leases = weights->get_all(weights->stage_weights(streamed[i]));
      ASSERT_TRUE(leases.ok());
      for (const auto& lease : *leases) EXPECT_TRUE(model.holds(lease));
    }
    for (const auto& lease : held) EXPECT_TRUE(model.holds(lease));
  }
}

TEST_F(WeightStoreBudget, AGetWaitsForAPlace) {
  const auto weights = store(0.7);
  const auto streamed = streamed_stages(*weights);
  auto first = std::optional(*weights->get_all(weights->stage_weights(streamed[0])));
  const auto second = *weights->get_all(weights->stage_weights(streamed[1]));
  const WeightId wanted = weights->stage_weights(streamed[2])[1];
  std::atomic<bool> arrived = false;
  std::thread waiting([&] {
    const auto lease = weights->get(wanted);
    EXPECT_TRUE(lease.ok() && model.holds(*lease));
    arrived = true;
  });
  // Other weights are not held up by it.
  EXPECT_TRUE(weights->get_all(weights->stage_weights(0)).ok());
  while (weights->state(wanted) != LoadState::loading) std::this_thread::yield();
  EXPECT_FALSE(arrived);
  first.reset();
  waiting.join();
  for (const auto& lease : second) EXPECT_TRUE(model.holds(lease));
}

TEST_F(WeightStoreBudget, MoreThanThereIsRoomForAtOnceIsRefused) {
  const auto weights = store(0.7);
  std::vector<WeightId> all;
  for (const uint32_t stage : streamed_stages(*weights)) all.push_back(weights->stage_weights(stage)[0]);
  const auto leases = weights->get_all(all);
  ASSERT_FALSE(leases.ok());
  EXPECT_EQ(leases.error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(weights->preload_all().ok());
  EXPECT_TRUE(weights->preload_layers(0, kLayers).ok());
}

TEST_F(WeightStoreBudget, TooSmallABudgetIsOutOfMemory) {
  auto file = model.open();
  auto requests = model.requests(*file);
  const auto made = WeightStore::create(file, placement, requests, {.n_loaders = 1, .budget_bytes = 50'000});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::out_of_memory);
}

TEST_F(WeightStoreBudget, AnyFailingReadFailsOnePassOnly) {
  const auto weights = store(0.75, 2);
  pass(*weights);
  for (int n = 1; n < 40; n++) {
    files.reads.fail_once(n);
    std::optional<Error> error;
    for (int passes = 0; passes < 2; passes++) {
      for (uint32_t i = 0; i < weights->n_stages(); i++) {
        const auto leases = weights->get_all(weights->stage_weights(i));
        if (!leases.ok()) error = leases.error();
      }
    }
    if (error) {
      EXPECT_EQ(error->code, ErrorCode::file_read) << error->message;
    }
    files.reads.mend();
    pass(*weights);
  }
  EXPECT_GT(weights->loading_stats().n_failures, 0u);
  EXPECT_EQ(placement.n_given_up, weights->loading_stats().n_failures);
}

TEST_F(WeightStoreBudget, ManyThreadsMayUseIt) {
  const auto weights = store(0.7);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      std::mt19937 rng(t);
      for (int i = 0; i < 150; i++) {
        const WeightId id(static_cast<uint32_t>(rng() % weights->tensors().size()));
        switch (rng() % 4) {
          case 0:
            weights->prefetch({&id, 1});
            break;
          case 1:
            weights->give_back({&id, 1});
            break;
          default:
            if (const auto lease = weights->get(id); lease.ok()) {
              EXPECT_TRUE(model.holds(*lease));
            } else {
              EXPECT_EQ(lease.error().code, ErrorCode::cancelled) << lease.error().message;
            }
        }
        if (t == 0 && i % 50 == 49) weights->clear();
        if (t == 1 && i % 20 == 19) weights->evict(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- experts ----

constexpr uint32_t kExperts = 5;

class ExpertStore : public ::testing::Test {
 protected:
  static std::vector<testing::TestWeight> weights() {
    std::vector<testing::TestWeight> out{{"embd", {DType::q4_0, 64, 99}, 0}};
    for (uint32_t i = 0; i < 3; i++) {
      out.push_back({fmt::format("l{}.up", i), {DType::q8_0, 96, 21}, 1 + i});
      out.push_back({fmt::format("l{}.gate_exps", i), {DType::q8_0, 64, 40}, 1 + i, kExperts});
      out.push_back({fmt::format("l{}.down_exps", i), {DType::q4_0, 64, 24}, 1 + i, kExperts});
    }
    out.push_back({"out", {DType::f16, 50, 30}, 4});
    return out;
  }

  // Each expert's matrix is a weight of its own.
  std::unique_ptr<WeightStore> store(std::optional<uint64_t> budget_bytes = {}) {
    auto file = model.open(&files.calls);
    std::vector<WeightRequest> requests;
    origin.clear();
    for (size_t i = 0; i < model.weights().size(); i++) {
      const testing::TestWeight& w = model.weights()[i];
      for (uint32_t m = 0; m < w.n_experts; m++) {
        const bool is_expert = w.n_experts > 1;
        requests.push_back({file->find_tensor(w.name),
                            w.shape,
                            w.stage,
                            m * w.shape.file_bytes(),
                            {},
                            is_expert ? std::optional(m) : std::nullopt});
        origin.push_back({i, m * w.shape.file_bytes()});
      }
    }
    auto made =
        WeightStore::create(file, placement, std::move(requests), {.n_loaders = 2, .budget_bytes = budget_bytes});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return *std::move(made);
  }

  bool holds(const WeightStore::Lease& lease) const {
    const auto [weight, offset] = origin[lease.tensor().id.value];
    const auto expected = model.bytes(weight);
    return std::memcmp(lease.data(), expected.data() + offset, lease.tensor().file_bytes) == 0;
  }

  static std::vector<WeightId> expert(const WeightStore& weights, uint32_t stage, uint32_t which) {
    std::vector<WeightId> out;
    for (const LazyTensor& t : weights.tensors()) {
      if (t.stage == stage && t.expert == which) out.push_back(t.id);
    }
    return out;
  }

  void use(WeightStore& weights, uint32_t stage, uint32_t which) {
    const auto leases = weights.get_all(expert(weights, stage, which));
    ASSERT_TRUE(leases.ok()) << leases.error().message;
    EXPECT_EQ(leases->size(), 2u);
    for (const auto& lease : *leases) EXPECT_TRUE(holds(lease)) << lease.tensor().name;
  }

  bool is_resident(const WeightStore& weights, uint32_t stage, uint32_t which) const {
    return weights.state(expert(weights, stage, which)[0]) == LoadState::resident;
  }

  TempDir dir;
  TestFiles files;
  TestModel model{dir.file("m.gguf"), weights()};
  TestPlacement placement;
  struct Origin {
    size_t weight;
    uint64_t offset;
  };
  std::vector<Origin> origin;
};

TEST_F(ExpertStore, AnExpertIsReadByItself) {
  const auto weights = store();
  use(*weights, 2, 3);
  uint64_t expected = 0;
  for (const WeightId id : expert(*weights, 2, 3)) expected += weights->tensor(id).file_bytes;
  EXPECT_EQ(weights->loading_stats().read_bytes, expected);
  EXPECT_EQ(weights->tensor(expert(*weights, 2, 3)[0]).name, "l1.gate_exps/3");
}

TEST_F(ExpertStore, WithoutABudgetAStacksExpertsLieOneAfterTheOther) {
  const auto weights = store();
  for (uint32_t stage = 1; stage <= 3; stage++) {
    for (const size_t part : {0u, 1u}) {
      const auto at = [&](uint32_t e) { return weights->address(expert(*weights, stage, e)[part]); };
      for (uint32_t e = 2; e < kExperts; e++) EXPECT_EQ(at(e) - at(e - 1), at(1) - at(0));
    }
  }
}

TEST_F(ExpertStore, AllOfAStageAreHeldWithOneLease) {
  const auto weights = store();
  EXPECT_FALSE(weights->try_get_experts(1));
  for (uint32_t e = 0; e < kExperts; e++) {
    EXPECT_FALSE(weights->try_get_experts(1)) << e;
    use(*weights, 1, e);
  }
  auto held = weights->try_get_experts(1);
  ASSERT_TRUE(held);
  EXPECT_FALSE(weights->try_get_experts(2));
  std::atomic<bool> is_evicted = false;
  std::thread evicting([&] {
    weights->evict(expert(*weights, 1, 2)[0]);
    is_evicted = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(is_evicted);
  held.reset();
  evicting.join();
  EXPECT_FALSE(weights->try_get_experts(1));
  use(*weights, 1, 2);
  EXPECT_TRUE(weights->try_get_experts(1));
  EXPECT_FALSE(weights->try_get_everything());
  ASSERT_TRUE(weights->preload_all().ok());
  EXPECT_TRUE(weights->is_settled());
  held = weights->try_get_everything();
  ASSERT_TRUE(held);
  is_evicted = false;
  const WeightId first(0);
  std::thread evicting_another([&] {
    weights->evict(first);
    is_evicted = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(is_evicted);
  EXPECT_EQ(weights->state(first), LoadState::resident);
  held.reset();
  evicting_another.join();
  EXPECT_EQ(weights->state(first), LoadState::unloaded);
  EXPECT_FALSE(weights->try_get_everything());
  ASSERT_TRUE(weights->get(first).ok());
  EXPECT_TRUE(weights->try_get_everything());
  weights->clear();
  EXPECT_FALSE(weights->try_get_experts(1));
  EXPECT_FALSE(weights->try_get_everything());
  EXPECT_FALSE(weights->is_settled());
}

TEST_F(ExpertStore, TheLeastRecentlyUsedMakesRoom) {
  const uint64_t all = store()->arena_bytes();
  const auto weights = store(all / 2);
  ASSERT_TRUE(weights->experts_move());
  uint32_t n_slots = 0;  // found by filling them
  const auto stage_of = [](uint32_t i) { return 1 + i / kExperts; };
  for (uint32_t i = 0; i < 3 * kExperts; i++) {
    use(*weights, stage_of(i), i % kExperts);
    if (!is_resident(*weights, 1, 0)) break;
    n_slots = i + 1;
  }
  ASSERT_GE(n_slots, kExperts);
  ASSERT_LT(n_slots, 3 * kExperts);
  weights->clear();
  for (uint32_t i = 0; i < n_slots; i++) use(*weights, stage_of(i), i % kExperts);
  use(*weights, 1, 0);
  use(*weights, 3, kExperts - 1);
  EXPECT_TRUE(is_resident(*weights, 1, 0));
  EXPECT_FALSE(is_resident(*weights, 1, 1)) << "not used for the longest time";
  EXPECT_TRUE(is_resident(*weights, 1, 2));
}

TEST_F(ExpertStore, WithTheSmallestPoolEveryExpertIsStillRight) {
  uint64_t budget = 0;  // the least that is enough
  for (uint64_t step = store()->arena_bytes(); step >= 256; step /= 2) {
    auto file = model.open();
    std::vector<WeightRequest> requests;
    const auto whole = store();
    for (const LazyTensor& t : whole->tensors()) {
      requests.push_back({file->find_tensor(model.weights()[origin[t.id.value].weight].name),
                          t.shape,
                          t.stage,
                          origin[t.id.value].offset,
                          {},
                          t.expert});
    }
    while (!WeightStore::create(file, placement, requests, {.n_loaders = 1, .budget_bytes = budget + step}).ok()) {
      budget += step;
    }
  }
  const auto weights = store(budget + 256);
  for (int round = 0; round < 3; round++) {
    for (uint32_t stage = 1; stage <= 3; stage++) {
      std::vector<WeightId> ids;
      for (const WeightId id : weights->stage_weights(stage)) {
        if (weights->tensor(id).expert) ids.push_back(id);
      }
      const auto leases = weights->get_all(ids);
      ASSERT_TRUE(leases.ok()) << leases.error().message;
      for (const auto& lease : *leases) EXPECT_TRUE(holds(lease)) << lease.tensor().name;
    }
  }
}

}  // namespace
}  // namespace rocmforge
