// Requests under a constraint: what is chosen is what the definition says, and even a model that only tells stories
// writes what its schema asks for.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/json.h"
#include "chat/message.h"
#include "engine/message_constraint.h"
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
    RowCandidates row, row_of_allowed;
    select_candidates(row, logits);
    std::vector<uint64_t> mask((n_vocab + 63) / 64);
    for (const int32_t id : set) mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    const auto n_allowed = static_cast<uint32_t>(set.size());
    select_candidates(row_of_allowed, logits, {.mask = mask, .n_allowed = n_allowed});
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
      const TokenId expected = sample_allowed(logits, options, history, unit, allowed)->token;
      EXPECT_TRUE(set.contains(expected.value));
      const auto got = *sample_candidates(row, options, history, n_vocab, unit,
                                          [&](TokenId id) { return Result<bool>(set.contains(id.value)); });
      n_answers += got.has_value();
      const auto of_allowed = *sample_allowed_candidates(row_of_allowed, options, history, n_allowed, n_vocab, unit);
      if (n_allowed <= kCandidates) {
        ASSERT_TRUE(of_allowed.has_value()) << "case " << i;
      }
      if (of_allowed) {
        ASSERT_EQ(of_allowed->token.value, expected.value) << "case " << i << ", " << n_allowed << " allowed";
      }
      if (!got) continue;
      ASSERT_EQ(got->token.value, expected.value)
          << "case " << i << ", " << n_vocab << " tokens, top_k " << options.top_k;
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
    EXPECT_EQ(sample_allowed(logits, options, {}, random_unit(1, i), all)->token,
              sample_whole_row(logits, options, {}, random_unit(1, i))->token);
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
  // The story model does not think of JSON: its candidates alone can rarely tell.
  const ChoiceCounts counts = engine->stats().choices;
  EXPECT_GT(counts.n_candidates, 0u);
  EXPECT_GT(counts.n_allowed, 0u);
  EXPECT_EQ(counts.n_free, 0u);
}

TEST(ConstrainedRequests, PreemptionChangesNothing) {
  const auto engine = story_engine({.n_kv_tokens = 6 * kPageTokens, .max_running = 3, .max_step_tokens = 40});
  grammar::VocabularyConstraints constraints(engine->tokenizer());
  const auto constraint = *constraints.compile({.text = R"({"type":"string","minLength":700,"maxLength":720})"});
  std::vector<std::unique_ptr<Collector>> collectors;
  const auto submit = [&](uint64_t seed) {
    GenerationRequest request;
    request.prompt = engine->tokenizer().encode("Once upon a time there was", {.add_bos = true}).value();
    request.sampling = {.temperature = 1, .seed = seed};
    request.max_tokens = 300;
    request.constraint = ConstraintChoice{.constraint = constraint, .vocabulary = constraints.vocabulary()};
    collectors.push_back(std::make_unique<Collector>());
    ASSERT_TRUE(engine->submit(std::move(request), collectors.back()->receiver()).ok());
  };
  for (uint64_t seed = 0; seed < 3; seed++) {
    submit(seed);
    collectors.back()->wait();
  }
  EXPECT_EQ(engine->stats().n_preemptions, 0u);
  for (uint64_t seed = 0; seed < 3; seed++) submit(seed);
  for (size_t i = 0; i < 3; i++) {
    collectors[3 + i]->wait();
    EXPECT_EQ(collectors[3 + i]->tokens(), collectors[i]->tokens());
  }
  EXPECT_GT(engine->stats().n_preemptions, 0u) << "too easy";
}

