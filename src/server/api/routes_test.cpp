// The routes beside chat.

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

class RoutesTest : public ScriptedApi {};

// --- completions

TEST_F(RoutesTest, CompletionsTakeEveryFormOfPrompt) {
  for (const char* prompt : {R"("Once")", R"(["Once"])", "[5,6]", "[[5,6]]"}) {
    submitted_.clear();
    const auto exchange = send("POST", "/v1/completions", R"({"prompt":)" + std::string(prompt) + "}");
    ASSERT_EQ(submitted_.size(), 1u) << prompt;
    send_tokens(0, {" upon"});
    send_finish(0, FinishReason::length);
    const JsonValue json = answer_of(exchange).json();
    EXPECT_EQ(text(at(json, "object")), "text_completion");
    EXPECT_TRUE(text(at(json, "id")).starts_with("cmpl-"));
    EXPECT_EQ(text(at(json, "choices", 0, "text")), " upon");
    EXPECT_EQ(text(at(json, "choices", 0, "finish_reason")), "length");
    EXPECT_TRUE(at(json, "choices", 0, "logprobs").is_null());
    EXPECT_TRUE(at(json, "usage", "total_tokens").as<int64_t>());
  }
  EXPECT_EQ(submitted_[0].request.prompt, (std::vector<TokenId>{TokenId(5), TokenId(6)}));
}

TEST_F(RoutesTest, SeveralPromptsAreChoicesInOrder) {
  const auto exchange = send("POST", "/completions", R"({"prompt":["a","b"],"n":2,"seed":5,"echo":true})");
  ASSERT_EQ(submitted_.size(), 4u);
  for (size_t i = 0; i < 4; i++) {
    EXPECT_EQ(submitted_[i].request.sampling.seed, 5 + i % 2);
    submitted_[i].send(TokenEvent{.token = TokenId(5), .text = std::to_string(i)});
    send_finish(i);
  }
  const JsonValue json = answer_of(exchange).json();
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(text(at(json, "choices", i, "text")), (i < 2 ? "a" : "b") + std::to_string(i));
  }
  // Each prompt counts once, however many answers it gets.
  EXPECT_EQ(text(at(json, "usage", "prompt_tokens")), "14");
  EXPECT_EQ(text(at(json, "usage", "prompt_tokens_details", "cached_tokens")), "4");
  EXPECT_EQ(text(at(json, "usage", "completion_tokens")), "12");
}

TEST_F(RoutesTest, CompletionChunksAndEcho) {
  const auto exchange = send("POST", "/v1/completions",
                             R"({"prompt":"Once","echo":true,"stream":true,"stream_options":{"include_usage":true}})");
  send_tokens(0, {" upon"});
  send_finish(0);
  const auto events = answer_of(exchange).events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(text(at(*parse_json(events[0]), "choices", 0, "text")), "Once");
  EXPECT_EQ(text(at(*parse_json(events[1]), "object")), "text_completion");
  EXPECT_EQ(text(at(*parse_json(events[2]), "choices", 0, "finish_reason")), "stop");
  EXPECT_EQ(text(at(*parse_json(events[3]), "choices")), "[]");
  EXPECT_EQ(events[4], "[DONE]");
}

TEST_F(RoutesTest, LegacyLogprobs) {
  const auto exchange = send("POST", "/v1/completions", R"({"prompt":"x","logprobs":1})");
  EXPECT_TRUE(submitted_[0].request.sampling.want_logprobs);
  EXPECT_EQ(submitted_[0].request.sampling.n_logprobs, 1u);
  for (int32_t id : {300, 301}) {
    submitted_[0].send(TokenEvent{
        .token = TokenId(id), .text = "t", .logprobs = TokenLogprobs{.logprob = -1, .top = {{TokenId(id), -1}}}});
  }
  send_finish(0);
  const JsonValue json = answer_of(exchange).json();
  const JsonValue& logprobs = at(json, "choices", 0, "logprobs");
  const std::string first(tokenizer_->token_text(TokenId(300)));
  EXPECT_EQ(text(at(logprobs, "tokens", 0)), first);
  EXPECT_EQ(text(at(logprobs, "token_logprobs")), "[-1,-1]");
  EXPECT_EQ(text(at(logprobs, "top_logprobs", 0, first.c_str())), "-1");
  EXPECT_EQ(text(at(logprobs, "text_offset", 0)), "0");
  EXPECT_EQ(text(at(logprobs, "text_offset", 1)), std::to_string(first.size()));
}

