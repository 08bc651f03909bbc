// The samplers beside top_k, top_p and min_p by hand-made cases: what each keeps, penalises or carries on.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/dry.h"
#include "engine/sampler.h"

namespace rocmforge {
namespace {

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

const SamplingOptions kOpen{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

std::vector<TokenId> tokens_of(const std::vector<int>& ids) {
  std::vector<TokenId> tokens;
  for (const int id : ids) tokens.push_back(TokenId(id));
  return tokens;
}

// The tokens that come out over many draws, with their shares.
std::map<int, double> shares(const std::vector<float>& logits, const SamplingOptions& options,
                             const History& history = {}, int n = 20'000) {
  std::map<int, double> out;
  for (int i = 0; i < n; i++) {
    const Choice whole = *sample_whole_row(logits, options, history, random_unit(3, static_cast<uint64_t>(i)));
    EXPECT_EQ(sample(logits, options, history, random_unit(3, static_cast<uint64_t>(i)))->token, whole.token);
    out[whole.token.value] += 1.0 / n;
  }
  return out;
}

std::set<int> kept(const std::vector<float>& logits, const SamplingOptions& options) {
  std::set<int> out;
  for (const auto& [token, share] : shares(logits, options)) out.insert(token);
  return out;
}

// --- top_n_sigma

TEST(TopNSigma, KeepsLogitsWithinNDeviationsOfTheLargest) {
  const std::vector<float> logits = {4, 2, 0, -2, -4};  // mean 0, standard deviation sqrt(8) = 2.83
  SamplingOptions options = kOpen;
  options.temperature = 10;
  options.top_n_sigma = 1;
  EXPECT_EQ(kept(logits, options), (std::set<int>{0, 1})) << "at least 1.17";
  options.top_n_sigma = 1.5f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{0, 1, 2})) << "at least -0.24";
  options.top_n_sigma = 3;
  EXPECT_EQ(kept(logits, options).size(), 5u);
  options.top_n_sigma = 0.01f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{0})) << "the best one is always kept";
  EXPECT_EQ(kept({1, 1, 1}, options).size(), 3u) << "without a spread all are the largest";
}

TEST(TopNSigma, IsMeasuredOverAllTokensNotOverTopK) {
  const std::vector<float> logits = {4, 2, 0, -2, -4};
  SamplingOptions options = kOpen;
  options.temperature = 10;
  options.top_k = 2;
  options.top_n_sigma = 1;  // of the two alone the deviation would be 1, and the second one out
  EXPECT_EQ(kept(logits, options), (std::set<int>{0, 1}));
}

// --- typical_p

TEST(TypicalP, KeepsTokensNearestToTheEntropy) {
  // Entropy 1.2090 nats. Surprise less entropy: 0.6931 -> 0.516, 1.3863 -> 0.177, 1.8971 -> 0.688, 2.3026 -> 1.094.
  const auto logits = logits_of({0.5, 0.25, 0.15, 0.1});
  SamplingOptions options = kOpen;
  options.typical_p = 0.2f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{1})) << "the likeliest token is not the most typical one";
  options.typical_p = 0.5f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{0, 1}));
  options.typical_p = 0.8f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{0, 1, 2}));
  options.typical_p = 0.95f;
  EXPECT_EQ(kept(logits, options).size(), 4u);
  options.typical_p = 0;
  EXPECT_EQ(kept(logits, options), (std::set<int>{1})) << "one is always kept";
}

TEST(TypicalP, StandsBehindTopKAndBeforeTopP) {
  const auto logits = logits_of({0.5, 0.25, 0.15, 0.1});
  SamplingOptions options = kOpen;
  options.top_k = 2;  // 2/3 and 1/3: entropy 0.6365, surprises 0.405 and 1.099: nearer is the first
  options.typical_p = 0.3f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{0}));
  options.top_k = 0;
  options.typical_p = 0.5f;  // 0.5 and 0.25, as 2/3 and 1/3
  options.top_p = 0.66f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{0}));
}

// --- XTC

TEST(Xtc, LeavesOutAllButTheLeastLikelyAboveTheThreshold) {
  const auto logits = logits_of({0.4, 0.3, 0.2, 0.1});
  SamplingOptions options = kOpen;
  options.xtc_probability = 1;
  options.xtc_threshold = 0.15f;
  const auto got = shares(logits, options);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got.at(2), 2.0 / 3, 0.02);
  EXPECT_NEAR(got.at(3), 1.0 / 3, 0.02);
  options.xtc_threshold = 0.35f;
  EXPECT_EQ(kept(logits, options).size(), 4u) << "one alone above the threshold stays";
  options.xtc_threshold = 0.6f;
  EXPECT_EQ(kept(logits, options).size(), 4u);
  options.xtc_threshold = 0;
  EXPECT_EQ(kept(logits, options), (std::set<int>{3}));
}

