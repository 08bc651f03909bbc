// sample_candidates() gives what sample() gives, or nothing; and it does give something where users are.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/sampler.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using Rng = std::mt19937_64;

double uniform(Rng& rng, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(rng);
}
uint32_t one_in(Rng& rng, uint32_t n) {
  return static_cast<uint32_t>(rng() % n);
}
template <class T>
T any_of(Rng& rng, std::initializer_list<T> values) {
  return values.begin()[one_in(rng, static_cast<uint32_t>(values.size()))];
}

std::vector<float> random_row(Rng& rng) {
  std::vector<float> row(any_of<uint32_t>(rng, {1, 2, 100, 255, 256, 257, 300, 1000, 4000}));
  std::normal_distribution<double> noise(uniform(rng, -20, 20), any_of(rng, {0.001, 0.5, 2.0, 4.0, 10.0, 50.0}));
  for (float& v : row) v = static_cast<float>(noise(rng));
  if (one_in(rng, 4) == 0) {
    const float step = any_of(rng, {0.25f, 1.0f, 5.0f});  // many equal
    for (float& v : row) v = std::round(v / step) * step;
  }
  if (one_in(rng, 4) == 0) row[one_in(rng, static_cast<uint32_t>(row.size()))] += 10;  // one that stands out
  return row;
}

