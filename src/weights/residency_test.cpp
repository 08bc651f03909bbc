#include "weights/residency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/support.h"

namespace rocmforge {
namespace {

std::vector<StageBytes> dense(uint32_t n_layers) {
  std::vector<StageBytes> stages(n_layers + 2, {.own = 10});
  stages.front().own = 100;
  stages.back().own = 50;
  return stages;
}

size_t n_streamed(const Residency& residency) {
  return static_cast<size_t>(std::ranges::count(residency.streamed, true));
}

// What the choice takes of the arena.
uint64_t taken(std::span<const StageBytes> stages, const Residency& r) {
  uint64_t total = r.stages.slot_bytes * r.stages.n_slots + r.experts.slot_bytes * r.experts.n_slots;
  for (size_t i = 0; i < stages.size(); i++) {
    if (!r.streamed[i]) total += stages[i].own;
    if (r.experts.n_slots == 0) total += stages[i].experts;
  }
  return total;
}

TEST(Residency, NothingMovesWhenEverythingFits) {
  const Residency r = *choose_residency(dense(8), 230);
  EXPECT_EQ(n_streamed(r), 0u);
  EXPECT_EQ(r.stages.n_slots, 0u);
  EXPECT_EQ(r.experts.n_slots, 0u);
}

// 150 for embedding and output, 20 for two slots: 30 are left for three layers that stay.
TEST(Residency, StreamsAsFewLayersAsItCanSpreadOverTheModel) {
  const Residency r = *choose_residency(dense(8), 209);
  EXPECT_EQ(r.streamed, (std::vector<bool>{false, false, true, false, true, true, false, true, true, false}));
  EXPECT_EQ(r.stages.n_slots, 2u);
  EXPECT_EQ(r.stages.slot_bytes, 10u);
}

TEST(Residency, ASlotHoldsTheLargestStreamedLayer) {
  auto stages = dense(4);
  for (uint32_t i = 1; i <= 4; i++) stages[i].own = 10 * i;
  const Residency r = *choose_residency(stages, 230);
  EXPECT_EQ(n_streamed(r), 4u);
  EXPECT_EQ(r.stages.slot_bytes, 40u);
}

TEST(Residency, TooLittleIsAnErrorThatSaysHowMuchIsNeeded) {
  const auto r = choose_residency(dense(8), 169);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(r.error().message.find("170 B needed"), std::string::npos) << r.error().message;
  EXPECT_NE(r.error().message.find("169 B left"), std::string::npos) << r.error().message;
  EXPECT_TRUE(choose_residency(dense(8), 170).ok());
}

TEST(Residency, ExpertsMoveBeforeLayersDoAndHaveRoomForALayersAtLeast) {
  std::vector<StageBytes> stages = dense(4);
  for (uint32_t i = 1; i <= 4; i++) {
    stages[i].n_experts = 8;
    stages[i].largest_expert = 20 + i;
    stages[i].experts = 8 * (20 + i);
  }
  // 190 without experts, 720 of experts.
  const Residency some = *choose_residency(stages, 500);
  EXPECT_EQ(n_streamed(some), 0u);
  EXPECT_EQ(some.experts.slot_bytes, 24u);
  EXPECT_EQ(some.experts.n_slots, (500u - 190) / 24);
  const Residency least = *choose_residency(stages, 150 + 20 + 8 * 24);
  EXPECT_EQ(n_streamed(least), 4u);
  EXPECT_EQ(least.experts.n_slots, 8u);
  EXPECT_FALSE(choose_residency(stages, 150 + 20 + 8 * 24 - 1).ok());
}

TEST(Residency, KeepsWithinAnyBudgetAndAGrowingOneStreamsNoMore) {
  auto rng = testing::seeded_rng();
  for (int round = 0; round < 200; round++) {
    std::vector<StageBytes> stages(3 + rng() % 20);
    const bool mixture = rng() % 2 == 0;
    uint64_t total = 0;
    for (size_t i = 0; i < stages.size(); i++) {
      stages[i].own = 1 + rng() % 1000;
      if (mixture && i > 0 && i + 1 < stages.size()) {
        stages[i].n_experts = 6;
        stages[i].largest_expert = 50 + rng() % 50;
        stages[i].experts = 6 * stages[i].largest_expert - rng() % 200;
      }
      total += stages[i].own + stages[i].experts;
    }
    size_t before = stages.size();
    for (uint64_t budget = 1; budget <= total + 100; budget += 1 + rng() % 200) {
      const auto r = choose_residency(stages, budget);
      if (!r.ok()) {
        EXPECT_EQ(before, stages.size()) << "a smaller budget was enough";
        continue;
      }
      EXPECT_LE(taken(stages, *r), budget);
      EXPECT_LE(n_streamed(*r), before);
      EXPECT_FALSE(r->streamed.front() || r->streamed.back());
      EXPECT_TRUE(r->experts.n_slots == 0 || r->experts.n_slots >= 6);
      before = n_streamed(*r);
    }
    EXPECT_EQ(n_streamed(*choose_residency(stages, total)), 0u);
  }
}

}  // namespace
}  // namespace rocmforge
