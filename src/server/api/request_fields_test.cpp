// What every answer tells besides its body: refused and ignored members, foreign paths, ids, and a line in the log.

#include "server/api/request_fields.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

class AnswersTest : public ScriptedApi {};

// --- fields that are not read

TEST_F(AnswersTest, MembersThatWouldChangeTheAnswerAreRefusedByName) {
  model_->constrain_message = {};
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"tfs_z", "0.5"},
           {"dynatemp_range", "0.5"},
           {"smoothing_factor", "0.5"},
           {"samplers", R"(["top_k"])"},
           {"allowed_token_ids", "[1]"},
           {"bad_words", R"(["x"])"},
           {"use_beam_search", "true"},
           {"prediction", R"({"type":"content","content":"x"})"},
           {"guided_json", R"({"a":1})"},
           {"grammar", R"("root ::= x")"},
           {"web_search_options", R"({"search_context_size":"low"})"},
           {"skip_special_tokens", "false"},
           {"length_penalty", "2"},
           {"lora", R"([{"id":0,"scale":1}])"}}) {
    for (const char* path : {"/v1/chat/completions", "/v1/completions", "/generate"}) {
      const std::string member = "\"" + std::string(name) + "\":" + value;
      const std::string body = std::string_view(path).find("chat") != std::string_view::npos
                                   ? chat(member)
                                   : R"({"prompt":"Once",)" + member + "}";
      const Answer answer = post(path, body);
      EXPECT_EQ(answer.status, 400) << path << member;
      EXPECT_EQ(text(at(answer.json(), "error", "param")), name);
      EXPECT_EQ(text(at(answer.json(), "error", "code")), "unsupported_feature") << name;
    }
  }
  expect_refused(chat(R"("best_of":2)"), "best_of", "unsupported_feature");
  expect_refused(chat(R"("suffix":"x")"), "suffix", "unsupported_feature");
  expect_refused(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages[0].content[0].type",
                 "unsupported_feature");
  EXPECT_TRUE(submitted_.empty());
  EXPECT_EQ(post("/v1/embeddings", R"({"input":"x","truncate_prompt_tokens":5})").status, 400);
}