// What is forced is appended in the tokens of the model's own tokenizer, and the text is the one that the model writes
// when it is asked for every token.
TEST(ConstrainedRequests, ForcedTextTakesNoSteps) {
  const auto engine = story_engine();
  const tokenizer::Tokenizer& tokenizer = engine->tokenizer();
  grammar::VocabularyConstraints constraints(tokenizer);
  const std::pair<grammar::Notation, const char*> kSources[] = {
      {grammar::Notation::regex, "There was a little (girl|boy) who lived in a small house\\. The end\\."},
      {grammar::Notation::json_schema,
       R"({"type":"object","properties":{"little_girl":{"enum":["Lily","Sue"]},"favorite_animal":{"enum":["dog","cat"]}},
           "required":["little_girl","favorite_animal"],"additionalProperties":false})"}};
  for (const auto& [notation, text] : kSources) {
    std::string texts[2];
    for (const bool jumps : {false, true}) {
      const auto before = engine->stats();
      const grammar::Source source{
          .notation = notation, .text = text, .schema = {.any_order = false, .has_white_space = false}};
      GenerationRequest request;
      request.prompt = tokenizer.encode("Once upon a time.", {.add_bos = true}).value();
      request.sampling = testing::greedy();
      request.max_tokens = 100;
      request.constraint = ConstraintChoice{
          .constraint = *constraints.compile(source), .vocabulary = constraints.vocabulary(), .jumps = jumps};
      Collector collector;
      ASSERT_TRUE(engine->submit(std::move(request), collector.receiver()).ok());
      const FinishEvent& finish = collector.wait();
      ASSERT_EQ(finish.reason, FinishReason::stop) << collector.text();
      texts[jumps] = collector.text();
      std::string spelled;
      for (const TokenId token : collector.tokens()) spelled += tokenizer.token_text(token);
      EXPECT_EQ(spelled, collector.text());
      const auto after = engine->stats();
      const uint64_t n_forced = after.choices.n_forced - before.choices.n_forced;
      const uint64_t n_steps = after.n_steps - before.n_steps;
      EXPECT_EQ(n_forced > 0, jumps) << text;
      if (jumps) {
        EXPECT_LE(n_steps + n_forced, finish.usage.n_generated + 1) << text;
        EXPECT_GT(n_forced, finish.usage.n_generated / 8) << text;
      }
    }
    EXPECT_EQ(texts[1], texts[0]);
  }
}

// Also what was begun in the last moment is completed.
TEST(ConstrainedRequests, AnAnswerThatHasToCloseIsValidAtItsLimit) {
  const auto engine = story_engine();
  grammar::VocabularyConstraints constraints(engine->tokenizer());
  constexpr const char* kOpen = R"({"type":"object","properties":{"name":{"type":"string"},
      "inner":{"type":"object","properties":{"x":{"type":"string"},"n":{"type":"integer"}},"required":["x","n"]},
      "tags":{"type":"array","items":{"type":"string"},"minItems":2}},"required":["name","inner"]})";
  int n_invalid = 0;
  for (const bool closes : {true, false}) {
    for (const bool has_white_space : {true, false}) {
      const auto constraint =
          *constraints.compile({.text = kOpen, .schema = {.any_order = false, .has_white_space = has_white_space}});
      for (const uint32_t max_tokens : {36u, 37u, 60u}) {
        for (uint64_t seed = 0; seed < 2; seed++) {
          GenerationRequest request;
          request.prompt = engine->tokenizer().encode("Once upon a time", {.add_bos = true}).value();
          request.sampling = {.temperature = seed == 0 ? 0.0f : 1.0f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = seed};
          request.max_tokens = max_tokens;
          request.constraint = ConstraintChoice{
              .constraint = constraint, .vocabulary = constraints.vocabulary(), .closes_at_length = closes};
          Collector collector;
          ASSERT_TRUE(engine->submit(std::move(request), collector.receiver()).ok());
          collector.wait();
          const bool is_valid = [&] {
            grammar::Matcher matcher(constraint);
            const auto n = matcher.accept(collector.text());
            return n.ok() && *n == collector.text().size() && matcher.is_end();
          }();
          n_invalid += !is_valid;
          if (closes) {
            EXPECT_TRUE(is_valid) << max_tokens << ", " << has_white_space << ": " << collector.text();
          }
          EXPECT_LE(collector.tokens().size(), max_tokens);
        }
      }
    }
  }
  EXPECT_GT(n_invalid, 5) << "too easy";
}

// Of a vocabulary that has no token for any marker.
chat::ModelFormat without_tokens(const chat::ToolFormat& format) {
  chat::ModelFormat out;
  out.format = &format;
  out.markers = std::make_shared<const std::vector<TokenId>>();
  return out;
}

