// What a request may make the server hold or do: counted, bounded, and given back.

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

class HeldBytesTest : public testing::ScriptedApi {};

TEST_F(HeldBytesTest, HealthIsNotOkWhileAnEngineOrAWorkerIsStuck) {
  TimePoint now = system_clock()();
  WorkerStats workers;
  ApiOptions options;
  options.clock = [&] { return now; };
  options.http_stats = [&] { return HttpStats{.workers = workers}; };
  start(options);
  const auto status = [&] {
    const Answer answer = ask("GET", "/health");
    return std::to_string(answer.status) + " " + text(at(answer.json(), "status"));
  };
  entries_[0].engine->n_waiting = 1;
  entries_[0].engine->last_progress = now;
  now += options.stuck_after;
  EXPECT_EQ(status(), "200 ok");
  now += std::chrono::seconds(1);
  EXPECT_EQ(status(), "503 stuck");
  entries_[0].engine->loading.read_bytes = 100;  // a slow disk
  EXPECT_EQ(status(), "200 ok");
  now += options.stuck_after + std::chrono::seconds(1);
  EXPECT_EQ(status(), "503 stuck");
  entries_[0].engine->n_waiting = 0;
  EXPECT_EQ(status(), "200 ok");
  workers.longest = std::chrono::seconds(30);
  EXPECT_EQ(status(), "200 ok");
  workers.longest = std::chrono::seconds(31);
  EXPECT_EQ(status(), "503 stuck");
}

TEST_F(HeldBytesTest, AModelThatFailedIsShownAsFailedWithItsReason) {
  start({});
  entries_[0].state = ModelState::failed;
  entries_[0].error = Error{ErrorCode::file_changed, "gguf: the file has changed"};
  const Answer health = ask("GET", "/health"), models = ask("GET", "/v1/models");
  EXPECT_EQ(text(at(health.json(), "models", 0, "state")), "failed");
  EXPECT_EQ(text(at(health.json(), "models", 0, "error")), "file_changed");
  EXPECT_EQ(text(at(models.json(), "data", 0, "state")), "failed");
  EXPECT_EQ(text(at(models.json(), "data", 0, "error")), "file_changed");
}

TEST_F(HeldBytesTest, AnAnswerOfLogprobsIsBoundedBeforeItIsComputed) {
  model_->n_context = 8192;
  const std::string large = R"({"prompt":"Once","n":16,"logprobs":20})";
  const Answer refused = post("/v1/completions", large);
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_EQ(text(at(refused.json(), "error", "code")), "answer_too_large");
  EXPECT_TRUE(submitted_.empty());
  send("POST", "/v1/completions", R"({"prompt":"Once","n":16,"logprobs":20,"stream":true})");
  EXPECT_EQ(submitted_.size(), 16u) << "a stream is held nowhere";
  std::vector<std::shared_ptr<Exchange>> held;
  const std::string half = R"({"prompt":"Once","n":4,"logprobs":20,"max_tokens":8000})";
  for (int i = 0; i < 3; i++) held.push_back(send("POST", "/v1/completions", half));
  const size_t n_before = submitted_.size();
  held.push_back(send("POST", "/v1/completions", half));
  held.push_back(send("POST", "/v1/completions", half));
  EXPECT_EQ(answer_of(held.back()).status, 503);
  EXPECT_LE(submitted_.size(), n_before + 4);
}

TEST_F(HeldBytesTest, TokensLongerThanUsualAreCountedAsTheyCome) {
  ApiOptions options;
  options.max_answer_bytes = 1000;
  start(options);
  const auto exchange = send("POST", "/v1/completions", R"({"prompt":"Once","max_tokens":100})");
  ASSERT_EQ(submitted_.size(), 1u);
  for (int i = 0; i < 9; i++) submitted_[0].send(TokenEvent{.token = TokenId(300), .text = std::string(100, 'a')});
  EXPECT_EQ(answer_of(exchange).status, 0);
  for (int i = 0; i < 2; i++) submitted_[0].send(TokenEvent{.token = TokenId(300), .text = std::string(100, 'a')});
  EXPECT_EQ(text(at(answer_of(exchange).json(), "error", "code")), "answer_too_large");
  EXPECT_TRUE(submitted_[0].is_cancelled);
}

