// The whole server in this process, with the bundled model: sockets, API, engine.

#include "server/server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <thread>

#include "base/json.h"
#include "server/http/test_client.h"
#include "support/support.h"

namespace rocmforge::server {
namespace {

using namespace std::chrono_literals;
using testing::TestClient;

class ServerTest : public ::testing::Test {
 protected:
  static std::string story() { return rocmforge::testing::source_path("models/story-q4_k_m.gguf"); }
  void SetUp() override { start(0ms); }
  void start(std::chrono::milliseconds drain,
             std::vector<ModelRegistry::Source> sources = {{.name = "story", .path = story()}},
             uint64_t memory_budget = 0) {
    ModelRegistry::Options models;
    models.models = std::move(sources);
    models.memory_budget = memory_budget;
    models.model.n_threads = 2;
    models.engine.n_kv_tokens = 8192;
    models.engine.max_running = 8;
    registry_ = *ModelRegistry::create(std::move(models));
    ServerOptions options;
    options.http.port = 0;
    options.metrics_port = 0;
    options.drain = drain;
    server_ = *Server::create(*registry_, options);
    loop_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override { stop(); }
  void stop() {
    if (!server_) return;
    server_->begin_drain();
    loop_.join();
    server_.reset();
    registry_.reset();
  }

  static std::string post(std::string_view path, std::string_view body) {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + std::string(body);
  }
  std::pair<int, std::string> ask(std::string_view path, std::string_view body) {
    TestClient client(server_->port());
    client.send(post(path, body));
    const std::string answer = client.read_all(60s);
    return {TestClient::status_of(answer), TestClient::body_of(answer)};
  }
  EngineStats stats() const { return registry_->list()[0].engine.value_or(EngineStats{}); }
  static bool eventually(const std::function<bool()>& what) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!what()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }

