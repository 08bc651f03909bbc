// A GPU that is lost: from some call on every call fails, also those that give something back, as after an illegal
// access. Requests end with an error, whoever comes later too; nothing crashes, hangs or stays behind.

#include <gtest/gtest.h>

#include <thread>

#include "engine/engine_core.h"
#include "engine/registry.h"
#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "server/http/test_client.h"
#include "server/server.h"
#include "support/engine_fixture.h"
#include "support/loaded_model.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::Collector;
using testing::LoadedModel;

// From the n-th call from now on, until this ends.
class Loss {
 public:
  explicit Loss(uint64_t n) { gpu::emu::controls().lost_from = gpu::emu::controls().n_calls + n; }
  ~Loss() { gpu::emu::controls().lost_from = 0; }
};

bool is_device_error(const Error& error) {
  return error.code == ErrorCode::device_failed || error.code == ErrorCode::device_unavailable;
}

// Four requests, two of them later, through load, prompts, decoding, capture and replay.
struct LostCore : ::testing::Test {
  static constexpr uint32_t kTokens = 6;

  void serve_requests() {
    auto backend = GpuBackend::open(gpu::emu::api(), 0);
    if (!backend.ok()) {
      EXPECT_TRUE(is_device_error(backend.error())) << backend.error().message;
      return;
    }
    const LoadedModel model = LoadedModel::open_on(
        std::move(*backend), testing::data_path("logits/llama@384-64-128-2-1-32-2.gguf"), nullptr, 2);
    EngineCore core{*model.plan,
                    {.n_pages = 5, .n_context = 192, .max_running = 4, .max_step_tokens = 24, .max_step_outputs = 4},
                    KvType::f16,
                    system_clock()};
    prefetch(*model.plan);
    std::vector<Collector> collectors(4);
    size_t n_accepted = 0;
    for (uint32_t i = 0; i < collectors.size() && !core.is_dead(); i++, n_accepted++) {
      GenerationRequest request{
          .prompt = testing::some_tokens(5 + 11 * i, 384), .sampling = testing::greedy(), .ignore_end_of_text = true};
      core.accept(std::make_unique<LiveRequest>(RequestId(i + 1), std::move(request), kTokens, collectors[i].receiver(),
                                                story.tokenizer(), system_clock()()));
      if (i > 0) core.step();
    }
    while (core.has_work()) core.step();
    EXPECT_EQ(core.n_requests(), 0u);
    for (size_t i = 0; i < n_accepted; i++) {
      ASSERT_TRUE(collectors[i].is_finished());
      const FinishEvent& end = collectors[i].wait();
      if (end.reason == FinishReason::length) continue;
      ASSERT_TRUE(end.error.has_value());
      EXPECT_TRUE(is_device_error(*end.error)) << end.error->message;
      EXPECT_NE(end.error->message.find("the device is lost"), std::string::npos) << end.error->message;
      EXPECT_TRUE(core.is_dead());
    }
  }

  testing::Reference story;  // for its tokenizer: the small model has none
};

TEST_F(LostCore, AtAnyCall) {
  auto& controls = gpu::emu::controls();
  const uint64_t before = controls.n_calls, graphs_before = controls.n_graph_launches;
  const int64_t held = controls.held_bytes;
  serve_requests();
  const uint64_t n_calls = controls.n_calls - before;
  ASSERT_GT(controls.n_graph_launches, graphs_before);
  ASSERT_GT(n_calls, 200u);
  // Growing steps: most calls come before the first pass ends, and a later one is like one of those before.
  for (uint64_t n = 1; n <= n_calls; n += 1 + n / 8) {
    SCOPED_TRACE("call " + std::to_string(n) + " of " + std::to_string(n_calls));
    {
      const Loss loss(n);
      serve_requests();
    }
    EXPECT_EQ(controls.held_bytes, held);
    if (HasFailure()) break;
  }
}

struct LostServer : ::testing::Test {
  void start() {
    ModelRegistry::Options models;
    models.models = {{.name = "story", .path = testing::story_path()}};
    models.model.device = "gpu";
    models.model.n_threads = 2;
    models.model.open_gpu = []() -> Result<std::unique_ptr<Backend>> {
      return TRY(GpuBackend::open(gpu::emu::api(), 0));
    };
    models.engine.n_kv_tokens = 256;
    models.engine.max_running = 4;
    models.engine.max_step_tokens = 16;
    models.retry_pause = 20ms;
    registry = ModelRegistry::create(std::move(models)).value();
    server::ServerOptions options;
    options.http.port = 0;
    options.drain = 0ms;
    server = server::Server::create(*registry, options).value();
    loop = std::thread([this] { server->run(); });
  }
  void stop() {
    server->begin_drain();
    loop.join();
    server.reset();
    registry.reset();
  }
  std::pair<int, std::string> send(const std::string& head, const std::string& body = {}) const {
    server::testing::TestClient client(server->port());
    client.send(head + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    const std::string answer = client.read_all(60s);
    return {client.status_of(answer), client.body_of(answer)};
  }
  // The status and what follows the request's id.
  std::pair<int, std::string> ask() const {
    auto [status, body] =
        send("POST /generate", R"({"prompt":"Once","max_tokens":3,"temperature":0,"ignore_eos":true})");
    if (const size_t at = body.find("\"text\""); at != std::string::npos) body.erase(0, at);
    return {status, body};
  }

  std::unique_ptr<ModelRegistry> registry;
  std::unique_ptr<server::Server> server;
  std::thread loop;
};

TEST_F(LostServer, AnswersWithErrorsUntilTheDeviceIsBack) {
  auto& controls = gpu::emu::controls();
  const int64_t held = controls.held_bytes;
  start();
  const uint64_t before = controls.n_calls;
  const auto expected = ask();
  ASSERT_EQ(expected.first, 200) << expected.second;
  const uint64_t n_calls = controls.n_calls - before;
  stop();
  EXPECT_EQ(controls.held_bytes, held);
  // While the device is opened, weights are loaded, a prompt is computed, tokens are.
  for (const uint64_t n : {uint64_t{1}, uint64_t{5}, uint64_t{30}, n_calls / 4, n_calls / 2, n_calls - 8}) {
    SCOPED_TRACE("call " + std::to_string(n) + " of " + std::to_string(n_calls));
    start();
    {
      const Loss loss(n);
      std::vector<std::thread> clients;
      for (int i = 0; i < 4; i++) {
        clients.emplace_back([&] {
          for (int again = 0; again < 6; again++) {
            const auto [status, body] = ask();
            EXPECT_TRUE(status == 503 || (status == 200 && body == expected.second)) << status << " " << body;
          }
        });
      }
      for (std::thread& client : clients) client.join();
      EXPECT_EQ(ask().first, 503);
      const auto [status, body] = send("GET /health");
      EXPECT_TRUE(status == 500 || body.find("loading") != std::string::npos) << body;
      const ModelEntry entry = registry->list()[0];
      EXPECT_TRUE(entry.state == ModelState::failed || entry.state == ModelState::loading);
      if (entry.error) {
        EXPECT_TRUE(is_device_error(*entry.error)) << entry.error->message;
      }
      if (n % 2 == 1) stop();
    }
    if (server) {  // the device is back
      std::pair<int, std::string> answer;
      for (int i = 0; i < 200 && (answer = ask()).first != 200; i++) std::this_thread::sleep_for(20ms);
      EXPECT_EQ(answer, expected);
      stop();
    }
    EXPECT_EQ(controls.held_bytes, held);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace rocmforge
