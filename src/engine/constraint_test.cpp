// Requests under a constraint: what is chosen is what the definition says, and even a model that only tells stories
// writes what its schema asks for.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/json.h"
#include "grammar/vocabulary_constraints.h"
#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using testing::Collector;
using testing::story_engine;

TEST(SampleAllowed, CandidatesGiveWhatTheWholeRowGivesOrNothing) {
  auto rng = testing::seeded_rng();
  const auto uniform = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(rng);
  };
  const auto one_of = [&](std::initializer_list<double> all) { return all.begin()[rng() % all.size()]; };
  int n_answers = 0;
  constexpr int kCases = 3'000;
  for (int i = 0; i < kCases; i++) {
    std::vector<float> logits(static_cast<size_t>(one_of({1, 2, 100, 256, 257, 1000, 4000})));
    std::normal_distribution<double> noise(0, one_of({0.001, 2, 4, 10}));
    for (float& v : logits) v = static_cast<float>(rng() % 4 == 0 ? std::round(noise(rng)) : noise(rng));
    const auto n_vocab = static_cast<uint32_t>(logits.size());
    const double share = one_of({0.002, 0.05, 0.5, 0.99});
    std::set<int32_t> set = {static_cast<int32_t>(rng() % n_vocab)};
    for (uint32_t id = 0; id < n_vocab; id++) {
      if (uniform(0, 1) < share) set.insert(static_cast<int32_t>(id));
    }
    std::vector<TokenId> allowed;
    for (const int32_t id : set) allowed.push_back(TokenId(id));
    RowCandidates row;
    select_candidates(row, logits);
    SamplingOptions options{.temperature = static_cast<float>(one_of({0, 0.3, 0.8, 1, 1.5})),
                            .top_k = static_cast<uint32_t>(one_of({0, 1, 3, 40, 300})),
                            .top_p = static_cast<float>(one_of({0.1, 0.9, 0.95, 1})),
                            .min_p = static_cast<float>(one_of({0, 0.05, 0.5}))};
    std::vector<TokenId> history;
    if (rng() % 3 == 0) {
      options.repetition_penalty = 1.2f;
      options.presence_penalty = static_cast<float>(one_of({-1, 0.5}));
      for (int h = 0; h < 20; h++) history.push_back(TokenId(static_cast<int32_t>(rng() % n_vocab)));
    }
    for (int j = 0; j < 3; j++) {
      const double unit = uniform(0, 1);
      const TokenId expected = *sample_allowed(logits, options, history, unit, allowed);
      EXPECT_TRUE(set.contains(expected.value));
      const auto got = *sample_candidates(row, options, history, n_vocab, unit,
                                          [&](TokenId id) { return Result<bool>(set.contains(id.value)); });
      n_answers += got.has_value();
      if (!got) continue;
      ASSERT_EQ(got->value, expected.value) << "case " << i << ", " << n_vocab << " tokens, top_k " << options.top_k;
    }
  }
  EXPECT_GT(n_answers, kCases * 3 / 2);
}

TEST(SampleAllowed, WithAllTokensAllowedIsTheFreeSample) {
  auto rng = testing::seeded_rng();
  std::normal_distribution<float> noise(0, 3);
  std::vector<float> logits(2'000);
  std::vector<TokenId> all;
  for (float& v : logits) v = noise(rng);
  for (int32_t i = 0; i < 2'000; i++) all.push_back(TokenId(i));
  for (uint64_t i = 0; i < 200; i++) {
    const SamplingOptions options{.temperature = 1, .top_k = i % 2 == 0 ? 0u : 40u};
    EXPECT_EQ(*sample_allowed(logits, options, {}, random_unit(1, i), all),
              *sample_whole_row(logits, options, {}, random_unit(1, i)));
  }
}

constexpr const char* kPerson =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":1,"maximum":99},
        "pets":{"type":"array","items":{"enum":["cat","dog","fish"]},"minItems":1,"maxItems":3,"uniqueItems":true},"happy":{"type":"boolean"}},
        "required":["name","age","pets","happy"],"additionalProperties":false})";

