// Ollama's API: lines, names of models, and what clients send.

#include <fmt/core.h>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

constexpr const char* kChat = "/api/chat";
const std::string kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","description":"d","parameters":{"type":"object",)"
    R"("properties":{"city":{"type":"string"}},"required":["city"]}}},{"type":"function","function":{"name":"now"}}])";

class OllamaTest : public testing::ScriptedApi {
 protected:
  static std::string body(std::string_view more = "") {
    return R"({"model":"story","messages":[{"role":"user","content":"Once upon a time"}])" +
           (more.empty() ? "" : "," + std::string(more)) + "}";
  }
  std::string prompt_of(size_t request) { return *tokenizer_->decode(submitted_[request].request.prompt, true); }
  Answer answered(const char* path, const std::string& request, std::initializer_list<const char*> tokens,
                  FinishReason reason = FinishReason::stop) {
    const auto exchange = send("POST", path, request);
    EXPECT_EQ(submitted_.size(), n_ + 1) << answer_of(exchange).body;
    if (submitted_.size() != n_ + 1) return {};
    send_tokens(n_, tokens);
    send_finish(n_++, reason);
    return answer_of(exchange);
  }
  // The objects of a stream: one a line, done in the last and nowhere else.
  static std::vector<JsonValue> lines(const Answer& answer) {
    EXPECT_EQ(answer.head.content_type, "application/x-ndjson");
    std::vector<JsonValue> out;
    for (size_t at_byte = 0; at_byte < answer.body.size();) {
      const size_t end = answer.body.find('\n', at_byte);
      EXPECT_NE(end, std::string::npos);
      const auto parsed = parse_json(answer.body.substr(at_byte, end - at_byte));
      EXPECT_TRUE(parsed.ok()) << answer.body;
      if (!parsed.ok() || end == std::string::npos) return out;
      out.push_back(*parsed);
      at_byte = end + 1;
    }
    for (const JsonValue& line : out) EXPECT_EQ(text(at(line, "done")) == "true", &line == &out.back());
    return out;
  }
  size_t n_ = 0;
};

TEST_F(OllamaTest, AStreamIsTheDefaultAndSaysWhatTheWholeAnswerSays) {
  const std::initializer_list<const char*> tokens = {
      "<think>Hm.</think>", "I ", "look.",
      "<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":", "\"Bern\"}}</tool_call>"};
  const auto streamed = lines(answered(kChat, body(kTools), tokens));
  std::string content, thinking, calls;
  for (const JsonValue& line : streamed) {
    EXPECT_EQ(text(at(line, "model")), "story");
    EXPECT_EQ(text(at(line, "message", "role")), "assistant");
    content += text(at(line, "message", "content"));
    if (at(line, "message").find("thinking")) thinking += text(at(line, "message", "thinking"));
    if (at(line, "message").find("tool_calls")) calls += text(at(line, "message", "tool_calls", 0, "function"));
  }
  const JsonValue whole = answered(kChat, body(kTools + R"(,"stream":false)"), tokens).json();
  EXPECT_EQ(text(at(whole, "message", "content")), content);
  EXPECT_EQ(text(at(whole, "message", "thinking")), thinking);
  EXPECT_EQ(text(at(whole, "message", "tool_calls", 0, "function")), calls);
  EXPECT_EQ(calls, R"({"index":0,"name":"get_weather","arguments":{"city":"Bern"}})");
  for (const JsonValue& last : {streamed.back(), whole}) {
    EXPECT_EQ(text(at(last, "done_reason")), "stop");
    EXPECT_EQ(text(at(last, "prompt_eval_count")), "7");
    EXPECT_EQ(text(at(last, "eval_count")), "3");
    EXPECT_EQ(text(at(last, "prompt_eval_duration")), "20000000");
    EXPECT_EQ(text(at(last, "eval_duration")), "500000000");
    EXPECT_EQ(text(at(last, "total_duration")), "520000000");
  }
}

TEST_F(OllamaTest, AnAnswerThatIsCutSaysSo) {
  EXPECT_EQ(text(at(lines(answered(kChat, body(), {" a"}, FinishReason::length)).back(), "done_reason")), "length");
  const auto cut = lines(answered(kChat, body(kTools), {"<tool_call>{\"name\":\"now\",\"argu"}, FinishReason::length));
  EXPECT_EQ(text(at(cut.back(), "done")), "true");
}

