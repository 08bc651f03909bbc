// What routers and monitoring read: the metrics port, vLLM's names, the status of a full queue.

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

class MetricsPortTest : public ScriptedApi {
 protected:
  void SetUp() override {
    ApiOptions options;
    options.access.keys.users = {"the-user-key"};
    options.access.cors_origins = {"*"};
    start(std::move(options));
  }
  Answer ask_port(std::string method, std::string target, std::vector<Header> headers = {}) {
    headers.push_back({"host", "localhost:9090"});
    auto exchange = std::make_shared<Exchange>(
        Request{.method = std::move(method), .target = std::move(target), .headers = std::move(headers), .body = {}});
    api_->handle(exchange, Port::metrics);
    do_work();
    return answer_of(exchange);
  }
};

TEST_F(MetricsPortTest, ProbesNeedNoKeyThere) {
  EXPECT_EQ(ask("GET", "/metrics").status, 401);
  EXPECT_EQ(ask_port("GET", "/metrics").status, 200);
  EXPECT_EQ(ask_port("HEAD", "/metrics").status, 200);
  EXPECT_EQ(ask_port("GET", "/ready").status, 200);
  EXPECT_EQ(ask_port("GET", "/health").status, 200);
  // A credential that a scraper sends along does no harm.
  EXPECT_EQ(ask_port("GET", "/metrics", {{"authorization", "Bearer wrong"}}).status, 200);
}

TEST_F(MetricsPortTest, NothingElseIsThere) {
  const std::vector<Header> key = {{"authorization", "Bearer the-user-key"}};
  for (const char* path : {"/", "/index.html", "/app.js", "/v1/models", "/v1/models/story", "/status/x", "/metrics/x",
                           "//metrics", "/metrics/../v1/models", "/%6detrics"}) {
    EXPECT_EQ(ask_port("GET", path, key).status, 404) << path;
  }
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/generate", "/models/unload", "/cancel/x", "/metrics", "/ready"}) {
    EXPECT_EQ(ask_port("POST", path, key).status, 404) << path;
    EXPECT_EQ(ask_port("OPTIONS", path, key).status, 404) << path;
  }
  EXPECT_EQ(submitted_.size(), 0u);
}

TEST_F(MetricsPortTest, HostsAndOriginsAreJudgedThereToo) {
  Request rebound{.method = "GET", .target = "/metrics", .headers = {{"host", "a.example"}}, .body = {}};
  const auto exchange = std::make_shared<Exchange>(std::move(rebound));
  api_->handle(exchange, Port::metrics);
  EXPECT_EQ(answer_of(exchange).status, 403);
  EXPECT_FALSE(ask_port("GET", "/metrics", {{"origin", "https://a.example"}}).header("Access-Control-Allow-Origin"));
}

TEST_F(MetricsPortTest, BodiesAreNotAwaitedForWhatIsRefused) {
  Request head{.method = "POST", .target = "/v1/completions", .headers = {{"host", "localhost"}}, .body = {}};
  head.headers.push_back({"authorization", "Bearer the-user-key"});
  EXPECT_TRUE(api_->judge_head(head));
  EXPECT_FALSE(api_->judge_head(head, Port::metrics));
}

TEST_F(MetricsPortTest, ReadySaysThatADrainHasBegun) {
  api_->begin_drain();
  EXPECT_EQ(ask_port("GET", "/ready").status, 503);
  EXPECT_EQ(ask_port("GET", "/metrics").status, 200);
}

TEST_F(MetricsPortTest, RoutersFindTheirGauges) {
  start({});
  const auto exchange = send("POST", "/v1/chat/completions", chat());
  send_tokens(0, {" a", " b"});
  send_finish(0);
  EngineStats& stats = *entries_[0].engine;
  stats.n_running = 2;
  stats.n_waiting = 5;
  stats.n_pages = 4;
  stats.n_pages_used = 1;
  entries_[0].counts.n_prompt_tokens = 70;
  entries_[0].counts.n_generated_tokens = 30;
  const std::string body = ask("GET", "/metrics").body;
  for (const char* line :
       {"rocmforge_kv_page_tokens{model=\"story\"} 64", "# TYPE vllm:num_requests_running gauge",
        "vllm:num_requests_running{model_name=\"story\"} 2", "vllm:num_requests_waiting{model_name=\"story\"} 5",
        "vllm:kv_cache_usage_perc{model_name=\"story\"} 0.25", "vllm:gpu_cache_usage_perc{model_name=\"story\"} 0.25",
        "# TYPE vllm:prompt_tokens_total counter", "vllm:prompt_tokens_total{model_name=\"story\"} 70",
        "vllm:generation_tokens_total{model_name=\"story\"} 30", "# TYPE vllm:time_to_first_token_seconds histogram",
        "vllm:time_to_first_token_seconds_count{model_name=\"story\"} 1",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"story\",le=\"+Inf\"} 1",
        // Ours stay as they were.
        "rocmforge_requests_running{model=\"story\"} 2",
        "rocmforge_time_to_first_token_seconds_count{model=\"story\"} 1"}) {
    EXPECT_NE(body.find(line), std::string::npos) << line << "\n" << body;
  }
}

TEST_F(MetricsPortTest, AFullQueueHasTheStatusThatWasChosen) {
  for (const int status : {429, 503}) {
    ApiOptions options;
    options.overload_status = status;
    start(std::move(options));
    refuse_with_ = ErrorCode::queue_full;
    for (const char* more : {"", R"("stream":true)"}) {
      const Answer answer = post("/v1/chat/completions", chat(more));
      EXPECT_EQ(answer.status, status);
      EXPECT_FALSE(answer.is_stream);
      ASSERT_TRUE(answer.header("Retry-After"));
      EXPECT_EQ(text(at(answer.json(), "error", "code")), "queue_full");
      EXPECT_EQ(text(at(answer.json(), "error", "type")), status == 429 ? "rate_limit_error" : "unavailable_error");
    }
  }
  EXPECT_EQ(ApiOptions{}.overload_status, 429);
}

}  // namespace
}  // namespace rocmforge::server
