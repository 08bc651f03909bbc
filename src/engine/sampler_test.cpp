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

const SamplingOptions kAll{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

std::vector<TokenId> tokens_of(std::initializer_list<int> ids) {
  std::vector<TokenId> tokens;
  for (const int id : ids) tokens.push_back(TokenId(id));
  return tokens;
}

// How often each token comes out over n steps.
std::map<int, double> frequencies(const std::vector<float>& logits, const SamplingOptions& options, int n = 100'000,
                                  const std::vector<TokenId>& history = {}) {
  std::map<int, double> counts;
  for (int i = 0; i < n; i++)
    counts[sample_whole_row(logits, options, history, random_unit(7, static_cast<uint64_t>(i)))->token.value] +=
        1.0 / n;
  return counts;
}

// Pearson's statistic of what came out against what should have; a token that should not come out makes it infinite.
double chi_square(const std::map<int, double>& got, const std::vector<double>& expected, int n = 100'000) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); i++) {
    const auto found = got.find(static_cast<int>(i));
    const double difference = (found == got.end() ? 0 : found->second) - expected[i];
    if (expected[i] > 0) {
      sum += n * difference * difference / expected[i];
    } else if (difference != 0) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return sum;
}

std::vector<double> normalised(std::vector<double> weights) {
  double total = 0;
  for (const double w : weights) total += w;
  for (double& w : weights) w /= total;
  return weights;
}

TEST(Sampler, TemperatureZeroTakesTheLargestAndTheLowerIdOfEquals) {
  SamplingOptions greedy;
  greedy.temperature = 0;
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3, 2}, greedy, {}, 0.9)->token.value, 1);
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
  EXPECT_EQ(sample(logits, kAll, {}, 0.0)->token.value, 0);
  EXPECT_EQ(sample(logits, kAll, {}, std::nextafter(1.0, 0.0))->token.value, 1);
}

TEST(Sampler, RefusesLogitsThatAreNotNumbers) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(sample(std::vector<float>{0, bad}, kAll, {}, 0).error().code, ErrorCode::model_not_finite);
  }
}