SamplingOptions random_options(Rng& rng, uint32_t n_vocab) {
  SamplingOptions o;
  o.temperature = any_of(rng, {0.0f, 1e-30f, 0.01f, 0.3f, 0.7f, 0.8f, 1.0f, 1.0f, 1.5f, 5.0f, 100.0f});
  o.top_k = any_of<uint32_t>(rng, {0, 0, 0, 1, 40, 200, 256, 257, 400, 100'000});
  o.top_p = any_of(rng, {0.0f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f, 1.0f, 1.0f, 1.0f});
  o.min_p = any_of(rng, {0.0f, 0.0f, 0.001f, 0.05f, 0.3f, 1.0f});
  if (one_in(rng, 2) == 0) {
    o.repetition_penalty = any_of(rng, {1.0f, 1.0f, 1.1f, 1.5f, 0.9f, 0.5f, 100.0f, 0.01f});
    o.presence_penalty = any_of(rng, {0.0f, 0.5f, 2.0f, -0.5f, -2.0f});
    o.frequency_penalty = any_of(rng, {0.0f, 0.1f, 2.0f, -0.1f, -2.0f});
    o.penalty_last_n = any_of(rng, {0, 1, 64, 64, -1});
  }
  if (one_in(rng, 3) == 0) {
    for (uint32_t i = one_in(rng, 5); i > 0; i--) {
      o.logit_bias.push_back({TokenId(static_cast<int32_t>(one_in(rng, n_vocab + 2))),
                              any_of(rng, {-100.0f, -1.0f, 0.0f, 0.1f, 1.0f, 5.0f, 100.0f})});
    }
  }
  if (one_in(rng, 3) == 0) {
    o.top_n_sigma = any_of(rng, {0.0f, 0.0f, 0.5f, 1.0f, 2.0f, 5.0f});
    o.typical_p = any_of(rng, {1.0f, 1.0f, 0.9f, 0.5f, 0.0f});
    o.xtc_probability = any_of(rng, {0.0f, 0.5f, 1.0f});
    o.xtc_threshold = any_of(rng, {0.0f, 0.001f, 0.05f, 0.1f, 0.3f, 0.5f, 1.0f});
    o.dry.multiplier = any_of(rng, {0.0f, 0.8f, 10.0f});
  }
  if (one_in(rng, 5) == 0) {
    o.mirostat = {.version = any_of(rng, {1, 2}), .tau = any_of(rng, {0.5f, 2.0f, 5.0f}), .eta = 0.1f};
  }
  return o;
}

// Mostly likely tokens, as in a text.
std::vector<TokenId> random_history(Rng& rng, const RowCandidates& row, uint32_t n_vocab) {
  std::vector<TokenId> history(any_of<size_t>(rng, {0, 1, 10, 64, 200}));
  for (TokenId& id : history) {
    const uint32_t token = one_in(rng, 3) == 0 ? one_in(rng, n_vocab) : row.top[one_in(rng, kCandidates)].id;
    id = TokenId(static_cast<int32_t>(token));
  }
  return history;
}

TEST(SampleCandidates, GivesWhatTheWholeRowGivesOrNothing) {
  auto rng = testing::seeded_rng();
  int n_answers = 0;
  constexpr int kCases = 6'000;
  for (int i = 0; i < kCases; i++) {
    const std::vector<float> logits = random_row(rng);
    const auto n_vocab = static_cast<uint32_t>(logits.size());
    RowCandidates row;
    select_candidates(row, logits);
    const SamplingOptions options = random_options(rng, n_vocab);
    ASSERT_TRUE(check_options(options).ok());
    const auto tokens = random_history(rng, row, n_vocab);
    History history(tokens);
    if (one_in(rng, 2) == 0) history.mirostat_mu = uniform(rng, -1, 15);
    // What a device says of the sum is not exact.
    RowCandidates rough = row;
    rough.log_sum_exp += static_cast<float>(uniform(rng, -1e-4, 1e-4));
    for (int j = 0; j < 4; j++) {
      const double unit = j == 0 ? 0 : j == 1 ? std::nextafter(1.0, 0.0) : uniform(rng, 0, 1);
      const Choice expected = *sample_whole_row(logits, options, history, unit);
      ASSERT_EQ(sample(logits, options, history, unit)->token.value, expected.token.value);
      for (const RowCandidates& given : {row, rough}) {
        const auto got = *sample_candidates(given, options, history, n_vocab, unit);
        n_answers += got.has_value();
        if (!got) continue;
        ASSERT_EQ(got->mirostat_mu, expected.mirostat_mu);
        ASSERT_EQ(got->token.value, expected.token.value)
            << "case " << i << ", " << n_vocab << " tokens, temperature " << options.temperature << ", top_k "
            << options.top_k << ", top_p " << options.top_p << ", min_p " << options.min_p << ", unit " << unit;
      }
    }
  }
  EXPECT_GT(n_answers, kCases * 8 * 3 / 4);
}

// A vocabulary as large as they come, logits as models give them, options as clients send them.
TEST(SampleCandidates, RarelyNeedsTheRowForCommonOptions) {
  auto rng = testing::seeded_rng();
  std::normal_distribution<float> noise(0, 3);
  std::vector<float> logits(150'000);
  for (float& v : logits) v = noise(rng);
  for (int i = 0; i < 20; i++) logits[one_in(rng, 150'000)] = 18 + noise(rng);
  RowCandidates row;
  select_candidates(row, logits);
  const auto history = random_history(rng, row, 150'000);

  struct Case {
    SamplingOptions options;
    int least;  // answers of a hundred
  };
  const SamplingOptions open{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
  std::vector<Case> cases = {{{}, 100}, {open, 85}, {open, 95}, {open, 95}, {open, 100}, {{}, 100}};
  cases[2].options.temperature = 0.7f;
  cases[3].options.top_p = 0.9f;
  cases[4].options.min_p = 0.05f;
  cases[5].options.repetition_penalty = 1.1f;
  for (size_t c = 0; c < cases.size(); c++) {
    int n_answers = 0;
    for (uint64_t i = 0; i < 100; i++) {
      n_answers += sample_candidates(row, cases[c].options, history, 150'000, random_unit(1, i))->has_value();
    }
    EXPECT_GE(n_answers, cases[c].least) << "case " << c;
  }
}

TEST(SampleCandidates, SaysNothingWhenATokenItDoesNotSeeMayWin) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); i++) logits[i] = -0.01f * static_cast<float>(i);
  RowCandidates row;
  select_candidates(row, logits);
  SamplingOptions greedy{.temperature = 0};
  EXPECT_EQ((*sample_candidates(row, greedy, {}, 1000, 0))->token, TokenId(0));
  greedy.logit_bias = {{TokenId(900), 1}};
  EXPECT_EQ((*sample_candidates(row, greedy, {}, 1000, 0))->token, TokenId(0)) << "-2.55 + 1 at most";
  greedy.logit_bias = {{TokenId(900), 3}};
  EXPECT_FALSE(sample_candidates(row, greedy, {}, 1000, 0)->has_value());
  greedy.logit_bias = {{TokenId(200), 3}};
  EXPECT_EQ((*sample_candidates(row, greedy, {}, 1000, 0))->token, TokenId(200)) << "a candidate is known";
  greedy.logit_bias = {};
  greedy.frequency_penalty = -2;
  EXPECT_FALSE(sample_candidates(row, greedy, std::vector<TokenId>(2, TokenId(900)), 1000, 0)->has_value());
}

TEST(SampleCandidates, RefusesLogitsThatAreNotNumbers) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(1000, 1.0f);
    logits[700] = bad;
    RowCandidates row;
    select_candidates(row, logits);
    EXPECT_EQ(sample_candidates(row, {}, {}, 1000, 0).error().code, ErrorCode::model_not_finite);
    EXPECT_EQ(sample(logits, {}, {}, 0).error().code, ErrorCode::model_not_finite);
  }
}

}  // namespace
}  // namespace rocmforge