TEST_F(HeldBytesTest, TokenizedTextIsBoundedBeforeItIsWritten) {
  const std::string many(4 << 20, '<');
  const Answer answer = post("/tokenize", R"({"with_pieces":true,"content":")" + many + "\"}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(text(at(answer.json(), "error", "code")), "answer_too_large");
}

TEST_F(HeldBytesTest, AnswersCountUntilTheyAreSent) {
  ApiOptions options;
  options.max_bytes_of_answers = 8'000;
  start(options);
  const std::string body = R"({"content":")" + std::string(800, '<') + "\"}";
  auto unread = send("POST", "/tokenize", body);
  EXPECT_EQ(post("/tokenize", body).status, 503);
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(answer_of(unread).status, 200);
  unread.reset();
  EXPECT_EQ(post("/tokenize", body).status, 200);
}

TEST_F(HeldBytesTest, WorkOfClientsThatLeftIsDropped) {
  is_ready_ = false;
  const auto exchange = send("POST", "/v1/completions", R"({"prompt":"Once"})");
  ASSERT_EQ(waiting_.size(), 1u);
  exchange->cancel();
  do_work();
  EXPECT_EQ(exchange.use_count(), 1) << "the request is still held";
  waiting_[0](ModelRef(model_));
  do_work();
  EXPECT_TRUE(submitted_.empty());
  is_ready_ = true;
  Request request{.method = "POST", .target = "/v1/completions", .headers = {{"host", "localhost"}}, .body = "{}"};
  const auto queued = std::make_shared<Exchange>(std::move(request));
  api_->handle(queued);
  queued->cancel();
  do_work();
  EXPECT_EQ(answer_of(queued).status, 0) << "its body was read";
}

TEST_F(HeldBytesTest, ParsedRequestsAreBounded) {
  ApiOptions options;
  options.max_parsed_bytes = 100'000;
  options.max_bytes_of_parsed = 150'000;
  start(options);
  std::string numbers = "1";
  for (int i = 0; i < 3000; i++) numbers += ",1";
  const Answer large = post("/v1/completions", "{\"prompt\":\"a\",\"x\":[" + numbers + "]}");
  EXPECT_EQ(large.status, 400);
  EXPECT_EQ(text(at(large.json(), "error", "code")), "request_too_large");
  is_ready_ = false;
  const std::string half = "{\"prompt\":\"a\",\"x\":[" + numbers.substr(0, 4000) + "1]}";
  const auto first = send("POST", "/v1/completions", half);
  const Answer second = post("/v1/completions", half);
  EXPECT_EQ(second.status, 503) << second.body;
  waiting_.clear();
  EXPECT_EQ(answer_of(send("POST", "/v1/completions", half)).status, 0);
}

// An item may hold more than the model reads of it.
std::string item_of(size_t n_bytes) {
  return R"({"id":"msg_a","role":"user","content":"Once","x":")" + std::string(n_bytes, 'a') + "\"}";
}