// The story model never heard of tools: without the constraint it would tell a story.
TEST(ConstrainedRequests, ARequiredCallIsWrittenInEveryFormat) {
  const auto engine = story_engine();
  const tokenizer::Tokenizer& tokenizer = engine->tokenizer();
  const auto tools = *chat::parse_tools(R"([{"type":"function","function":{"name":"get_weather","parameters":{
    "type":"object","properties":{"city":{"enum":["Bern","Basel"]},"days":{"type":"integer","minimum":1,"maximum":9},
    "exact":{"type":"boolean"},"note":{"type":"string","maxLength":12}},
    "required":["city","days","note"],"additionalProperties":false}}},{"type":"function","function":{"name":"now"}}])");
  const auto prompt = tokenizer.encode("Once upon a time there was", {.add_bos = true}).value();
  for (const chat::ToolFormat& format : chat::tool_formats()) {
    grammar::VocabularyConstraints constraints(tokenizer);
    const chat::ModelFormat of_model = without_tokens(format);
    chat::MessageRules rules{.tools = tools, .calls = chat::CallChoice::required, .is_parallel = false};
    const auto made = constrain_message(constraints, tokenizer, of_model, rules);
    ASSERT_TRUE(made.ok()) << format.name << ": " << made.error().message;
    for (uint64_t seed = 0; seed < 2; seed++) {
      GenerationRequest request;
      request.prompt = prompt;
      request.sampling = {.temperature = seed == 0 ? 0.0f : 1.0f, .seed = seed};
      request.max_tokens = 600;
      request.constraint = made->choice;
      Collector collector;
      ASSERT_TRUE(engine->submit(std::move(request), collector.receiver()).ok());
      const FinishEvent& finish = collector.wait();
      ASSERT_EQ(finish.reason, FinishReason::stop) << format.name << ": " << collector.text();
      const chat::Message message = chat::parse_message(
          collector.text(), {.format = &format, .tools = std::make_shared<const chat::ToolSet>(tools)});
      ASSERT_EQ(message.calls.size(), 1u) << format.name << ": " << collector.text();
      const auto arguments = parse_json(message.calls[0].arguments);
      ASSERT_TRUE(arguments.ok()) << format.name << ": " << message.calls[0].arguments;
      if (message.calls[0].name == "now") continue;
      EXPECT_EQ(message.calls[0].name, "get_weather");
      for (const char* key : {"city", "days", "note"}) EXPECT_TRUE(arguments->find(key)) << message.calls[0].arguments;
    }
  }
}

class ReasoningConstraints : public ::testing::Test {
 protected:
  // Takes the likeliest of the tokens that `wish` says, as far as they are allowed, then whatever is allowed first.
  std::string write(TokenConstraint& constraint, std::string_view wish, size_t n_tokens) {
    std::string text;
    const auto wished = tokenizer().encode(wish, {}).value();
    for (const TokenId id : wished) {
      if (!*constraint.allows(id)) break;
      text += tokenizer().token_text(id);
      EXPECT_TRUE(constraint.accept(id).ok());
    }
    for (size_t i = 0; i < n_tokens && !constraint.is_complete(); i++) {
      std::vector<TokenId> allowed;
      for (const int32_t id : (*constraint.mask())->ids()) allowed.emplace_back(id);
      EXPECT_FALSE(allowed.empty());
      if (allowed.empty() || tokenizer().is_end_of_text(allowed[0])) break;
      text += tokenizer().token_text(allowed[0]);
      EXPECT_TRUE(constraint.accept(allowed[0]).ok());
    }
    return text;
  }
  const tokenizer::Tokenizer& tokenizer() const { return engine_->tokenizer(); }
  TokenConstraint constraint(std::optional<uint32_t> max_thinking_tokens) {
    const chat::ModelFormat format = without_tokens(*chat::find_tool_format("hermes"));
    chat::MessageRules rules{.reasoning = chat::ReasoningStart::inside};
    rules.answer = grammar::Source{.notation = grammar::Notation::choice, .text = R"(["yes","no"])"};
    auto made = constrain_message(constraints_, tokenizer(), format, rules, max_thinking_tokens);
    EXPECT_TRUE(made.ok());
    return TokenConstraint(std::move(made->choice));
  }

  std::unique_ptr<Engine> engine_ = story_engine();
  grammar::VocabularyConstraints constraints_{engine_->tokenizer()};
};

TEST_F(ReasoningConstraints, TheAnswerIsConstrainedFromTheEndOfReasoningOn) {
  TokenConstraint free = constraint({});
  const std::string text = write(free, "I think. </think>\n\n", 10);
  EXPECT_TRUE(text.starts_with(" I think. </think>")) << text;
  EXPECT_TRUE(text.ends_with("yes") || text.ends_with("no")) << text;
}

TEST_F(ReasoningConstraints, ABudgetClosesTheReasoning) {
  const std::string thoughts = "One day a girl went to the park and saw a big dog. She said hello to the big dog.";
  const size_t n = tokenizer().encode(thoughts, {}).value().size();
  ASSERT_GT(n, 12u);
  TokenConstraint limited = constraint(10);
  const std::string text = write(limited, thoughts, 30);
  const size_t end = text.find("</think>");
  ASSERT_NE(end, std::string::npos) << text;
  EXPECT_LT(end, thoughts.size()) << text;
  EXPECT_TRUE(text.ends_with("yes") || text.ends_with("no")) << text;
  // One that is not used up changes nothing.
  TokenConstraint ample = constraint(500);
  EXPECT_TRUE(write(ample, thoughts, 0).ends_with("big dog."));
}

}  // namespace
}  // namespace rocmforge