TEST(Xtc, HappensWithItsProbability) {
  const auto logits = logits_of({0.5, 0.3, 0.2});
  SamplingOptions options = kOpen;
  options.xtc_probability = 0.5f;
  options.xtc_threshold = 0.25f;
  const auto got = shares(logits, options, {}, 50'000);
  // Half of the draws as they are, half from 0.3 and 0.2. Five standard deviations of 50,000 draws: 0.011.
  EXPECT_NEAR(got.at(0), 0.25, 0.011);
  EXPECT_NEAR(got.at(1), 0.15 + 0.3, 0.011);
  EXPECT_NEAR(got.at(2), 0.1 + 0.2, 0.011);
}

TEST(Xtc, MeasuresWhatTheOtherFiltersHaveLeft) {
  const auto logits = logits_of({0.4, 0.3, 0.2, 0.1});
  SamplingOptions options = kOpen;
  options.top_k = 2;  // 4/7 and 3/7
  options.xtc_probability = 1;
  options.xtc_threshold = 0.42f;
  EXPECT_EQ(kept(logits, options), (std::set<int>{1}));
}

// --- DRY

std::map<uint32_t, float> penalties(const DryOptions& options, const std::vector<int>& ids,
                                    const std::vector<uint8_t>& breaks = {}) {
  const auto tokens = tokens_of(ids);
  History history(tokens);
  history.breaks = breaks;
  std::map<uint32_t, float> out;
  for (const DryPenalty& one : dry_penalties(options, history)) {
    EXPECT_TRUE(out.emplace(one.token, one.penalty).second) << "twice";
  }
  return out;
}

using Penalties = std::map<uint32_t, float>;

TEST(Dry, PenalisesWhatContinuesTheLongestMatch) {
  const DryOptions dry{.multiplier = 0.5f, .base = 2, .allowed_length = 2};
  EXPECT_EQ(penalties(dry, {1, 2, 3, 4, 1, 2, 3}), (Penalties{{4, 1.0f}})) << "0.5 x 2^(3 - 2)";
  EXPECT_EQ(penalties(dry, {1, 2, 3, 4, 9, 2, 3}), (Penalties{{4, 0.5f}}));
  EXPECT_EQ(penalties(dry, {1, 2, 3, 4, 9, 9, 3}), Penalties{}) << "shorter than allowed";
  EXPECT_EQ(penalties(dry, {1, 2, 3, 4, 2, 3, 5, 1, 2, 3}), (Penalties{{4, 1.0f}, {5, 0.5f}}));
  EXPECT_EQ(penalties(dry, {7, 7, 7, 7}), (Penalties{{7, 1.0f}})) << "places may overlap";
  EXPECT_EQ(penalties(dry, {1, 2}), Penalties{});
  EXPECT_EQ(penalties(dry, {}), Penalties{});
}

TEST(Dry, LooksBackAsFarAsItIsTold) {
  DryOptions dry{.multiplier = 1, .base = 2, .allowed_length = 1, .last_n = 4};
  EXPECT_EQ(penalties(dry, {1, 2, 8, 1, 2}), (Penalties{{8, 1.0f}})) << "of 1, 2 the last four have the 2";
  dry.last_n = 5;
  EXPECT_EQ(penalties(dry, {1, 2, 8, 1, 2}), (Penalties{{8, 2.0f}}));
  dry.last_n = 0;
  EXPECT_EQ(penalties(dry, {1, 2, 8, 1, 2}), Penalties{});
}

TEST(Dry, DoesNotReachOverABreaker) {
  const DryOptions dry{.multiplier = 1, .base = 2, .allowed_length = 1};
  const std::vector<int> text = {5, 1, 2, 3, 5, 1, 2};
  EXPECT_EQ(penalties(dry, text), (Penalties{{3, 4.0f}}));
  EXPECT_EQ(penalties(dry, text, {1, 0, 0, 0, 1, 0, 0}), (Penalties{{3, 2.0f}})) << "5 is a breaker";
  EXPECT_EQ(penalties(dry, text, {0, 0, 1, 0, 0, 0, 1}), Penalties{}) << "2 is one: there is nothing to continue";
  EXPECT_EQ(penalties(dry, text, {0, 0, 0, 1, 0, 0, 0}), Penalties{}) << "3 is one, and is not penalised";
}

// The definition, token by token.
Penalties by_definition(const DryOptions& dry, const std::vector<int>& ids, const std::vector<uint8_t>& breaks) {
  const size_t n = ids.size(), first = dry.last_n < 0 ? 0 : n - std::min<size_t>(n, static_cast<size_t>(dry.last_n));
  std::map<uint32_t, size_t> longest;
  for (size_t next = first + 1; next < n; next++) {
    if (breaks[next] != 0) continue;
    size_t length = 0;
    while (length < next - first && ids[next - 1 - length] == ids[n - 1 - length] && breaks[n - 1 - length] == 0)
      length++;
    const auto token = static_cast<uint32_t>(ids[next]);
    if (length > 0) longest[token] = std::max(longest[token], length);
  }
  Penalties out;
  for (const auto& [token, length] : longest) {
    const int more = static_cast<int>(length) - dry.allowed_length;
    if (more >= 0) out[token] = dry.multiplier * std::pow(dry.base, static_cast<float>(more));
  }
  return out;
}

TEST(Dry, MatchesItsDefinitionOnRandomTexts) {
  for (uint64_t seed = 0; seed < 2'000; seed++) {
    uint64_t step = 0;
    const auto below = [&](int n) { return static_cast<int>(random_unit(seed, step++) * n); };
    std::vector<int> ids(static_cast<size_t>(below(60)));
    const int n_vocab = 1 + below(4);
    for (int& id : ids) id = below(n_vocab);
    std::vector<uint8_t> breaks(ids.size(), 0);
    const int breaker = below(6);  // perhaps none
    for (size_t i = 0; i < ids.size(); i++) breaks[i] = ids[i] == breaker;
    const DryOptions dry{
        .multiplier = 1, .base = 1, .allowed_length = below(4), .last_n = below(2) == 0 ? -1 : below(70)};
    ASSERT_EQ(penalties(dry, ids, breaks), by_definition(dry, ids, breaks)) << "seed " << seed;
  }
}

TEST(Dry, LongRepetitionsGiveFinitePenalties) {
  const std::vector<int> same(5'000, 3);
  const auto got = penalties({.multiplier = 100, .base = 100}, same);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(std::isfinite(got.at(3)));
  SamplingOptions options = kOpen;
  options.dry = {.multiplier = 100, .base = 100};
  const auto tokens = tokens_of(same);
  EXPECT_NE(sample(std::vector<float>{0, 0, 0, 90}, options, tokens, 0.5)->token.value, 3);
}

TEST(SequenceBreakers, EndInTheTokenThatCompletesThem) {
  SequenceBreakers breakers({"\n", "User:", ""});
  EXPECT_FALSE(breakers.push("Hello"));
  EXPECT_TRUE(breakers.push("a\nb")) << "in the middle of a token";
  EXPECT_FALSE(breakers.push("Us"));
  EXPECT_FALSE(breakers.push("er"));
  EXPECT_TRUE(breakers.push(": x")) << "spread over three tokens";
  EXPECT_FALSE(breakers.push(": x")) << "ended before";
  EXPECT_FALSE(breakers.push(""));
  SequenceBreakers none({});
  EXPECT_FALSE(none.push("\n"));
}

// --- Mirostat

SamplingOptions mirostat_of(int32_t version, float tau, float eta) {
  SamplingOptions options = kOpen;
  options.mirostat = {.version = version, .tau = tau, .eta = eta};
  return options;
}

TEST(Mirostat, SecondVersionKeepsTokensWithinTheSurprise) {
  const auto logits = logits_of({0.5, 0.25, 0.125, 0.125});  // 1, 2, 3 and 3 bits
  History history;
  const SamplingOptions options = mirostat_of(2, 5, 0.5f);
  history.mirostat_mu = 2.5;
  const auto got = shares(logits, options, history);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got.at(0), 2.0 / 3, 0.02);
  history.mirostat_mu = 0.5;
  EXPECT_EQ(shares(logits, options, history).size(), 1u) << "the likeliest is always kept";
  history.mirostat_mu.reset();
  EXPECT_EQ(shares(logits, options, history).size(), 4u) << "mu begins at 2 tau";
}

TEST(Mirostat, MuFollowsTheSurpriseOfWhatWasDrawn) {
  const auto logits = logits_of({0.5, 0.25, 0.125, 0.125});
  const SamplingOptions options = mirostat_of(2, 5, 0.5f);
  const Choice first = *sample(logits, options, {}, 0);
  EXPECT_EQ(first.token.value, 0);
  EXPECT_NEAR(first.mirostat_mu, 10 - 0.5 * (1 - 5), 1e-6);
  History history;
  history.mirostat_mu = 2.5;  // 0.5 and 0.25 are kept: log2(3) bits for the second
  const Choice second = *sample(logits, options, history, 0.9);
  EXPECT_EQ(second.token.value, 1);
  EXPECT_NEAR(second.mirostat_mu, 2.5 - 0.5 * (std::log2(3.0) - 5), 1e-6);
}

TEST(Mirostat, FirstVersionKeepsWhatZipfsLawGives) {
  // p_i in proportion to i^-2: the fit gives s = 2 exactly. k = ((s - 1) 2^mu / (1 - N^(1 - s)))^(1 / s).
  std::vector<double> p;
  for (int i = 1; i <= 50; i++) p.push_back(1.0 / (i * i));
  History history;
  history.mirostat_mu = std::log2(16.0);  // sqrt(16 / (1 - 1/50)) = 4.04
  EXPECT_EQ(shares(logits_of(p), mirostat_of(1, 5, 0.1f), history).size(), 4u);
  history.mirostat_mu = std::log2(15.0);  // 3.91
  EXPECT_EQ(shares(logits_of(p), mirostat_of(1, 5, 0.1f), history).size(), 3u);
  history.mirostat_mu = -100;
  EXPECT_EQ(shares(logits_of(p), mirostat_of(1, 5, 0.1f), history).size(), 1u);
  history.mirostat_mu = 100;
  EXPECT_GT(shares(logits_of(p), mirostat_of(1, 5, 0.1f), history).size(), 20u);
}

TEST(Mirostat, KeepsTheMeanSurpriseNearTau) {
  std::vector<double> p;
  for (int i = 1; i <= 2'000; i++) p.push_back(1.0 / i);
  const auto logits = logits_of(p);
  for (const float tau : {2.0f, 4.0f, 6.0f}) {
    const SamplingOptions options = mirostat_of(2, tau, 0.1f);
    History history;
    double last = 0;
    constexpr int kSteps = 3'000;
    for (int i = 0; i < kSteps; i++) {
      const Choice choice = *sample(logits, options, history, random_unit(11, static_cast<uint64_t>(i)));
      last = history.mirostat_mu.value_or(2.0 * tau);
      history.mirostat_mu = choice.mirostat_mu;
    }
    // mu is the sum of eta * (tau - surprise): while it stays bounded, the mean surprise is tau.
    EXPECT_LT(std::abs(last), 40) << tau;
  }
}

TEST(Mirostat, TakesThePlaceOfTheOtherFilters) {
  SamplingOptions options = mirostat_of(2, 5, 0.1f);
  options.top_k = 1;
  options.xtc_probability = 1;
  EXPECT_EQ(kept(logits_of({0.4, 0.3, 0.3}), options).size(), 3u);
  options.temperature = 0;
  EXPECT_EQ(kept(logits_of({0.4, 0.3, 0.3}), options).size(), 1u);
}

TEST(SamplingOptions, AreRefusedOutsideTheirRange) {
  SamplingOptions o;
  const auto refuses = [&](auto member, auto value) {
    SamplingOptions changed = o;
    changed.*member = value;
    return !check_options(changed).ok();
  };
  EXPECT_TRUE(refuses(&SamplingOptions::typical_p, 1.5f));
  EXPECT_TRUE(refuses(&SamplingOptions::top_n_sigma, -1.0f));
  EXPECT_TRUE(refuses(&SamplingOptions::xtc_probability, std::nanf("")));
  EXPECT_TRUE(refuses(&SamplingOptions::xtc_threshold, -0.1f));
  EXPECT_TRUE(refuses(&SamplingOptions::mirostat, MirostatOptions{.version = 3}));
  EXPECT_TRUE(refuses(&SamplingOptions::mirostat, MirostatOptions{.tau = -1}));
  EXPECT_TRUE(refuses(&SamplingOptions::dry, DryOptions{.multiplier = -1}));
  EXPECT_TRUE(refuses(&SamplingOptions::dry, DryOptions{.base = 0.5f}));
  EXPECT_TRUE(refuses(&SamplingOptions::dry, DryOptions{.allowed_length = -1}));
  EXPECT_TRUE(refuses(&SamplingOptions::dry, DryOptions{.last_n = -2}));
  EXPECT_TRUE(refuses(&SamplingOptions::dry, DryOptions{.sequence_breakers = std::vector<std::string>(65, "x")}));
  EXPECT_TRUE(refuses(&SamplingOptions::dry, DryOptions{.sequence_breakers = {std::string(257, 'x')}}));
}

}  // namespace
}  // namespace rocmforge