TEST_F(OllamaTest, AFailureInAStreamIsItsLastLine) {
  const auto exchange = send("POST", kChat, body());
  send_tokens(0, {" a"});
  submitted_[0].send(FinishEvent{.reason = FinishReason::error, .error = Error{ErrorCode::device_failed, "secret"}});
  const Answer answer = answer_of(exchange);
  EXPECT_TRUE(answer.body.ends_with("\n"));
  const std::string last = answer.body.substr(answer.body.rfind('\n', answer.body.size() - 2) + 1);
  EXPECT_TRUE(last.starts_with(R"({"error":")")) << answer.body;
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
}

TEST_F(OllamaTest, NamesGoWithAndWithoutATag) {
  for (const char* name : {"story", "story:latest", "org/story:q4"}) {
    EXPECT_EQ(post("/api/show", fmt::format(R"({{"model":"{}"}})", name)).status, 200) << name;
    EXPECT_EQ(post("/api/show", fmt::format(R"({{"name":"{}"}})", name)).status, 200) << name;
    answered(kChat, fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"x"}}]}})", name), {" y"});
  }
  const Answer none = post(kChat, R"({"model":"story:q8","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(none.status, 404);
  EXPECT_NE(text(at(none.json(), "error")), "(absent)");
}

TEST_F(OllamaTest, ModelsAreListed) {
  const JsonValue tags = ask("GET", "/api/tags").json();
  EXPECT_EQ(text(at(tags, "models", 0, "name")), "story:latest");
  EXPECT_EQ(text(at(tags, "models", 1, "name")), "org/story:q4");
  EXPECT_EQ(text(at(tags, "models", 0, "modified_at")), "2023-11-14T22:13:20Z");
  EXPECT_EQ(text(at(tags, "models", 0, "details", "family")), "llama");
  EXPECT_EQ(text(at(tags, "models", 0, "digest")).size(), 64u);
  const JsonValue ps = ask("GET", "/api/ps").json();
  EXPECT_EQ(at(ps, "models").as<JsonArray>()->size(), 1u) << "those that are loaded";
  EXPECT_NE(text(at(ask("GET", "/api/version").json(), "version")), "(absent)");
  const JsonValue shown = post("/api/show", R"({"model":"story"})").json();
  EXPECT_EQ(text(at(shown, "model_info", "llama.context_length")), "1024");
  EXPECT_EQ(text(at(shown, "capabilities", 0)), "completion");
}

TEST_F(OllamaTest, ShowsWhatAModelCan) {
  const auto capabilities = [&](const char* model) {
    return text(at(post("/api/show", fmt::format(R"({{"model":"{}"}})", model)).json(), "capabilities"));
  };
  EXPECT_EQ(capabilities("story"), R"(["completion","embedding"])");
  const auto thinks = chat::ChatTemplate::load(
      file_->metadata(), {.bos = "<s>", .eos = "</s>", .contains = [](std::string_view) { return false; }},
      {.text =
           "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if enable_thinking %}<think>{% endif %}",
       .name = {}});
  ASSERT_TRUE(thinks.ok());
  model_->chat_template = &*thinks;
  entries_[0].facts->chat_template = "roles";
  EXPECT_EQ(capabilities("story"), R"(["completion","tools","thinking","embedding"])");
  for (const char* encoder : {"bert", "jina-bert-v2", "gemma-embedding", "llama-embed", "t5encoder"}) {
    entries_[0].facts->architecture = encoder;
    EXPECT_EQ(capabilities("story"), R"(["embedding"])") << encoder;
  }
  entries_[0].state = ModelState::unloaded;  // what the file's header says
  EXPECT_EQ(capabilities("story"), R"(["embedding"])");
}

