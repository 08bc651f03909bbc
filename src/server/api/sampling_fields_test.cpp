// How tokens are chosen, as clients of OpenAI, llama.cpp, vLLM and Ollama say it; and the logprobs of a prompt.

#include <algorithm>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

class SamplingFieldsTest : public ScriptedApi {
 protected:
  const GenerationRequest& submitted() { return submitted_.back().request; }
  void expect_sampling_of_llama_cpp() {
    const SamplingOptions& got = submitted().sampling;
    EXPECT_EQ(got.typical_p, 0.5f);
    EXPECT_EQ(got.top_n_sigma, 1.5f);
    EXPECT_EQ(got.xtc_probability, 0.25f);
    EXPECT_EQ(got.xtc_threshold, 0.2f);
    EXPECT_EQ(got.dry.multiplier, 0.75f);
    EXPECT_EQ(got.dry.base, 2);
    EXPECT_EQ(got.dry.allowed_length, 3);
    EXPECT_EQ(got.dry.last_n, 100);
    EXPECT_EQ(got.dry.sequence_breakers, (std::vector<std::string>{"\n", "END"}));
    EXPECT_EQ(got.mirostat.version, 2);
    EXPECT_EQ(got.mirostat.tau, 4);
    EXPECT_EQ(got.mirostat.eta, 0.25f);
  }
};

constexpr const char* kOfLlamaCpp = R"("typical_p":0.5,"top_n_sigma":1.5,"xtc_probability":0.25,"xtc_threshold":0.2,
    "dry_multiplier":0.75,"dry_base":2,"dry_allowed_length":3,"dry_penalty_last_n":100,
    "dry_sequence_breakers":["\n","END"],"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.25)";

TEST_F(SamplingFieldsTest, AreReadByTheNamesOfOtherServers) {
  post("/v1/chat/completions", chat(kOfLlamaCpp));
  ASSERT_EQ(submitted_.size(), 1u);
  expect_sampling_of_llama_cpp();
  post("/v1/completions", R"({"prompt":"x",)" + std::string(kOfLlamaCpp) + "}");
  ASSERT_EQ(submitted_.size(), 2u);
  expect_sampling_of_llama_cpp();
  post("/api/chat",
       R"({"model":"story","messages":[{"role":"user","content":"x"}],"options":{)" + std::string(kOfLlamaCpp) + "}}");
  ASSERT_EQ(submitted_.size(), 3u);
  expect_sampling_of_llama_cpp();
}

TEST_F(SamplingFieldsTest, LengthAndStopTokensAreRead) {
  post("/v1/chat/completions", chat(R"("min_tokens":4,"stop_token_ids":[7,9],"n_predict":20)"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(submitted().min_tokens, 4u);
  EXPECT_EQ(submitted().stop_tokens, (std::vector<TokenId>{TokenId(7), TokenId(9)}));
  EXPECT_EQ(submitted().max_tokens, 20u);
  post("/v1/chat/completions", chat(R"("n_predict":-1,"stop_token_ids":[],"top_n_sigma":-1)"));
  EXPECT_EQ(submitted().max_tokens, std::nullopt);
  EXPECT_EQ(submitted().sampling.top_n_sigma, 0);
  post("/v1/chat/completions", chat(R"("n_predict":5,"max_tokens":6)"));
  EXPECT_EQ(submitted().max_tokens, 6u);
}

TEST_F(SamplingFieldsTest, OutsideTheirRangeAreRefusedByName) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"mirostat", "3"},
                                                                  {"mirostat_eta", "2"},
                                                                  {"typical_p", "1.5"},
                                                                  {"top_n_sigma", "-2"},
                                                                  {"xtc_probability", "\"often\""},
                                                                  {"dry_base", "0.5"},
                                                                  {"dry_allowed_length", "-1"},
                                                                  {"dry_sequence_breakers", R"("\n")"},
                                                                  {"dry_sequence_breakers", "[1]"},
                                                                  {"stop_token_ids", "[-1]"},
                                                                  {"stop_token_ids", "[99999999]"},
                                                                  {"min_tokens", "-1"},
                                                                  {"n_predict", "0"}}) {
    expect_refused(chat("\"" + std::string(name) + "\":" + value), name);
  }
}