// Critical values of chi-square at 1e-6: 7 degrees of freedom 40.5, 3 degrees 30.7. The seed is fixed, so the test does
// not fail now and then; a sampler with the wrong distribution fails it always.
TEST(Sampler, DrawsFromTheDistributionItsOptionsDescribe) {
  const std::vector<double> p = {0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.04, 0.01};
  const auto logits = logits_of(p);
  EXPECT_LT(chi_square(frequencies(logits, kAll), p), 40.5);
  EXPECT_GT(chi_square(frequencies(logits, kAll), normalised({0.32, 0.2, 0.15, 0.12, 0.1, 0.08, 0.04, 0.01})), 40.5)
      << "a share that is wrong by 0.02 is seen";

  SamplingOptions hot = kAll;
  hot.temperature = 2;
  std::vector<double> roots;
  for (const double v : p) roots.push_back(std::sqrt(v));
  EXPECT_LT(chi_square(frequencies(logits, hot), normalised(roots)), 40.5);

  SamplingOptions cut = hot;
  cut.top_k = 6;
  cut.top_p = 0.8f;  // of 0.95: 0.76, so four tokens
  EXPECT_LT(chi_square(frequencies(logits, cut), normalised({roots[0], roots[1], roots[2], roots[3], 0, 0, 0, 0})),
            30.7);

  SamplingOptions biased = kAll;
  biased.logit_bias = {{TokenId(7), static_cast<float>(std::log(20.0))}, {TokenId(0), -100}};
  EXPECT_LT(chi_square(frequencies(logits, biased), normalised({0, 0.2, 0.15, 0.12, 0.1, 0.08, 0.04, 0.2})), 40.5);

  SamplingOptions penalised = kAll;
  penalised.presence_penalty = 0.5f;
  penalised.frequency_penalty = 0.25f;
  EXPECT_LT(chi_square(frequencies(logits, penalised, 100'000, tokens_of({1, 3, 1})),
                       normalised({0.3, 0.2 * std::exp(-1.0), 0.15, 0.12 * std::exp(-0.75), 0.1, 0.08, 0.04, 0.01})),
            40.5);
}

// The logit that decides: greedy sampling picks token 1 exactly when its adjusted logit is above token 0's.
void expect_adjusted(float logit, const SamplingOptions& changed, const std::vector<TokenId>& history, float expected) {
  SamplingOptions options = changed;
  options.temperature = 0;
  const float below = std::nextafter(expected, -1e9f);
  EXPECT_EQ(sample(std::vector<float>{below, logit, -50}, options, history, 0)->token.value, 1) << expected;
  EXPECT_EQ(sample(std::vector<float>{expected, logit, -50}, options, history, 0)->token.value, 0) << expected;
}

TEST(Sampler, PenaltiesChangeLogitsAsDocumented) {
  const auto history = tokens_of({1, 2, 1});
  SamplingOptions repetition, presence, frequency, all;
  repetition.repetition_penalty = all.repetition_penalty = 2;
  presence.presence_penalty = all.presence_penalty = 0.5f;
  frequency.frequency_penalty = all.frequency_penalty = 0.25f;
  all.logit_bias = {{TokenId(1), 1}, {TokenId(1), 2}};
  expect_adjusted(4, repetition, history, 2);
  expect_adjusted(-4, repetition, history, -8);
  expect_adjusted(0, repetition, history, 0);
  expect_adjusted(4, presence, history, 3.5f);
  expect_adjusted(4, frequency, history, 3.5f);
  expect_adjusted(4, all, history, 2.5f);  // (4 + 3) / 2 - 2 x 0.25 - 0.5
  expect_adjusted(-4, all, history, -3);   // (-4 + 3) x 2 - 1
  expect_adjusted(4, all, {}, 7);          // the bias alone
  frequency.frequency_penalty = -1;
  expect_adjusted(4, frequency, history, 6);
}

TEST(Sampler, PenaltiesLookBackAsFarAsTheyAreTold) {
  std::vector<TokenId> history = tokens_of({1, 1});
  history.resize(100, TokenId(2));
  SamplingOptions options;
  options.presence_penalty = 1;
  expect_adjusted(4, options, history, 4);
  options.penalty_last_n = 98;
  expect_adjusted(4, options, history, 4);
  options.penalty_last_n = 99;
  expect_adjusted(4, options, history, 3);
  options.penalty_last_n = -1;
  expect_adjusted(4, options, history, 3);
  options.penalty_last_n = 1'000'000;
  expect_adjusted(4, options, history, 3);
  options.penalty_last_n = 0;
  expect_adjusted(4, options, history, 4);
}

TEST(Sampler, AdjustsNothingOutsideTheVocabularyAndNothingBecomesInfinite) {
  SamplingOptions options;
  options.temperature = 0;
  options.repetition_penalty = 100;
  options.logit_bias = {{TokenId(-1), 100}, {TokenId(2), 100}, {TokenId(INT32_MAX), 100}, {TokenId(0), 1}};
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(sample(std::vector<float>{1, 1.5f}, options, tokens_of({-7, 2, INT32_MAX}), 0)->token.value, 0);
  options.temperature = 1;
  const std::vector<float> low = {-most, -most / 2};  // times 100: both at the end of the range, equally likely
  EXPECT_EQ(sample(low, options, tokens_of({0, 1}), 0.49)->token.value, 0);
  EXPECT_EQ(sample(low, options, tokens_of({0, 1}), 0.51)->token.value, 1);
}

TEST(Sampler, RefusesOptionsOutsideTheirRange) {
  EXPECT_TRUE(check_options({}).ok());
  for (const float bad : {-101.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(check_options({.temperature = bad}).ok());
    EXPECT_FALSE(check_options({.top_p = bad}).ok());
    EXPECT_FALSE(check_options({.min_p = bad}).ok());
    EXPECT_FALSE(check_options({.repetition_penalty = bad}).ok());
    EXPECT_FALSE(check_options({.presence_penalty = bad}).ok());
    EXPECT_FALSE(check_options({.frequency_penalty = bad}).ok());
    EXPECT_FALSE(check_options({.logit_bias = {{TokenId(1), 0}, {TokenId(1), bad}}}).ok());
  }
  EXPECT_FALSE(check_options({.top_p = 1.5f}).ok());
  EXPECT_FALSE(check_options({.repetition_penalty = 0}).ok());
  EXPECT_TRUE(check_options({.presence_penalty = -2, .frequency_penalty = 2}).ok());
  EXPECT_FALSE(check_options({.presence_penalty = -2.1f}).ok());
  EXPECT_FALSE(check_options({.frequency_penalty = 2.1f}).ok());
  EXPECT_TRUE(check_options({.penalty_last_n = -1}).ok());
  EXPECT_FALSE(check_options({.penalty_last_n = -2}).ok());
  EXPECT_TRUE(check_options({.n_logprobs = 20}).ok());
  EXPECT_FALSE(check_options({.n_logprobs = 21}).ok());
  EXPECT_FALSE(check_options({.logit_bias = std::vector<LogitBias>(kMaxLogitBiases + 1)}).ok());
}

TEST(Logprobs, AreTheModelsOwn) {
  const auto logits = logits_of({0.05, 0.5, 0.15, 0.3});
  const TokenLogprobs got = logprobs(logits, TokenId(2), 2);
  EXPECT_NEAR(got.logprob, std::log(0.15), 1e-6);
  ASSERT_EQ(got.top.size(), 2u);
  EXPECT_EQ(got.top[0].token, TokenId(1));
  EXPECT_NEAR(got.top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(got.top[1].token, TokenId(3));
  EXPECT_EQ(logprobs(logits, TokenId(2), 0).top.size(), 0u);
  EXPECT_EQ(logprobs(logits, TokenId(2), 20).top.size(), 4u) << "no more than there are";
}

TEST(Logprobs, OfCandidatesAreThoseOfTheRow) {
  auto rng = testing::seeded_rng();
  std::normal_distribution<float> noise(0, 4);
  std::vector<float> logits(5000);
  for (float& v : logits) v = noise(rng);
  RowCandidates row;
  select_candidates(row, logits);
  int n_answers = 0;
  for (int32_t i = 0; i < 5000; i += 7) {
    const TokenLogprobs whole = logprobs(logits, TokenId(i), 5);
    const auto some = logprobs(row, 5000, TokenId(i), 5);
    if (!some) continue;
    n_answers++;
    EXPECT_EQ(some->logprob, whole.logprob);
    EXPECT_EQ(some->top[4].token, whole.top[4].token);
    EXPECT_EQ(some->top[4].logprob, whole.top[4].logprob);
  }
  EXPECT_GT(n_answers, 20);
  EXPECT_LT(n_answers, 60);
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