  std::unique_ptr<ModelRegistry> registry_;
  std::unique_ptr<Server> server_;
  std::thread loop_;
};

const std::string kLong = R"({"prompt":"Once","max_tokens":1000,"seed":1,"ignore_eos":true})";

TEST_F(ServerTest, AnswersTogetherAsItAnswersAlone) {
  const auto body = [](size_t i) {
    return R"({"prompt":"Once upon a time)" + std::string(i, '.') + R"(","max_tokens":12,"temperature":0,"seed":1})";
  };
  const auto text_of = [](const std::string& answer) {
    const auto json = parse_json(answer);
    const JsonValue* text = json.ok() ? json->find("text") : nullptr;
    return text ? *text->as<std::string>() : "no text in " + answer;
  };
  std::vector<std::string> alone;
  for (size_t i = 0; i < 8; i++) alone.push_back(text_of(ask("/generate", body(i)).second));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; t++) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 8; i++) EXPECT_EQ(text_of(ask("/generate", body((i + t) % 8)).second), alone[(i + t) % 8]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ServerTest, TheMetricsPortAnswersWhileRequestsRunAndEndsWithThem) {
  const std::string address = server_->metrics_address();
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const auto get = [port](std::string_view path) {
    TestClient client(port);
    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return client.read_all(60s);
  };
  auto running = std::async(std::launch::async, [&] { return ask("/generate", kLong).first; });
  for (int i = 0; i < 20; i++) {
    const std::string answer = get("/metrics");
    EXPECT_EQ(TestClient::status_of(answer), 200);
    EXPECT_NE(answer.find("rocmforge_http_connections "), std::string::npos);
  }
  EXPECT_EQ(TestClient::status_of(get("/health")), 200);
  EXPECT_EQ(TestClient::status_of(get("/v1/models")), 404);
  EXPECT_EQ(running.get(), 200);
  const TestClient idle(port);  // holds up nothing
  stop();
}

TEST_F(ServerTest, ADisconnectFreesWhatTheRequestHeld) {
  for (const char* path : {"/generate", "/generate/stream"}) {
    std::vector<TestClient> clients;
    for (int i = 0; i < 12; i++) {  // eight run, four wait
      clients.emplace_back(server_->port());
      clients.back().send(post(path, kLong));
    }
    ASSERT_TRUE(eventually([&] { return stats().n_running == 8 && stats().n_waiting == 4; }));
    clients.clear();
    EXPECT_TRUE(eventually([&] { return stats().n_running + stats().n_waiting == 0 && stats().n_pages_used == 0; }));
  }
}

TEST_F(ServerTest, ADrainEndsStreamsProperly) {
  stop();
  start(50ms);
  std::vector<TestClient> clients;
  for (int i = 0; i < 12; i++) {
    clients.emplace_back(server_->port());
    clients.back().send(post("/generate/stream", kLong));
  }
  ASSERT_TRUE(eventually([&] { return stats().n_running == 8 && stats().n_waiting == 4; }));
  server_->begin_drain();
  for (TestClient& client : clients) {
    const std::string all = client.read_all(20s);
    EXPECT_NE(all.find("\"code\":\"draining\""), std::string::npos) << all.substr(0, 300);
    EXPECT_TRUE(all.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
  }
}

TEST_F(ServerTest, UnloadsWhileRequestsRun) {
  TestClient client(server_->port());
  client.send(post("/generate", R"({"prompt":"Once","max_tokens":200,"temperature":0,"ignore_eos":true})"));
  ASSERT_TRUE(eventually([&] { return stats().n_running == 1; }));
  EXPECT_EQ(ask("/v1/models/unload", R"({"model":"story"})").first, 200);
  EXPECT_EQ(TestClient::status_of(client.read_all(60s)), 200);
  EXPECT_EQ(ask("/generate", R"({"prompt":"Once","max_tokens":2})").first, 200) << "it is loaded again";
}

TEST_F(ServerTest, RequestsWaitForModelsThatTakeTurns) {
  std::promise<uint64_t> bill;
  registry_->acquire("story",
                     [&](Result<ModelHandle> model) { bill.set_value((*model)->engine().memory_bill().total()); });
  const uint64_t one = bill.get_future().get();
  stop();
  start(0ms, {{.name = "a", .path = story()}, {.name = "b", .path = story()}}, one * 3 / 2);
  const auto body = [](std::string_view model) {
    return R"({"model":")" + std::string(model) + R"(","prompt":"Once","max_tokens":20,"temperature":0})";
  };
  const auto text_of = [](const std::pair<int, std::string>& answer) {
    EXPECT_EQ(answer.first, 200) << answer.second;
    const auto json = parse_json(answer.second);
    const JsonValue* text = json.ok() ? json->find("text") : nullptr;
    return text ? *text->as<std::string>() : "";
  };
  const std::string expected = text_of(ask("/generate", body("a")));
  EXPECT_FALSE(expected.empty());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; i++) EXPECT_EQ(text_of(ask("/generate", body((t + i) % 2 ? "a" : "b"))), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(registry_->list()[0].n_loads + registry_->list()[1].n_loads, 2u);
}

TEST_F(ServerTest, EmbedsAndRefuses) {
  const auto [status, body] = ask("/v1/embeddings", R"({"input":["one","two","one"]})");
  EXPECT_EQ(status, 200);
  const auto json = parse_json(body);
  ASSERT_TRUE(json.ok());
  const auto* data = json->find("data")->as<JsonArray>();
  ASSERT_EQ(data->size(), 3u);
  const auto* first = (*data)[0].find("embedding")->as<JsonArray>();
  EXPECT_EQ(first->size(), 512u);
  JsonWriter a, b;
  EXPECT_EQ(a.value(*(*data)[0].find("embedding")).take(), b.value(*(*data)[2].find("embedding")).take());
  EXPECT_EQ(ask("/v1/completions", R"({"prompt":"x","max_tokens":1024})").first, 400);
  EXPECT_EQ(ask("/v1/completions", R"({"prompt":"x","temperature":1e39})").first, 400);
}

// Here a loader is stuck, and the drain waits for the loader. The process ends within the drain time all the same: code
// 3 says so, code 4 that the process was there for longer.
TEST(ServerDeathTest, AStuckDrainEndsTheProcessWithinTheDrainTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto drain = [] {
    ModelRegistry::Options models;
    models.models = {{.name = "story", .path = rocmforge::testing::source_path("models/story-q4_k_m.gguf")}};
    models.model.n_threads = 1;
    const auto registry = *ModelRegistry::create(std::move(models));
    ServerOptions options;
    options.http.port = 0;
    options.drain = 1200ms;
    const auto server = *Server::create(*registry, options);
    server->handle_signals([] {});
    registry->acquire("story", [&](const Result<ModelHandle>&) {
      constexpr auto kMargin = 4s;  // for a loaded machine
      std::raise(SIGTERM);
      std::this_thread::sleep_for(options.drain + kMargin);
      _exit(4);
    });
    server->run();
  };
  EXPECT_EXIT(drain(), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace rocmforge::server