// Everybody's answer is JSON of the schema, and the same alone and among others, whatever the pages are.
TEST(ConstrainedRequests, AStoryModelWritesWhatTheSchemaAsksForAloneAndInABatch) {
  const auto engine = story_engine();
  grammar::VocabularyConstraints constraints(engine->tokenizer());
  const auto constraint = constraints.compile({.text = kPerson, .schema = {.any_order = false}});
  ASSERT_TRUE(constraint.ok()) << constraint.error().message;
  const auto prompt = engine->tokenizer().encode("Once upon a time there was", {.add_bos = true}).value();
  const auto request = [&](uint64_t seed) {
    GenerationRequest out;
    out.prompt = prompt;
    out.sampling = {.temperature = seed % 3 == 0 ? 0.0f : 1.0f, .top_k = seed % 2 == 0 ? 40u : 0u, .seed = seed};
    out.max_tokens = 150;
    out.constraint = ConstraintChoice{.constraint = *constraint, .vocabulary = constraints.vocabulary()};
    return out;
  };
  std::vector<std::string> alone;
  for (uint64_t seed = 0; seed < 6; seed++) {
    Collector collector;
    ASSERT_TRUE(engine->submit(request(seed), collector.receiver()).ok());
    const FinishEvent& finish = collector.wait();
    EXPECT_EQ(finish.reason, FinishReason::stop) << (finish.error ? finish.error->message : collector.text());
    alone.push_back(collector.text());
    const auto json = parse_json(alone.back());
    ASSERT_TRUE(json.ok()) << alone.back();
    const auto* age = json->find("age") ? json->find("age")->as<int64_t>() : nullptr;
    const auto* age_text = json->find("age") ? json->find("age")->as<double>() : nullptr;  // 7.0 is an integer, too
    EXPECT_TRUE((age && *age >= 1 && *age <= 99) || age_text) << alone.back();
    ASSERT_TRUE(json->find("pets") && json->find("pets")->as<JsonArray>()) << alone.back();
    EXPECT_GE(json->find("pets")->as<JsonArray>()->size(), 1u);
  }
  std::vector<std::unique_ptr<Collector>> collectors;
  for (uint64_t seed = 0; seed < 6; seed++) {
    collectors.push_back(std::make_unique<Collector>());
    ASSERT_TRUE(engine->submit(request(seed), collectors.back()->receiver()).ok());
  }
  for (size_t i = 0; i < collectors.size(); i++) {
    collectors[i]->wait();
    EXPECT_EQ(collectors[i]->text(), alone[i]);
  }
}

TEST(ConstrainedRequests, NothingIsConstrainedBeforeTheEndOfReasoning) {
  const auto engine = story_engine();
  grammar::VocabularyConstraints constraints(engine->tokenizer());
  const auto choice = constraints.compile({.notation = grammar::Notation::choice, .text = R"(["yes","no"])"});
  TokenConstraint constraint({.constraint = *choice, .vocabulary = constraints.vocabulary(), .after = "</think>"},
                             engine->tokenizer());
  const auto thoughts = engine->tokenizer().encode("I think. </think>\n\n").value();
  for (const TokenId id : thoughts) {
    if (!*constraint.allows(id)) break;  // white space in a token of its own belongs to the answer
    ASSERT_TRUE(constraint.accept(id).ok());
  }
  std::string text;
  for (int i = 0; i < 10 && !constraint.is_complete(); i++) {
    const auto allowed = *constraint.allowed(1'000'000);
    ASSERT_FALSE(allowed.empty());
    if (engine->tokenizer().is_end_of_text(allowed[0])) break;
    text += engine->tokenizer().token_text(allowed[0]);
    ASSERT_TRUE(constraint.accept(allowed[0]).ok());
  }
  EXPECT_TRUE(text == "yes" || text == "no") << text;
}

}  // namespace
}  // namespace rocmforge
