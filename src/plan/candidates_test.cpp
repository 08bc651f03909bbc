#include "plan/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "support/support.h"

namespace rocmforge {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

RowCandidates select(const std::vector<float>& row) {
  RowCandidates out;
  select_candidates(out, row);
  return out;
}

void expect_by_sorting(const std::vector<float>& row) {
  std::vector<uint32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
  const RowCandidates got = select(row);
  for (size_t i = 0; i < kCandidates; i++) {
    const uint32_t id = ids[std::min(i, row.size() - 1)];
    ASSERT_EQ(got.top[i].id, id) << "of " << row.size() << ", place " << i;
    ASSERT_EQ(got.top[i].logit, row[id]);
  }
  double total = 0;
  for (const float v : row) total += std::exp(double{v} - row[ids[0]]);
  const double expected = row[ids[0]] + std::log(total);
  ASSERT_NEAR(got.log_sum_exp, expected, 1e-5 + std::abs(expected) * 0x1p-24) << "of " << row.size();
}

TEST(Candidates, OfAShortRowAreAllInOrderThenTheLastRepeated) {
  const RowCandidates got = select({1, 3, -0.0f, 3, 0.0f});
  const uint32_t expected[] = {1, 3, 0, 2, 4};
  for (size_t i = 0; i < kCandidates; i++) EXPECT_EQ(got.top[i].id, expected[std::min<size_t>(i, 4)]);
  EXPECT_NEAR(got.log_sum_exp, std::log(2 * std::exp(3.0) + std::exp(1.0) + 2), 1e-6);
}

TEST(Candidates, AreTheLargestOfAnyRow) {
  auto rng = testing::seeded_rng();
  for (const size_t n : {1u, 31u, 32u, 33u, 255u, 256u, 257u, 1003u, 8192u, 8193u, 8225u, 50257u, 151936u}) {
    std::vector<float> row(n);
    for (const float spread : {0.01f, 3.0f, 200.0f}) {
      std::normal_distribution<float> noise(0, spread);
      for (float& v : row) v = noise(rng);
      expect_by_sorting(row);
    }
    for (size_t i = 0; i < n; i++) row[i] = static_cast<float>(i % 3);  // many equal
    expect_by_sorting(row);
    std::iota(row.begin(), row.end(), -5.0f);
    expect_by_sorting(row);
    std::reverse(row.begin(), row.end());
    expect_by_sorting(row);
  }
}

TEST(Candidates, OfAllowedTokensAreThoseOfARowOfThemAlone) {
  auto rng = testing::seeded_rng();
  for (const size_t n : {1u, 64u, 65u, 300u, 5000u}) {
    std::vector<float> row(n);
    std::normal_distribution<float> noise(0, 4);
    for (float& v : row) v = rng() % 3 == 0 ? 1.0f : noise(rng);
    for (const uint32_t one_in : {1u, 2u, 30u, 5000u}) {
      std::vector<uint64_t> mask(n / 64 + 1);
      mask.back() |= ~uint64_t{0} << (n % 64);  // behind the row: they do not count
      std::vector<float> allowed;
      std::vector<uint32_t> ids;
      for (uint32_t id = 0; id < n; id++) {
        if (rng() % one_in != 0 && id != n / 2) continue;
        mask[id / 64] |= uint64_t{1} << (id % 64);
        allowed.push_back(row[id]);
        ids.push_back(id);
      }
      for (uint32_t id = 0; id < n; id++) {
        if (!std::ranges::binary_search(ids, id)) row[id] = kNan;  // never looked at
      }
      RowCandidates got;
      select_candidates(got, row, {.mask = mask, .n_allowed = static_cast<uint32_t>(ids.size())});
      const RowCandidates expected = select(allowed);
      for (size_t i = 0; i < kCandidates; i++) {
        ASSERT_EQ(got.top[i].id, ids[expected.top[i].id]) << n << ", one in " << one_in << ", place " << i;
        ASSERT_EQ(got.top[i].logit, expected.top[i].logit);
      }
      ASSERT_NEAR(got.log_sum_exp, expected.log_sum_exp, 1e-4);
      for (uint32_t id = 0; id < n; id++) {
        if (std::isnan(row[id])) row[id] = noise(rng);
      }
    }
  }
}

TEST(Candidates, OfARowThatIsNotFiniteHaveNoSumAndNanComesLast) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const size_t n : {2u, 300u, 20000u}) {
      for (const size_t at : {size_t{0}, n / 2, n - 1}) {
        std::vector<float> row(n, 1.0f);
        row[at] = bad;
        const RowCandidates got = select(row);
        EXPECT_TRUE(std::isnan(got.log_sum_exp)) << bad << " at " << at << " of " << n;
        if (bad > 0) {
          EXPECT_EQ(got.top[0].id, at);
        } else if (n == 2) {
          EXPECT_EQ(got.top[1].id, at);
        }
      }
    }
  }
  EXPECT_TRUE(std::isnan(select(std::vector<float>(1000, kNan)).log_sum_exp));
}

TEST(Candidates, ExtremesDoNotOverflow) {
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(select({most, -most}).log_sum_exp, most);
  EXPECT_EQ(select({-most, -most, most}).top[0].id, 2u);
  EXPECT_NEAR(select({-1000, -1000}).log_sum_exp, -1000 + std::log(2.0), 1e-4);
}

}  // namespace
}  // namespace rocmforge