TEST_F(RoutesTest, PromptsThatAreRefused) {
  for (const char* prompt : {"[]", "[[]]", "[-1]", "[4096]", "[2147483648]", "[1.5]", "[[1],[]]", "null", "5", "{}",
                             "true", R"([5,"x"])", R"(["x",5])", "[[[1]]]"}) {
    for (const char* path : {"/v1/completions", "/generate"}) {
      const Answer answer = post(path, R"({"prompt":)" + std::string(prompt) + "}");
      EXPECT_EQ(answer.status, 400) << path << prompt;
      EXPECT_EQ(text(at(answer.json(), "error", "param")), "prompt") << prompt;
    }
  }
  EXPECT_TRUE(submitted_.empty());
}

TEST_F(RoutesTest, CompletionsRefuseWhatTheyCannotDo) {
  for (const auto& [more, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("suffix":"s")", "suffix"},
           {R"("best_of":2)", "best_of"},
           {R"("echo":true,"logprobs":1,"stream":true)", "stream"},
           {R"("prompt_logprobs":21)", "prompt_logprobs"},
           {R"("max_tokens":0)", "max_tokens"},
           {R"("logprobs":21)", "logprobs"},
           {R"("logprobs":true)", "logprobs"},
           {R"("n":17)", "n"}}) {
    const Answer answer = post("/v1/completions", R"({"prompt":"x",)" + std::string(more) + "}");
    EXPECT_EQ(answer.status, 400) << more;
    EXPECT_EQ(text(at(answer.json(), "error", "param")), param);
  }
  std::string prompts;
  for (int i = 0; i < 65; i++) prompts += i ? ",\"x\"" : "\"x\"";
  EXPECT_EQ(post("/v1/completions", "{\"prompt\":[" + prompts + "]}").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":["a","b","c","d","e"],"n":16})").status, 400);
}

// --- embeddings

TEST_F(RoutesTest, EmbeddingsInBothEncodings) {
  for (const bool base64 : {false, true}) {
    embedded_.clear();
    const auto exchange =
        send("POST", "/v1/embeddings",
             R"({"input":["a","b"],"encoding_format":")" + std::string(base64 ? "base64" : "float") + "\"}");
    ASSERT_EQ(embedded_.size(), 2u);
    embedded_[1].second(FinishEvent{.embedding = {0, 1}});
    embedded_[0].second(FinishEvent{.embedding = {1, 0.5f}});
    do_work();
    const JsonValue json = answer_of(exchange).json();
    EXPECT_EQ(text(at(json, "object")), "list");
    EXPECT_EQ(text(at(json, "data", 0, "object")), "embedding");
    EXPECT_EQ(text(at(json, "data", 0, "index")), "0");
    EXPECT_EQ(text(at(json, "data", 0, "embedding")), base64 ? "AACAPwAAAD8=" : "[1,0.5]");
    EXPECT_EQ(text(at(json, "data", 1, "index")), "1");
    EXPECT_TRUE(at(json, "usage", "prompt_tokens").as<int64_t>());
  }
}