TEST_F(HeldBytesTest, ItemsThatARequestBringsBackAreCountedEachTime) {
  ApiOptions options;
  options.max_parsed_bytes = 400'000;
  start(options);
  send("POST", "/v1/responses", R"({"input":[)" + item_of(20'000) + "]}");
  ASSERT_EQ(submitted_.size(), 1u);
  send_tokens(0, {" a"});
  send_finish(0);
  const auto referring = [](int n) {
    std::string items = R"({"id":"msg_a"})";
    for (int i = 1; i < n; i++) items += R"(,{"type":"item_reference","id":"msg_a"})";
    return R"({"input":[)" + items + "]}";
  };
  send("POST", "/v1/responses", referring(3));
  EXPECT_EQ(submitted_.size(), 2u);
  const Answer refused = post("/v1/responses", referring(10));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(text(at(refused.json(), "error", "code")), "request_too_large");
  EXPECT_EQ(submitted_.size(), 2u);
}

TEST_F(HeldBytesTest, ARequestCountsUntilItsAnswerNeedsItNoMore) {
  ApiOptions options;
  for (const std::string& more :
       {std::string(), R"(,"store":false,"metadata":{"a":")" + std::string(20'000, 'a') + "\"}"}) {
    options.max_bytes_of_parsed = 30'000 + more.size();
    start(options);
    submitted_.clear();
    const std::string body = R"({"input":[)" + item_of(20'000) + "]" + more + "}";
    const auto running = send("POST", "/v1/responses", body);
    ASSERT_EQ(submitted_.size(), 1u) << more.size();
    EXPECT_EQ(post("/v1/responses", body).status, 503) << "the first one still holds its input";
    send_tokens(0, {" a"});
    send_finish(0);
    EXPECT_EQ(answer_of(running).status, 200);
    submitted_.clear();  // with its receivers
    send("POST", "/v1/responses", body);
    EXPECT_EQ(submitted_.size(), 1u);
  }
}

TEST_F(HeldBytesTest, TextsToEmbedCountUntilTheyAreBack) {
  ApiOptions options;
  options.max_bytes_of_parsed = 2'000;
  start(options);
  const std::string body = R"({"input":[")" + std::string(1000, 'a') + R"(","b"]})";
  const auto running = send("POST", "/v1/embeddings", body);
  ASSERT_EQ(embedded_.size(), 2u);
  EXPECT_EQ(post("/v1/embeddings", body).status, 503);
  for (auto& [request, send_event] : embedded_) {
    send_event(FinishEvent{.embedding = std::vector<float>(512, 1.0f)});
    do_work();
  }
  EXPECT_EQ(answer_of(running).status, 200);
  embedded_.clear();
  send("POST", "/v1/embeddings", body);
  EXPECT_EQ(embedded_.size(), 2u);
}

TEST_F(HeldBytesTest, AFullQueueOfWorkIsSaid) {
  is_queue_full_ = true;
  const Answer answer = post("/v1/completions", R"({"prompt":"Once"})");
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.header("Retry-After"));
  EXPECT_EQ(ask("GET", "/health").status, 200);
}

TEST_F(HeldBytesTest, ARequestIsJudgedByItsHead) {
  ApiOptions options;
  options.access.keys.users = {"sesame-open"};
  start(options);
  const auto judged = [&](std::string method, std::string target, std::vector<Header> headers) {
    headers.push_back({"host", "localhost"});
    return api_->judge_head(
        {.method = std::move(method), .target = std::move(target), .headers = std::move(headers), .body = {}});
  };
  const Header key{"authorization", "Bearer sesame-open"};
  EXPECT_FALSE(judged("POST", "/v1/completions", {}));
  EXPECT_FALSE(judged("POST", "/v1/nothing", {key}));
  EXPECT_FALSE(judged("PUT", "/v1/completions", {key}));
  EXPECT_FALSE(judged("POST", "/v1/completions", {key, {"origin", "http://evil"}}));
  EXPECT_FALSE(api_->judge_head(
      {.method = "POST", .target = "/v1/completions", .headers = {key, {"host", "evil"}}, .body = {}}));
  EXPECT_EQ(judged("POST", "/v1/completions", {key}), SIZE_MAX);
  EXPECT_LE(judged("GET", "/health", {}).value(), 4096u);
  EXPECT_LE(judged("OPTIONS", "/v1/completions", {}).value(), 4096u);
  api_->begin_drain();
  EXPECT_FALSE(judged("POST", "/v1/completions", {key}));
}

}  // namespace
}  // namespace rocmforge::server