TEST_F(AnswersTest, MembersThatAskForNothingAreServed) {
  const Answer answer =
      post("/v1/chat/completions", chat(R"("stream":true,"mirostat":0,"mirostat_tau":5.0,"typical_p":1,
      "typical":1.0,"dry_multiplier":0.0,"dry_base":1.75,"xtc_probability":0,"xtc_threshold":0.1,"min_tokens":0,
      "stop_token_ids":[],"use_beam_search":false,"prediction":null,"guided_json":null,"grammar":"","samplers":[],
      "n_predict":-1,"top_n_sigma":-1,"best_of":1,"suffix":"","function_call":"auto","skip_special_tokens":true,
      "length_penalty":1.0,"user":"u","metadata":{"a":"b"},"store":false,"service_tier":"auto","safety_identifier":"s",
      "prompt_cache_key":"k","parallel_tool_calls":true,"reasoning_effort":"low","stream_options":{"include_usage":true},
      "seed":5,"logit_bias":{},"tools":[],"tool_choice":"auto","response_format":{"type":"text"},"n":1,"stop":null)"));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.header("X-Rocmforge-Ignored"), nullptr);
  EXPECT_EQ(submitted_.size(), 1u);
}

TEST_F(AnswersTest, MembersWithoutEffectAreNamedInAHeader) {
  const Answer stream = post("/v1/chat/completions", chat(R"("stream":true,"temprature":0.1,"foo":{"bar":1})"));
  ASSERT_EQ(stream.status, 200);
  EXPECT_EQ(*stream.header("X-Rocmforge-Ignored"), "temprature, foo");
  const Answer tokens = post("/tokenize", R"({"content":"x","prompt":"y"})");
  ASSERT_EQ(tokens.status, 200);
  EXPECT_EQ(*tokens.header("X-Rocmforge-Ignored"), "prompt") << "'content' was taken";
  std::string members;
  for (int i = 0; i < 40; i++) members += ",\"name" + std::to_string(i) + std::string(100, 'x') + "\":1";
  const Answer many = post("/tokenize", R"({"content":"x","a\r\nSet-Cookie: b,c":1,"":2)" + members + "}");
  const std::string ignored = *many.header("X-Rocmforge-Ignored");
  EXPECT_TRUE(ignored.starts_with("a??Set-Cookie:?b?c, \"\", name0x")) << ignored;
  EXPECT_TRUE(ignored.ends_with(", ...")) << ignored;
  EXPECT_LT(ignored.size(), 1024u);
}

TEST_F(AnswersTest, PathsOfOtherApisSayThatTheyAreNotOffered) {
  const Answer images = post("/v1/images/generations", "{}");
  EXPECT_EQ(images.status, 404);
  EXPECT_EQ(text(at(images.json(), "error", "code")), "api_not_offered");
  EXPECT_EQ(text(at(ask("GET", "/nothing").json(), "error", "message")), "There is nothing at this path.");
}

// --- request ids and the log

TEST_F(AnswersTest, EveryAnswerHasARequestId) {
  for (const auto& [method, path, body] : std::initializer_list<std::array<const char*, 3>>{
           {"GET", "/v1/models", ""},
           {"GET", "/", ""},
           {"OPTIONS", "/v1/models", ""},
           {"GET", "/nothing", ""},
           {"DELETE", "/v1/models", ""},
           {"POST", "/v1/chat/completions", "{"},
           {"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"stream":true})"},
           {"POST", "/api/chat", "{}"}}) {
    const Answer answer = ask(method, path, body);
    const std::string* id = answer.header("X-Request-Id");
    ASSERT_TRUE(id) << method << path;
    EXPECT_TRUE(id->starts_with("req-") && id->size() == 28) << *id;
  }
  EXPECT_TRUE(ask("GET", "/v1/models", "", {{"host", "evil.example"}}).header("X-Request-Id"));
  const auto [head, body] = api_->answer_error({400, "not HTTP"});
  EXPECT_TRUE(std::ranges::any_of(head.headers, [](const Header& h) { return h.name == "X-Request-Id"; }));
}

TEST_F(AnswersTest, AClientsOwnIdIsUsedWhenItIsFit) {
  EXPECT_EQ(*ask("GET", "/v1/models", "", {{"x-request-id", "my-Trace_1.2:3"}}).header("X-Request-Id"),
            "my-Trace_1.2:3");
  for (const std::string& id : {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\"b"),
                                std::string("\x1b[31m"), std::string("a=b")}) {
    EXPECT_NE(*ask("GET", "/v1/models", "", {{"x-request-id", id}}).header("X-Request-Id"), id);
  }
  const Answer twice = ask("GET", "/v1/models", "", {{"x-request-id", "a"}, {"x-request-id", "a"}});
  EXPECT_NE(*twice.header("X-Request-Id"), "a");
}

TEST_F(AnswersTest, TheLogHasALinePerRequest) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  const LogCapture capture([&](LogLevel level, std::string_view line) { lines.emplace_back(level, line); },
                           LogLevel::info);
  ApiOptions options;
  options.access.keys.users = {"a-users-key"};
  start(options);
  const std::vector<Header> key = {{"x-api-key", "a-users-key"}, {"x-request-id", "trace-1"}};
  {
    send("POST", "/v1/completions?secret=1", R"({"prompt":"Once","model":"story"})", key);
    EXPECT_TRUE(lines.empty()) << "it is not over";
    send_tokens(0, {" upon", " a"});
    send_finish(0, FinishReason::length);
    submitted_.clear();
    do_work();
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].first, LogLevel::info);
  const std::string& line = lines[0].second;
  for (const char* part :
       {"request id=trace-1 client=", " method=POST path=/v1/completions status=200 model=story answer=cmpl-",
        " cached_tokens=2 completion_tokens=2 queue_seconds=", " first_token_seconds=", " total_seconds=",
        " finish_reason=length"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
  EXPECT_EQ(line.find("users-key"), std::string::npos);
  EXPECT_EQ(line.find("secret"), std::string::npos);

  lines.clear();
  ask("GET", "/v1/models");
  ask("GET", "/health");
  ask("POST", "/v1/completions", R"({"prompt":"x","n":0})", key);
  refuse_with_ = ErrorCode::queue_full;
  ask("POST", "/v1/completions", R"({"prompt":"x"})", key);
  ASSERT_EQ(lines.size(), 3u) << "a probe is for debug";
  EXPECT_NE(lines[0].second.find("path=/v1/models status=401"), std::string::npos);
  EXPECT_NE(lines[1].second.find("status=400 model=story"), std::string::npos);
  EXPECT_NE(lines[1].second.find("error=\"'n' must be"), std::string::npos) << lines[1].second;
  EXPECT_NE(lines[2].second.find("status=429"), std::string::npos);
  EXPECT_EQ(lines[2].first, LogLevel::warn);
}

}  // namespace
}  // namespace rocmforge::server