TEST_F(RoutesTest, EmbeddingsAreShortenedAndRenormalised) {
  const auto exchange = send("POST", "/v1/embeddings", R"({"input":[7,8],"dimensions":2,"pooling":"last"})");
  ASSERT_EQ(embedded_.size(), 1u);
  EXPECT_EQ(embedded_[0].first.tokens.size(), 2u);
  EXPECT_EQ(embedded_[0].first.pooling, Pooling::last);
  embedded_[0].second(FinishEvent{.embedding = {0.3f, 0.4f, 0.5f}});
  do_work();
  EXPECT_EQ(text(at(answer_of(exchange).json(), "data", 0, "embedding")), "[0.6,0.8]");
}

TEST_F(RoutesTest, EmbeddingsArePooledAsTheModelSaysUnlessTheRequestDoes) {
  for (const auto& [of_model, field, expected] :
       {std::tuple(Pooling::mean, "", Pooling::mean), std::tuple(Pooling::last, "", Pooling::last),
        std::tuple(Pooling::last, R"(,"pooling":"mean")", Pooling::mean),
        std::tuple(Pooling::rank, R"(,"pooling":"cls")", Pooling::first),
        std::tuple(Pooling::mean, R"(,"pooling":"last")", Pooling::last)}) {
    model_->pooling = of_model;
    embedded_.clear();
    send("POST", "/v1/embeddings", R"({"input":[7,8])" + std::string(field) + "}");
    ASSERT_EQ(embedded_.size(), 1u);
    EXPECT_EQ(embedded_[0].first.pooling, expected) << field;
  }
}

TEST_F(RoutesTest, ManyInputsGoAFewAtATime) {
  std::string inputs;
  for (int i = 0; i < 100; i++) inputs += i ? ",\"x\"" : "\"x\"";
  const auto exchange = send("POST", "/v1/embeddings", "{\"input\":[" + inputs + "]}");
  EXPECT_EQ(embedded_.size(), 64u);
  for (size_t i = 0; i < 100; i++) {
    ASSERT_LT(i, embedded_.size());
    embedded_[i].second(FinishEvent{.embedding = {1}});
    do_work();
  }
  EXPECT_EQ(at(answer_of(exchange).json(), "data").as<JsonArray>()->size(), 100u);
}

TEST_F(RoutesTest, EmbeddingsAreRefusedWhenTheirAnswerWouldBeTooLarge) {
  model_->n_embedding = 8192;
  const auto body = [](size_t n, std::string_view more = "") {
    std::string inputs;
    for (size_t i = 0; i < n; i++) inputs += i ? ",[7]" : "[7]";
    return "{\"input\":[" + inputs + "]" + std::string(more) + "}";
  };
  const Answer refused = post("/v1/embeddings", body(512));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(text(at(refused.json(), "error", "code")), "answer_too_large");
  EXPECT_EQ(text(at(refused.json(), "error", "param")), "input");
  EXPECT_TRUE(embedded_.empty()) << "before anything was computed";

  // Each of these is below the limit of one, and four of them below that of all.
  std::vector<std::shared_ptr<Exchange>> held;
  for (const std::string& one :
       {body(510), body(1300, R"(,"encoding_format":"base64")"), body(1020, R"(,"dimensions":4096)"), body(500)}) {
    held.push_back(send("POST", "/v1/embeddings", one));
  }
  EXPECT_EQ(embedded_.size(), 256u);
  const Answer busy = post("/v1/embeddings", body(510));
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(text(at(busy.json(), "error", "code")), "answers_too_large");
  held.back()->cancel();  // its client leaves
  held.pop_back();
  do_work();
  for (size_t i = 192; i < 256; i++) embedded_[i].second(FinishEvent{.reason = FinishReason::cancelled});
  embedded_.resize(192);
  const auto next = send("POST", "/v1/embeddings", body(510));
  EXPECT_EQ(embedded_.size(), 256u);
  for (size_t i = 192; i < embedded_.size(); i++) {
    std::vector<float> longest(8192, -1.23456789e-05f);
    embedded_[i].second(FinishEvent{.embedding = std::move(longest)});
    do_work();
  }
  const Answer answer = answer_of(next);
  EXPECT_EQ(answer.status, 200);
  EXPECT_LE(answer.body.size(), 64u << 20);
}

