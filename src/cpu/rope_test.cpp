#include "cpu/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace rocmforge::cpu {
namespace {

std::vector<float> rotated(const RopeSpec& rope, std::vector<float> head, uint32_t position,
                           std::span<const float> factors = {}) {
  Workers workers(1);
  RopeAngles angles;
  const uint32_t positions[] = {0, position};
  angles.prepare(rope, factors, positions, workers);
  angles.rotate(head, static_cast<uint32_t>(head.size()), 1);
  return head;
}

std::vector<float> ones(size_t n) {
  return std::vector<float>(n, 1.0f);
}

TEST(Rope, TurnsNeighboursOrHalves) {
  RopeSpec rope = {.pairs = RopePairs::neighbours, .n_dims = 4, .base = 10000.0f};
  const std::vector<float> head = {1, 0, 0, 1, 5, 6};
  const auto near = rotated(rope, head, 3);
  EXPECT_NEAR(near[0], std::cos(3.0), 1e-6);
  EXPECT_NEAR(near[1], std::sin(3.0), 1e-6);
  EXPECT_NEAR(near[2], -std::sin(0.03), 1e-6);
  EXPECT_NEAR(near[3], std::cos(0.03), 1e-6);
  EXPECT_EQ(near[4], 5);
  EXPECT_EQ(near[5], 6);
  rope.pairs = RopePairs::halves;
  const auto far = rotated(rope, {1, 0, 0, 1, 5, 6}, 3);
  EXPECT_NEAR(far[0], std::cos(3.0), 1e-6);
  EXPECT_NEAR(far[2], std::sin(3.0), 1e-6);
  EXPECT_NEAR(far[1], -std::sin(0.03), 1e-6);
  EXPECT_NEAR(far[3], std::cos(0.03), 1e-6);
}

TEST(Rope, PositionZeroChangesNothing) {
  const RopeSpec rope = {.n_dims = 64};
  EXPECT_EQ(rotated(rope, ones(64), 0), ones(64));
}

TEST(Rope, LinearScalingAndFactorsDivide) {
  RopeSpec rope = {.n_dims = 32, .scaling = RopeScaling::linear, .factor = 4.0f};
  const RopeSpec plain = {.n_dims = 32};
  EXPECT_EQ(rotated(rope, ones(32), 40), rotated(plain, ones(32), 10));
  const std::vector<float> factors(16, 8.0f);
  EXPECT_EQ(rotated(plain, ones(32), 80, factors), rotated(plain, ones(32), 10));
}

// Fast pairs turn as in training, slow ones are interpolated, all grow by 1 + ln(factor) / 10.
TEST(Rope, YarnLeavesFastPairsAndSlowsSlowOnes) {
  const RopeSpec yarn = {.n_dims = 128, .scaling = RopeScaling::yarn, .factor = 4.0f, .original_context = 4096};
  const RopeSpec plain = {.n_dims = 128};
  const auto got = rotated(yarn, ones(128), 1000);
  const auto fast = rotated(plain, ones(128), 1000);
  const auto slow = rotated(plain, ones(128), 250);
  const float growth = 1.0f + 0.1f * std::log(4.0f);
  EXPECT_NEAR(got[0], growth * fast[0], 1e-5);
  EXPECT_NEAR(got[1], growth * fast[1], 1e-5);
  EXPECT_NEAR(got[126], growth * slow[126], 1e-5);
  EXPECT_NEAR(got[127], growth * slow[127], 1e-5);
}

TEST(Rope, AnglesAreComputedAgainWhenSomethingChanges) {
  Workers workers(2);
  RopeAngles angles;
  const RopeSpec rope = {.n_dims = 8};
  RopeSpec other = rope;
  other.base = 500.0f;
  const auto turn = [&](const RopeSpec& spec, uint32_t position) {
    angles.prepare(spec, {}, std::span(&position, 1), workers);
    auto head = ones(8);
    angles.rotate(head, 8, 0);
    return head;
  };
  const auto first = turn(rope, 5);
  EXPECT_EQ(turn(rope, 5), first);
  EXPECT_NE(turn(rope, 6), first);
  EXPECT_NE(turn(other, 5), first);
  EXPECT_EQ(turn(rope, 5), first);
}

}  // namespace
}  // namespace rocmforge::cpu