TEST_F(OllamaTest, WhatChangesModelsIsNotDone) {
  for (const auto& [method, path] :
       std::initializer_list<std::pair<const char*, const char*>>{{"POST", "/api/pull"},
                                                                  {"POST", "/api/push"},
                                                                  {"POST", "/api/create"},
                                                                  {"POST", "/api/copy"},
                                                                  {"DELETE", "/api/delete"}}) {
    const Answer answer = ask(method, path, R"({"model":"x"})");
    EXPECT_EQ(answer.status, 501) << path;
    EXPECT_NE(text(at(answer.json(), "error")), "(absent)");
  }
}

TEST_F(OllamaTest, GenerateTakesAPromptWithOrWithoutTheTemplate) {
  const auto streamed =
      lines(answered("/api/generate", R"({"model":"story","prompt":"Once","system":"Sys."})", {" upon"}));
  EXPECT_EQ(text(at(streamed[0], "response")), " upon");
  EXPECT_NE(prompt_of(0).find("Sys."), std::string::npos);
  const JsonValue raw =
      answered("/api/generate", R"({"model":"story","prompt":"<s>Once","raw":true,"stream":false})", {" <think>"})
          .json();
  EXPECT_EQ(text(at(raw, "response")), " <think>");
  EXPECT_EQ(submitted_[1].request.prompt.size(), tokenizer_->encode("<s>Once", {.parse_special = true})->size());
}

TEST_F(OllamaTest, WithoutAPromptModelsAreLoadedAndUnloaded) {
  for (const char* path : {"/api/chat", "/api/generate"}) {
    EXPECT_EQ(text(at(post(path, R"({"model":"story"})").json(), "done_reason")), "load");
    EXPECT_EQ(text(at(post(path, R"({"model":"story","keep_alive":0})").json(), "done_reason")), "unload");
  }
  EXPECT_EQ(submitted_.size(), 0u);
}

TEST_F(OllamaTest, KeepAliveIsKeptForTheModel) {
  using namespace std::chrono_literals;
  for (const auto& [value, expected] :
       std::initializer_list<std::pair<const char*, Duration>>{{"90", 90s},
                                                               {"0.5", 500ms},
                                                               {"-1", Duration::max()},
                                                               {"\"-1\"", Duration::max()},
                                                               {"\"-1m\"", Duration::max()},
                                                               {"\"5m\"", 5min},
                                                               {"\"1h30m\"", 90min},
                                                               {"\"300ms\"", 300ms},
                                                               {"\"24h\"", 24h},
                                                               {"1e12", Duration::max()}}) {
    kept_.clear();
    post(kChat, R"({"model":"story","keep_alive":)" + std::string(value) + "}");
    ASSERT_EQ(kept_.size(), 1u) << value;
    EXPECT_EQ(kept_[0].first, "story");
    EXPECT_EQ(kept_[0].second, expected) << value;
  }
  for (const char* bad : {"\"soon\"", "\"5x\"", "\"\"", "\"1m30\"", "true", "\"-\"", "\"nan\"", "\"infs\""}) {
    EXPECT_EQ(post(kChat, R"({"model":"story","keep_alive":)" + std::string(bad) + "}").status, 400) << bad;
  }
}

TEST_F(OllamaTest, OnlyAdminsSayHowLongModelsStay) {
  const std::string user = "a-key-of-a-user", admin = "a-key-of-an-admin";
  ApiOptions options;
  options.access.keys = {.users = {user, admin}, .admins = {admin}};
  start(options);
  const auto ask_as = [&](const std::string& key, const std::string& request) {
    return ask("POST", kChat, request, {{"authorization", "Bearer " + key}});
  };
  const std::string unload = R"({"model":"story","keep_alive":0})";
  const std::string load = R"({"model":"story","keep_alive":"5m"})";
  const Answer refused = ask_as(user, unload);
  EXPECT_EQ(refused.status, 403) << refused.body;
  EXPECT_EQ(n_unloads_, 0);
  const Answer loaded = ask_as(user, load);
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(*loaded.header("X-Rocmforge-Ignored"), "keep_alive");
  for (const char* time : {"0", "\"1s\"", "-1"}) {
    send("POST", kChat, body(R"("stream":false,"keep_alive":)" + std::string(time)),
         {{"authorization", "Bearer " + user}});
  }
  EXPECT_EQ(submitted_.size(), 3u);
  EXPECT_TRUE(kept_.empty());
  EXPECT_EQ(n_unloads_, 0);
  EXPECT_EQ(ask_as(admin, load).status, 200);
  EXPECT_EQ(kept_.size(), 1u);
  EXPECT_EQ(ask_as(admin, unload).status, 200);
  EXPECT_EQ(n_unloads_, 1);
}