TEST_F(RoutesTest, EmbeddingsRefuseBadInput) {
  for (const char* body :
       {"{}", R"({"input":""})", R"({"input":[]})", R"({"input":[""]})", R"({"input":[[]]})", R"({"input":[-1]})",
        R"({"input":[4096]})", R"({"input":5})", R"({"input":"x","encoding_format":"int8"})",
        R"({"input":"x","dimensions":0})", R"({"input":"x","dimensions":513})", R"({"input":"x","pooling":"max"})",
        R"({"input":"x","pooling":3})"}) {
    EXPECT_EQ(post("/v1/embeddings", body).status, 400) << body;
  }
  const Answer answer = post("/v1/embeddings", R"({"input":")" + std::string(20'000, 'x') + "\"}");
  EXPECT_EQ(text(at(answer.json(), "error", "code")), "context_length_exceeded");
  EXPECT_TRUE(embedded_.empty());
}

// --- models

TEST_F(RoutesTest, ModelsAreListedWithoutTheirPaths) {
  for (const char* path : {"/v1/models", "/models", "/v1/models/", "/models?client_version=1"}) {
    const Answer answer = ask("GET", path);
    EXPECT_EQ(answer.status, 200);
    const JsonValue json = answer.json();
    EXPECT_EQ(text(at(json, "object")), "list");
    EXPECT_EQ(text(at(json, "data", 0, "id")), "story");
    EXPECT_EQ(text(at(json, "data", 0, "object")), "model");
    EXPECT_EQ(text(at(json, "data", 0, "created")), "1700000000");
    EXPECT_EQ(text(at(json, "data", 0, "owned_by")), "rocmforge");
    EXPECT_EQ(text(at(json, "data", 0, "max_model_len")), "1024");
    EXPECT_EQ(text(at(json, "data", 0, "meta", "chat_template")), "joined");
    EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  }
}

TEST_F(RoutesTest, OneModelByName) {
  for (const char* path : {"/v1/models/org/story:q4", "/v1/models/org%2Fstory%3Aq4", "/models/org/story:q4/"}) {
    EXPECT_EQ(text(at(ask("GET", path).json(), "id")), "org/story:q4") << path;
  }
  for (const char* path :
       {"/v1/models/none", "/v1/models/..", "/v1/models/%2e%2e%2fetc%2fpasswd", "/v1/models/story%00", "/v1/models/%",
        "/v1/models/%zz", "/v1/models//story", "/v1/models/STORY", "/v1/models/secret/story.gguf"}) {
    EXPECT_EQ(ask("GET", path).status, 404) << path;
    EXPECT_EQ(ask("GET", path).body.find("/secret"), std::string::npos);
  }
}

TEST_F(RoutesTest, ModelsLoadAndUnload) {
  const auto status = [&](const char* path, ModelState found) {
    entries_[0].state = found;
    return text(at(post(path, R"({"model":"story"})").json(), "status"));
  };
  EXPECT_EQ(status("/v1/models/load", ModelState::unloaded), "loading");
  EXPECT_EQ(status("/v1/models/load", ModelState::failed), "loading");
  EXPECT_EQ(status("/v1/models/load", ModelState::loading), "loading");
  EXPECT_EQ(status("/v1/models/load", ModelState::ready), "ready");
  EXPECT_EQ(status("/models/unload", ModelState::ready), "unloading");
  EXPECT_EQ(status("/models/unload", ModelState::loading), "unloading");
  EXPECT_EQ(status("/models/unload", ModelState::unloaded), "unloaded");
  EXPECT_EQ(post("/v1/models/load", R"({"model":"none"})").status, 404);
  EXPECT_EQ(post("/v1/models/load", "{}").status, 400);
}

