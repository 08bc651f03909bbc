// Memory that runs out, at every moment of a request's life: that request may end, the server goes on.

#include <gtest/gtest.h>

#include <thread>

#include "server/http/test_client.h"
#include "server/server.h"
#include "support/heap_faults.h"
#include "support/support.h"

namespace rocmforge::server {
namespace {

using namespace std::chrono_literals;
using rocmforge::testing::HeapFaults;
using testing::TestClient;

class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest() {
    ModelRegistry::Options models;
    models.models = {{.name = "story", .path = rocmforge::testing::source_path("models/story-q4_k_m.gguf")}};
    models.model.n_threads = 1;
    models.engine.n_kv_tokens = 4096;
    models.engine.max_running = 8;
    models.retry_pause = 1ms;
    registry_ = *ModelRegistry::create(std::move(models));
    ServerOptions options;
    options.http.port = 0;
    options.http.sweep = 10ms;
    options.drain = 0ms;
    server_ = *Server::create(*registry_, options);
    loop_ = std::thread([this] { server_->run(); });
  }
  ~MemoryTest() override {
    server_->begin_drain();
    loop_.join();
  }

  // All up to where the server closes.
  std::string ask(std::string_view path, std::string_view body) {
    TestClient client(server_->port());
    client.send("POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
    const std::string answer = client.read_all(10s);
    EXPECT_TRUE(client.is_closed_by_server()) << "no end of " << path << ": " << answer;
    return answer;
  }
  // What a client sees once memory is back.
  bool is_well() {
    for (int i = 0; i < 200; i++) {  // an engine that died is made again
      if (TestClient::status_of(ask("/generate", R"({"prompt":"Once","max_tokens":2})")) == 200) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }

  // Lets allocations fail one by one, and ten in a row, from the first of the request to the last.
  void starve(std::string_view path, std::string_view body) {
    for (const int64_t n_failing : {1, 10}) {
      for (int64_t n_before = 0; n_before < 3000; n_before += 3 * n_failing) {
        int status = 0;
        std::string answer;
        {
          const HeapFaults faults(n_before, n_failing);
          answer = ask(path, body);
          status = TestClient::status_of(answer);
          if (faults.n_failed() == 0) break;
        }
        // Closed without a word (0) where there was not even memory for an error.
        EXPECT_TRUE(status == 200 || status == 503 || status == 0) << n_before << ": " << answer;
        n_refused_ += status == 503;
        ASSERT_FALSE(HasFailure()) << n_before << " " << n_failing;
        ASSERT_TRUE(is_well()) << path << " after " << n_before << " allocations";
      }
    }
  }

  std::unique_ptr<ModelRegistry> registry_;
  std::unique_ptr<Server> server_;
  std::thread loop_;
  int n_refused_ = 0;
};

TEST_F(MemoryTest, RunsOutInAnAnswer) {
  starve("/v1/chat/completions", R"({"messages":[{"role":"user","content":"Once"}],"max_tokens":3,"logprobs":true})");
  EXPECT_GT(n_refused_, 20);
}

TEST_F(MemoryTest, RunsOutInAStream) {
  starve("/v1/completions", R"({"prompt":"Once","max_tokens":3,"n":2,"stream":true,"stop":"xyz"})");
  EXPECT_GT(n_refused_, 20);
}

TEST_F(MemoryTest, RunsOutInEmbeddings) {
  starve("/v1/embeddings", R"({"input":["Once","upon"],"dimensions":8})");
  EXPECT_GT(n_refused_, 20);
}

// Opening the file, planning, starting the engine, reading weights: some moments of each.
TEST_F(MemoryTest, RunsOutInALoad) {
  ASSERT_TRUE(is_well());
  for (const int64_t n_failing : {1, 10, 1000}) {
    bool met = true;
    for (int64_t n_before = 0; met; n_before += 1 + n_before / 8) {
      ASSERT_TRUE(registry_->unload("story").ok());
      {
        const HeapFaults faults(n_before, n_failing);
        const std::string answer = ask("/generate", R"({"prompt":"Once","max_tokens":2})");
        const int status = TestClient::status_of(answer);
        EXPECT_TRUE(status == 200 || status == 503 || status == 0) << n_before << ": " << answer;
        n_refused_ += status == 503;
        met = faults.n_failed() > 0;
      }
      ASSERT_FALSE(HasFailure()) << n_before << " " << n_failing;
      ASSERT_TRUE(is_well()) << "after " << n_before << " allocations";
    }
  }
  EXPECT_GT(n_refused_, 20);
}

TEST_F(MemoryTest, RunsOutInABody) {
  const std::string body = R"({"content":")" + std::string(200'000, 'a') + R"("})";
  starve("/tokenize", body);
  EXPECT_GT(n_refused_, 5);
}

}  // namespace
}  // namespace rocmforge::server
