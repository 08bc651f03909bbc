#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "support/support.h"

namespace rocmforge {
namespace {

// Logits of given probabilities.
std::vector<float> logits_of(std::vector<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

constexpr SamplingOptions kAll{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 0};

// How often each token comes out over n steps.
std::map<int, double> frequencies(const std::vector<float>& logits, const SamplingOptions& options, int n = 100'000) {
  std::map<int, double> counts;
  for (int i = 0; i < n; i++)
    counts[sample(logits, options, random_unit(7, static_cast<uint64_t>(i)))->value] += 1.0 / n;
  return counts;
}

TEST(Sampler, TemperatureZeroTakesTheLargestAndTheLowerIdOfEquals) {
  SamplingOptions greedy;
  greedy.temperature = 0;
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3, 2}, greedy, 0.9)->value, 1);
}

TEST(Sampler, DrawsByProbability) {
  const auto counts = frequencies(logits_of({0.5, 0.3, 0.15, 0.05}), kAll);
  // Five standard deviations of a binomial count of 100,000: sqrt(p (1 - p) / n) < 0.0016.
  EXPECT_NEAR(counts.at(0), 0.5, 0.008);
  EXPECT_NEAR(counts.at(1), 0.3, 0.008);
  EXPECT_NEAR(counts.at(2), 0.15, 0.008);
  EXPECT_NEAR(counts.at(3), 0.05, 0.008);
}

TEST(Sampler, TemperatureSharpensByThePowerOfItsInverse) {
  SamplingOptions options = kAll;
  options.temperature = 0.5;
  const auto counts = frequencies(logits_of({0.5, 0.3, 0.2}), options);
  const double total = 0.25 + 0.09 + 0.04;
  EXPECT_NEAR(counts.at(0), 0.25 / total, 0.008);
  EXPECT_NEAR(counts.at(2), 0.04 / total, 0.008);
}

TEST(Sampler, EachFilterKeepsExactlyItsSet) {
  const auto logits = logits_of({0.05, 0.5, 0.15, 0.3});
  SamplingOptions top_k = kAll, top_p = kAll, min_p = kAll;
  top_k.top_k = 2;
  top_p.top_p = 0.81f;  // 0.5 + 0.3 does not reach it
  min_p.min_p = 0.31f;  // of 0.5: at least 0.155
  EXPECT_EQ(frequencies(logits, top_k).size(), 2u);
  EXPECT_EQ(frequencies(logits, top_p).size(), 3u);
  EXPECT_EQ(frequencies(logits, min_p).size(), 2u);
  top_p.top_p = 0;
  EXPECT_EQ(frequencies(logits, top_p).size(), 1u) << "the best token is always kept";
  min_p.min_p = 1;
  EXPECT_EQ(frequencies(logits, min_p).size(), 1u);
  top_k.top_k = 1000;
  EXPECT_EQ(frequencies(logits, top_k).size(), 4u);
}

TEST(Sampler, TheEndsOfTheUnitIntervalAreTokensToo) {
  const auto logits = logits_of({0.5, 0.5});
  EXPECT_EQ(sample(logits, kAll, 0.0)->value, 0);
  EXPECT_EQ(sample(logits, kAll, std::nextafter(1.0, 0.0))->value, 1);
}

TEST(Sampler, RefusesLogitsThatAreNotNumbers) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(sample(std::vector<float>{0, bad}, kAll, 0).error().code, ErrorCode::model_not_finite);
  }
}

TEST(Sampler, RefusesOptionsOutsideTheirRange) {
  EXPECT_TRUE(check_options({}).ok());
  for (const float bad : {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(check_options({.temperature = bad}).ok());
    EXPECT_FALSE(check_options({.top_p = bad}).ok());
    EXPECT_FALSE(check_options({.min_p = bad}).ok());
  }
  EXPECT_FALSE(check_options({.top_p = 1.5f}).ok());
}

TEST(RandomUnit, IsUniformAndRepeatable) {
  double sum = 0, sum_of_squares = 0;
  for (uint64_t i = 0; i < 100'000; i++) {
    const double u = random_unit(3, i);
    ASSERT_TRUE(u >= 0 && u < 1);
    ASSERT_EQ(u, random_unit(3, i));
    sum += u;
    sum_of_squares += u * u;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
  EXPECT_NEAR(sum_of_squares / 100'000, 1.0 / 3, 0.005);
  EXPECT_NE(random_unit(3, 0), random_unit(4, 0));
}

}  // namespace
}  // namespace rocmforge