TEST_F(RoutesTest, NamesThatLookLikePathsAreJustUnknown) {
  std::vector<std::string> payloads;
  for (const std::string base : {"..",
                                 "../..",
                                 "/etc/passwd",
                                 "..\\\\..",
                                 "....//",
                                 "%2e%2e",
                                 "C:\\\\x",
                                 "story/../../x",
                                 "~",
                                 "~root",
                                 "/dev/zero",
                                 "/proc/self/mem",
                                 "file:///etc/passwd",
                                 ".",
                                 "story.gguf",
                                 "\\u0000",
                                 "story\\u0000",
                                 "/secret/story.gguf",
                                 "models/story-q4_k_m.gguf",
                                 "\\u202e"}) {
    for (const std::string end : {"", "/x", "/../y"}) payloads.push_back(base + end);
  }
  EXPECT_GE(payloads.size(), 60u);
  for (const std::string& payload : payloads) {
    for (const char* path : {"/v1/chat/completions", "/v1/models/load", "/v1/models/unload", "/tokenize"}) {
      const Answer answer =
          post(path, R"({"content":"x","messages":[{"role":"user","content":"x"}],"model":")" + payload + "\"}");
      EXPECT_EQ(answer.status, 404) << payload;
      EXPECT_EQ(answer.body.find("/secret"), std::string::npos);
    }
  }
  EXPECT_EQ(post("/v1/chat/completions", chat("\"model\":\"" + std::string(513, 'x') + "\"")).status, 400);
}

// --- text

TEST_F(RoutesTest, TokenizeAndDetokenize) {
  const JsonValue json = post("/tokenize", R"({"content":"Once upon"})").json();
  const std::string tokens = text(at(json, "tokens"));
  EXPECT_EQ(text(at(json, "count")), std::to_string(at(json, "tokens").as<JsonArray>()->size()));
  EXPECT_EQ(text(at(post("/detokenize", "{\"tokens\":" + tokens + "}").json(), "content")), "Once upon");
  const JsonValue special = post("/v1/tokenize", R"({"prompt":"x","add_special":true,"with_pieces":true})").json();
  EXPECT_EQ(text(at(special, "tokens", 0, "id")), "1");
  EXPECT_EQ(text(at(special, "tokens", 0, "piece")), "<s>");
  EXPECT_EQ(post("/tokenize", "{}").status, 400);
  EXPECT_EQ(post("/tokenize", "{\"content\":\"" + std::string((4 << 20) + 1, 'x') + "\"}").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[-1]})").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens":"x"})").status, 400);
  EXPECT_EQ(text(at(post("/detokenize", R"({"tokens":[]})").json(), "content")), "");
}

TEST_F(RoutesTest, TemplatesAreApplied) {
  const Answer answer =
      post("/apply-template", R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]})");
  EXPECT_EQ(text(at(answer.json(), "prompt")), "ab");
  EXPECT_EQ(post("/apply-template", R"({"messages":[]})").status, 400);
}

// --- native

TEST_F(RoutesTest, GenerateGivesTokensAndText) {
  const auto exchange =
      send("POST", "/generate", R"({"prompt":"Once","max_tokens":5,"temperature":0,"top_k":1,"top_p":1,"seed":1})");
  send_tokens(0, {" upon", " a"});
  send_finish(0, FinishReason::length);
  const JsonValue json = answer_of(exchange).json();
  EXPECT_TRUE(text(at(json, "request_id")).starts_with("gen-"));
  EXPECT_EQ(text(at(json, "text")), " upon a");
  EXPECT_EQ(text(at(json, "tokens")), "[300,301]");
  EXPECT_EQ(text(at(json, "finished")), "true");
  EXPECT_EQ(text(at(json, "finish_reason")), "length");
  EXPECT_TRUE(post("/generate", R"({"prompt":"Once","stream":true})").is_stream);
}