TEST_F(SamplingFieldsTest, DefaultsAreTheServersOwn) {
  ApiOptions options;
  options.sampling.temperature = 0.25f;
  options.sampling.dry.multiplier = 2;
  start(options);
  post("/v1/chat/completions", chat(R"("top_p":0.5)"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(submitted().sampling.temperature, 0.25f);
  EXPECT_EQ(submitted().sampling.top_p, 0.5f);
  EXPECT_EQ(submitted().sampling.dry.multiplier, 2);
  post("/v1/chat/completions", chat(R"("temperature":0,"seed":1)"));
  EXPECT_EQ(submitted().sampling.temperature, 0);
}

// --- logprobs of the prompt

class PromptLogprobsTest : public SamplingFieldsTest {
 protected:
  // The end of an answer to a prompt of three tokens.
  void finish(size_t request, FinishReason reason = FinishReason::length) {
    submitted_[request].send(FinishEvent{.reason = reason,
                                         .usage = {.n_prompt = 3},
                                         .prompt_logprobs = {{.logprob = -1, .top = {{TokenId(500), -0.5f}}},
                                                             {.logprob = -2, .top = {{TokenId(400), -2}}}}});
    do_work();
  }
};

TEST_F(PromptLogprobsTest, AnEchoWithLogprobsScoresThePrompt) {
  const auto exchange =
      send("POST", "/v1/completions", R"({"prompt":[300,400,410],"echo":true,"logprobs":1,"max_tokens":1})");
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(submitted().n_prompt_logprobs, 1u);
  EXPECT_EQ(submitted().max_tokens, 1u);
  submitted_[0].send(StartEvent{});
  submitted_[0].send(TokenEvent{.token = TokenId(420), .text = "x", .logprobs = TokenLogprobs{.logprob = -3}});
  finish(0);
  const JsonValue json = answer_of(exchange).json();
  const JsonValue& logprobs = at(json, "choices", 0, "logprobs");
  ASSERT_TRUE(at(logprobs, "tokens").as<JsonArray>());
  EXPECT_EQ(at(logprobs, "tokens").as<JsonArray>()->size(), 4u);
  EXPECT_TRUE(at(logprobs, "token_logprobs", 0).is_null()) << "the first token follows nothing";
  EXPECT_EQ(text(at(logprobs, "token_logprobs", 1)), "-1");
  EXPECT_EQ(text(at(logprobs, "token_logprobs", 2)), "-2");
  EXPECT_EQ(text(at(logprobs, "token_logprobs", 3)), "-3");
  EXPECT_TRUE(at(logprobs, "top_logprobs", 0).is_null());
  EXPECT_EQ(at(logprobs, "top_logprobs", 1).as<JsonObject>()->size(), 1u);
  const std::string echoed = *tokenizer_->decode(std::vector<TokenId>{TokenId(300), TokenId(400), TokenId(410)});
  EXPECT_EQ(text(at(json, "choices", 0, "text")), echoed + "x");
  size_t n_before = 0;  // the decoder leaves the first space out
  for (const int32_t id : {300, 400, 410}) n_before += tokenizer_->token_text(TokenId(id)).size();
  EXPECT_EQ(text(at(logprobs, "text_offset", 3)), std::to_string(n_before)) << "the story's texts are ASCII";
}

TEST_F(PromptLogprobsTest, NothingNeedsToBeGenerated) {
  const auto exchange =
      send("POST", "/v1/completions", R"({"prompt":[300,400,410],"echo":true,"logprobs":0,"max_tokens":0})");
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(submitted().max_tokens, 0u);
  finish(0);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(at(json, "choices", 0, "logprobs", "tokens").as<JsonArray>()->size(), 3u);
  EXPECT_EQ(text(at(json, "choices", 0, "finish_reason")), "length");
}

TEST_F(PromptLogprobsTest, AreWrittenAsVllmWritesThem) {
  const auto exchange =
      send("POST", "/v1/completions", R"({"prompt":[300,400,410],"prompt_logprobs":1,"max_tokens":1})");
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_FALSE(submitted().sampling.want_logprobs);
  finish(0);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_TRUE(at(json, "choices", 0, "logprobs").is_null());
  const JsonValue& told = at(json, "choices", 0, "prompt_logprobs");
  EXPECT_TRUE(at(told, 0).is_null());
  EXPECT_EQ(text(at(told, 1, "400", "logprob")), "-1");
  EXPECT_EQ(text(at(told, 1, "500", "logprob")), "-0.5");
  EXPECT_EQ(text(at(told, 2, "410", "logprob")), "-2");
  EXPECT_EQ(text(at(told, 2, "400", "logprob")), "-2");
}

}  // namespace
}  // namespace rocmforge::server
