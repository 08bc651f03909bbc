// What a request may ask of the engine beside a plain answer: stop tokens, a least length, samplers that remember, and
// the log-probabilities of its prompt.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "engine/dry.h"
#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using testing::Collector;
using testing::greedy;
using testing::open_story;
using testing::Reference;
using testing::story_engine;

constexpr const char* kPrompt = "Once upon a time there was a little dog. The little dog was very happy. The little";

std::vector<TokenId> tokens_of(Engine& engine, const GenerationRequest& request, FinishEvent* finish = nullptr) {
  Collector collector;
  EXPECT_TRUE(engine.submit(request, collector.receiver()).ok());
  const FinishEvent& end = collector.wait();
  EXPECT_FALSE(end.error) << end.error->message;
  if (finish) *finish = end;
  return collector.tokens();
}

TEST(Engine, EndsBeforeAStopToken) {
  Reference reference;
  GenerationRequest request{.prompt = reference.encode(kPrompt), .sampling = greedy(), .max_tokens = 30};
  const auto engine = story_engine();
  const std::vector<TokenId> free = tokens_of(*engine, request);
  ASSERT_GT(free.size(), 5u);
  request.stop_tokens = {TokenId(0), free[4]};
  FinishEvent finish;
  const std::vector<TokenId> stopped = tokens_of(*engine, request, &finish);
  const auto first = std::ranges::find(free, free[4]);
  EXPECT_EQ(stopped, std::vector<TokenId>(free.begin(), first));
  EXPECT_EQ(finish.reason, FinishReason::stop);
}

TEST(Engine, ChoosesNoStopTokenBeforeTheLeastLength) {
  Reference reference;
  GenerationRequest request{.prompt = reference.encode(kPrompt), .sampling = greedy(), .max_tokens = 30};
  const auto engine = story_engine();
  const TokenId barred = tokens_of(*engine, request)[4];
  request.stop_tokens = {barred};
  request.min_tokens = 12;
  const std::vector<TokenId> answer = tokens_of(*engine, request);
  ASSERT_GE(answer.size(), 12u);
  EXPECT_EQ(std::ranges::find(answer, barred), answer.end());
}

TEST(Engine, ChoosesNoEndOfTextBeforeTheLeastLength) {
  Reference reference;
  GenerationRequest request{.prompt = reference.encode(kPrompt), .sampling = greedy(), .max_tokens = 40};
  request.sampling.logit_bias = {{*reference.tokenizer().eos(), 100}};
  const auto engine = story_engine();
  EXPECT_EQ(tokens_of(*engine, request).size(), 0u);
  request.min_tokens = 7;
  EXPECT_EQ(tokens_of(*engine, request).size(), 7u);
}

// By the definition: a pass for each token, the sampler over its whole row, and what it carries from token to token.
std::vector<TokenId> by_definition(Model& model, const GenerationRequest& request) {
  auto session = Session::create(model.plan(), {}).value();
  const tokenizer::Tokenizer& tokenizer = **model.tokenizer();
  SequenceBreakers breakers(request.sampling.dry.sequence_breakers);
  std::vector<TokenId> all = request.prompt, answer;
  std::vector<uint8_t> breaks;
  std::optional<double> mu;
  for (std::span<const TokenId> next = request.prompt; answer.size() < *request.max_tokens;
       next = std::span(all).last(1)) {
    for (const TokenId id : next) breaks.push_back(breakers.push(tokenizer.token_text(id)));
    const auto logits = session.evaluate(next);
    History history(all);
    history.breaks = breaks;
    history.mirostat_mu = mu;
    const double unit = random_unit(request.sampling.seed, answer.size());
    const Choice choice = *sample_whole_row(*logits, request.sampling, history, unit);
    if (tokenizer.is_end_of_text(choice.token)) break;
    mu = choice.mirostat_mu;
    all.push_back(choice.token);
    answer.push_back(choice.token);
  }
  return answer;
}

TEST(Engine, CarriesWhatASamplerRemembersFromTokenToToken) {
  const auto model = open_story();
  const auto engine = story_engine();
  GenerationRequest request{.prompt = *(*model->tokenizer())->encode(kPrompt), .sampling = {}, .max_tokens = 40};
  SamplingOptions mirostat1, mirostat2, dry, mixed;
  mirostat1.mirostat = {.version = 1, .tau = 3, .eta = 0.3f};
  mirostat2.mirostat = {.version = 2, .tau = 3, .eta = 0.3f};
  dry.temperature = 0;
  dry.dry = {.multiplier = 5, .base = 2, .allowed_length = 1};
  mixed.dry.multiplier = 1;
  mixed.top_k = 0;
  mixed.top_n_sigma = 1.5f;
  mixed.typical_p = 0.9f;
  mixed.xtc_probability = 0.5f;
  std::vector<std::vector<TokenId>> answers;
  for (const SamplingOptions& sampling : {mirostat1, mirostat2, dry, mixed}) {
    request.sampling = sampling;
    request.sampling.seed = 5;
    answers.push_back(tokens_of(*engine, request));
    EXPECT_EQ(answers.back(), by_definition(*model, request)) << answers.size();
  }
  request.sampling = greedy();
  EXPECT_NE(tokens_of(*engine, request), answers[2]) << "DRY changes a repeating text";
}

TEST(Engine, TellsTheLogprobsOfAPrompt) {
  const auto model = open_story();
  const std::vector<TokenId> prompt =
      *(*model->tokenizer())->encode(kPrompt, {.parse_special = false, .add_bos = true});
  const auto engine = story_engine({.max_running = 2, .max_step_tokens = 5});
  GenerationRequest request{.prompt = prompt, .sampling = greedy(), .max_tokens = 0, .n_prompt_logprobs = 3};
  FinishEvent finish;
  EXPECT_EQ(tokens_of(*engine, request, &finish).size(), 0u);
  EXPECT_EQ(finish.reason, FinishReason::length);
  ASSERT_EQ(finish.prompt_logprobs.size(), prompt.size() - 1) << "the first token follows nothing";
  auto session = Session::create(model->plan(), {}).value();
  for (size_t i = 0; i + 1 < prompt.size(); i++) {
    const auto logits = session.evaluate(std::span(prompt).subspan(i, 1));
    const TokenLogprobs expected = logprobs(*logits, prompt[i + 1], 3);
    const TokenLogprobs& got = finish.prompt_logprobs[i];
    EXPECT_NEAR(got.logprob, expected.logprob, 1e-3) << i;
    ASSERT_EQ(got.top.size(), 3u);
    EXPECT_EQ(got.top[0].token, expected.top[0].token) << i;
  }
}

TEST(Engine, AnswersAlikeWithAndWithoutTheLogprobsOfItsPrompt) {
  Reference reference;
  const auto engine = story_engine({.max_running = 4, .max_step_tokens = 16});
  GenerationRequest request{.prompt = reference.encode(kPrompt), .sampling = greedy(), .max_tokens = 20};
  const std::vector<TokenId> plain = tokens_of(*engine, request);
  request.n_prompt_logprobs = 0;
  FinishEvent finish;
  EXPECT_EQ(tokens_of(*engine, request, &finish), plain);
  EXPECT_EQ(finish.usage.n_cached, 0u) << "what is cached has no logits";
  EXPECT_EQ(finish.prompt_logprobs.size(), request.prompt.size() - 1);
  request.n_prompt_logprobs = kMaxLogprobs + 1;
  EXPECT_EQ(engine->submit(request, [](RequestEvent&&) {}).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace rocmforge