TEST_F(RoutesTest, GenerateStreamStatusAndCancel) {
  const auto exchange = send("POST", "/generate/stream", R"({"prompt":"Once"})");
  EXPECT_EQ(answer_of(exchange).events().size(), 0u);
  submitted_[0].send(StartEvent{});
  submitted_[0].send(TokenEvent{.token = TokenId(9), .text = "x"});
  const auto first = answer_of(exchange).events();
  const JsonValue event = *parse_json(first.at(0));
  const std::string id = text(at(event, "request_id"));
  EXPECT_EQ(text(at(event, "token")), "9");
  EXPECT_EQ(text(at(event, "finished")), "false");
  EXPECT_TRUE(at(event, "finish_reason").is_null());

  const JsonValue status = ask("GET", "/status/" + id).json();
  EXPECT_EQ(text(at(status, "state")), "running");
  EXPECT_EQ(text(at(status, "generated_tokens")), "1");
  EXPECT_EQ(text(at(ask("POST", "/cancel/" + id).json(), "cancelled")), "true");
  EXPECT_TRUE(submitted_[0].is_cancelled);
  send_finish(0, FinishReason::cancelled);
  const auto last = answer_of(exchange).events();
  EXPECT_EQ(text(at(*parse_json(last.at(0)), "finish_reason")), "cancelled");
  EXPECT_EQ(text(at(*parse_json(last.at(0)), "finished")), "true");
  EXPECT_EQ(text(at(ask("GET", "/status/" + id).json(), "finish_reason")), "cancelled");
  EXPECT_EQ(text(at(ask("POST", "/cancel/" + id).json(), "cancelled")), "false");
  refuse_with_ = ErrorCode::queue_full;
  for (int i = 0; i < 300; i++) EXPECT_EQ(post("/generate", R"({"prompt":"Once"})").status, 429);
  EXPECT_EQ(ask("GET", "/status/" + id).status, 200) << "those that were refused do not crowd it out";
  EXPECT_EQ(ask("GET", "/status/none").status, 404);
  EXPECT_EQ(ask("POST", "/cancel/none").status, 404);
}

// --- the server itself

TEST_F(RoutesTest, HealthShowsProgressAndTrouble) {
  entries_[0].engine->loading.loaded_bytes = 50;
  entries_[0].engine->loading.total_bytes = 200;
  Answer answer = ask("GET", "/health");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(text(at(answer.json(), "status")), "ok");
  EXPECT_EQ(text(at(answer.json(), "models", 0, "progress")), "0.25");
  entries_[0].engine->loading.read_bytes = 250;  // streamed: never more than some of it at once
  EXPECT_EQ(text(at(ask("GET", "/health").json(), "models", 0, "progress")), "1");
  entries_[0].state = ModelState::loading;
  EXPECT_EQ(text(at(ask("GET", "/health").json(), "status")), "loading");
  EXPECT_EQ(ask("GET", "/ready").status, 503);
  entries_[0].state = ModelState::ready;
  entries_[0].engine->is_dead = true;
  EXPECT_EQ(ask("GET", "/health").status, 500);
  entries_[0].engine->is_dead = false;
}

TEST_F(RoutesTest, ADrainRefusesWorkAndReadiness) {
  EXPECT_EQ(ask("GET", "/ready").status, 200);
  api_->begin_drain();
  EXPECT_EQ(ask("GET", "/ready").status, 503);
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/v1/models").status, 200);
  const Answer answer = post("/v1/chat/completions", chat());
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.header("Retry-After"));
  EXPECT_EQ(text(at(answer.json(), "error", "type")), "unavailable_error");
}