TEST_F(OllamaTest, OptionsAreReadAndTheOthersNamed) {
  const Answer answer = answered(
      kChat,
      body(R"("stream":false,"keep_alive":"5m","extra":1,"options":{"num_predict":5,"temperature":0.5,"seed":7,)"
           R"("stop":["x"],"num_ctx":4096,"num_gpu":99,"top_k":3,"foo":1})"),
      {" a"});
  const GenerationRequest& request = submitted_[0].request;
  EXPECT_EQ(*request.max_tokens, 5u);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.seed, 7u);
  EXPECT_EQ(request.sampling.top_k, 3u);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(*answer.header("X-Rocmforge-Ignored"), "options.foo, extra");
}

TEST_F(OllamaTest, CallsComeBackAsObjectsWithoutIds) {
  answered(kChat,
           R"({"model":"story","messages":[{"role":"user","content":"Weather?"},
    {"role":"assistant","content":"","thinking":"Hm.","tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Bern"}}},
      {"function":{"name":"now","arguments":{}}}]},
    {"role":"tool","tool_name":"get_weather","content":"sunny"},{"role":"tool","content":"noon"}],)" +
               kTools + "}",
           {" ok"});
  const std::string prompt = prompt_of(0);
  for (const char* part : {"Weather?", "Bern", "sunny", "noon"})
    EXPECT_NE(prompt.find(part), std::string::npos) << prompt;
}

TEST_F(OllamaTest, ErrorsAreTexts) {
  const std::pair<std::string, const char*> kCases[] = {
      {body(R"("stream":7)"), "stream"},
      {body(R"("think":"very")"), "think"},
      {body(R"("format":7)"), "format"},
      {body(R"("options":7)"), "options"},
      {body(R"("options":{"temperature":"hot"})"), "temperature"},
      {R"({"messages":7})", "messages"},
      {R"({"messages":[{"role":"user","content":"x","images":["x"]}]})", "messages[0].images"},
      {R"({"messages":[{"role":"king","content":"x"}]})", "messages[0].role"},
  };
  for (const auto& [request, name] : kCases) {
    const Answer answer = post(kChat, request);
    EXPECT_EQ(answer.status, 400) << request;
    const JsonValue json = answer.json();
    const auto* said = at(json, "error").as<std::string>();
    ASSERT_TRUE(said) << answer.body;
    EXPECT_NE(said->find(name), std::string::npos) << *said;
  }
  EXPECT_EQ(post("/api/generate", R"({"prompt":"x","template":"y"})").status, 400);
  EXPECT_EQ(ask("GET", "/api/chat").status, 405);
  EXPECT_EQ(ask("GET", "/api/nothing").status, 404);
}

TEST_F(OllamaTest, EmbeddingsComeFromTheSamePlace) {
  const auto exchange = send("POST", "/api/embed", R"({"model":"story:latest","input":["a","b"]})");
  ASSERT_EQ(embedded_.size(), 2u);
  for (size_t i = 0; i < 2; i++) {
    embedded_[i].second(FinishEvent{.embedding = {static_cast<float>(i), 1}});
    do_work();
  }
  const JsonValue json = answer_of(exchange).json();
  EXPECT_EQ(text(at(json, "embeddings")), "[[0,1],[1,1]]");
  const auto old = send("POST", "/api/embeddings", R"({"model":"story","prompt":"a"})");
  embedded_[2].second(FinishEvent{.embedding = {1, 0}});
  do_work();
  EXPECT_EQ(text(at(answer_of(old).json(), "embedding")), "[1,0]");
  const Answer refused = post("/api/embed", R"({"model":"story"})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(at(refused.json(), "error").as<std::string>());
}

TEST_F(OllamaTest, AClientIsGreetedAtTheRoot) {
  EXPECT_EQ(ask("HEAD", "/").status, 200);
}

}  // namespace
}  // namespace rocmforge::server