TEST_F(RoutesTest, MetricsCountWhatHappened) {
  const auto exchange = send("POST", "/v1/chat/completions", chat());
  submitted_[0].send(StartEvent{.queue_seconds = 0.02});
  send_tokens(0, {" a", " b", " c"});
  send_finish(0);
  EXPECT_EQ(api_->answer_error({431, "the headers are too large"}).first.status, 431);
  EXPECT_EQ(api_->answer_error({503, "too many connections"}).first.status, 503);
  EXPECT_EQ(ask("GET", "/nothing").status, 404);
  entries_[0].engine->n_generated_tokens = 1;  // since the model was loaded again
  entries_[0].counts.n_generated_tokens = 3;
  entries_[0].engine->n_pages = 4;
  entries_[0].engine->n_pages_used = 1;
  const Answer answer = ask("GET", "/metrics");
  EXPECT_TRUE(answer.head.content_type.starts_with("text/plain"));
  for (const char* line :
       {"rocmforge_time_to_first_token_seconds_count{model=\"story\"} 1",
        "rocmforge_inter_token_latency_seconds_count{model=\"story\"} 2",
        "rocmforge_request_queue_seconds_count{model=\"story\"} 2",
        "rocmforge_request_seconds_count{model=\"story\"} 1", "rocmforge_generation_tokens_total{model=\"story\"} 3",
        "rocmforge_kv_cache_usage_ratio{model=\"story\"} 0.25",
        "# TYPE rocmforge_time_to_first_token_seconds histogram", "rocmforge_http_responses_ok_total 1",
        "rocmforge_http_client_errors_total 2", "rocmforge_http_server_errors_total 1"}) {
    EXPECT_NE(answer.body.find(line), std::string::npos) << line << "\n" << answer.body;
  }
}

TEST_F(RoutesTest, ThePageAndItsPartsAreServedWithTheirPolicy) {
  const Answer page = ask("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.head.content_type.starts_with("text/html"));
  EXPECT_TRUE(page.header("Content-Security-Policy"));
  const Answer again = ask("GET", "/", "", {{"if-none-match", *page.header("ETag")}});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(ask("HEAD", "/").status, 200);
  EXPECT_EQ(ask("HEAD", "/v1/models").status, 200);
}

TEST_F(RoutesTest, JsonThatIsHostileIsRefused) {
  const std::string deep_array(1'000'000, '[');
  std::string deep_object;
  for (int i = 0; i < 100'000; i++) deep_object += "{\"a\":";
  for (const std::string& body : {deep_array,
                                  "{\"messages\":" + deep_array,
                                  deep_object,
                                  std::string(),
                                  std::string("null"),
                                  std::string("\"x\""),
                                  std::string("{} x"),
                                  std::string("{\"n\":1e400}"),
                                  std::string("{\"n\":NaN}"),
                                  std::string("{\"n\":Infinity}"),
                                  std::string("{\"n\":01}"),
                                  std::string("{'n':1}"),
                                  std::string("{\"n\":1,}"),
                                  std::string("{\"a\":\"\xff\"}"),
                                  std::string("{\"a\":\"\\ud800\"}"),
                                  std::string("{\"a\":\"\n\"}"),
                                  std::string("\xef\xbb\xbf{}"),
                                  std::string("{\"a\":1}{\"b\":2}"),
                                  std::string("{\"a\"}"),
                                  std::string(1, '\0')}) {
    const Answer answer = post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400) << body.substr(0, 40);
    EXPECT_EQ(text(at(answer.json(), "error", "type")), "invalid_request_error");
  }
  std::string many = "[1";
  for (int i = 0; i < (1 << 20); i++) many += ",1";
  EXPECT_EQ(text(at(post("/detokenize", "{\"tokens\":" + many + "]}").json(), "error", "code")), "request_too_large");
  EXPECT_NE(text(at(post("/tokenize", "{\"content\":\"" + many + "\"}").json(), "count")), "(absent)")
      << "commas in a text";
  send("POST", "/v1/chat/completions", chat(R"("n":3,"n":1,"x":-0)"));  // the last of two equal keys counts
  EXPECT_EQ(submitted_.size(), 1u);
}

}  // namespace
}  // namespace rocmforge::server
