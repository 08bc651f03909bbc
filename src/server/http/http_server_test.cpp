#include "server/http/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/http/test_client.h"

namespace rocmforge::server {
namespace {

using namespace std::chrono_literals;
using testing::TestClient;

// A server whose exchanges the test answers itself.
class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.port = 0;
    options.sweep = 10ms;
    auto server = HttpServer::listen(
        options,
        [this](std::shared_ptr<Exchange> exchange) {
          const std::lock_guard lock(mutex_);
          if (echo_) return exchange->respond({.content_type = "text/plain"}, exchange->take_body());
          exchanges_.push_back(std::move(exchange));
          arrived_.notify_all();
        },
        [](const HttpError& error) {
          return std::pair(ResponseHead{.status = error.status}, std::string(error.reason));
        });
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    loop_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->stop(0ms);
    loop_.join();
    exchanges_.clear();
  }

  std::shared_ptr<Exchange> next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, 5s, [this] { return !exchanges_.empty(); })) return nullptr;
    auto exchange = exchanges_.front();
    exchanges_.erase(exchanges_.begin());
    return exchange;
  }
  TestClient connect() { return TestClient(server_->port()); }
  static bool eventually(const std::function<bool()>& what, std::chrono::milliseconds patience = 5s) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!what()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(2ms);
    }
    return true;
  }

  std::unique_ptr<HttpServer> server_;
  std::thread loop_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
  bool echo_ = false;
};

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

TEST_F(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
  start();
  TestClient client = connect();
  for (int i = 0; i < 3; i++) {
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    const auto exchange = next();
    ASSERT_TRUE(exchange);
    EXPECT_EQ(exchange->take_body(), "hi");
    exchange->respond({.status = 404, .headers = {{"X-A", "b"}}}, "none");
    const std::string answer = client.read_until("none");
    EXPECT_EQ(TestClient::status_of(answer), 404);
    EXPECT_NE(answer.find("X-A: b\r\n"), std::string::npos);
    EXPECT_NE(answer.find("Content-Length: 4\r\n"), std::string::npos);
    EXPECT_EQ(answer.find("Connection: close"), std::string::npos);
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  echo_ = true;
  start();
  TestClient client = connect();
  std::string requests;
  for (int i = 0; i < 100; i++)
    requests += "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n" + std::to_string(100 + i);
  client.send(requests + "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_all();
  size_t at = 0;
  for (int i = 0; i < 100; i++) {
    at = all.find("\r\n\r\n" + std::to_string(100 + i), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST_F(HttpServerTest, StreamsInChunksAndEndsThem) {
  start();
  TestClient client = connect();
  client.send(kGet);
  const auto exchange = next();
  exchange->start_stream({.content_type = "text/event-stream"});
  exchange->write("data: 1\n\n");
  std::string got = client.read_until("9\r\ndata: 1\n\n\r\n");
  EXPECT_NE(got.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  exchange->write("data: 2\n\n");
  exchange->finish();
  got = client.read_until("0\r\n\r\n");
  EXPECT_EQ(got, "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  client.send(kGet);  // the connection is still good
  next()->respond({}, "again");
  EXPECT_NE(client.read_until("again").find("200 OK"), std::string::npos);
}

TEST_F(HttpServerTest, StreamsToOldClientsUntilItCloses) {
  start();
  TestClient client = connect();
  client.send("GET / HTTP/1.0\r\n\r\n");
  const auto exchange = next();
  exchange->start_stream({});
  exchange->write("abc");
  exchange->finish();
  const std::string all = client.read_all();
  EXPECT_EQ(TestClient::body_of(all), "abc");
  EXPECT_NE(all.find("Connection: close"), std::string::npos);
}

TEST_F(HttpServerTest, HeadHasHeadersOnly) {
  start();
  TestClient client = connect();
  client.send("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  next()->respond({}, "body");
  const std::string all = client.read_all();
  EXPECT_NE(all.find("Content-Length: 4\r\n"), std::string::npos);
  EXPECT_EQ(TestClient::body_of(all), "");
}

TEST_F(HttpServerTest, SaysContinueToThoseWhoWait) {
  echo_ = true;
  start();
  TestClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_some(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_NE(client.read_until("ok").find("200 OK"), std::string::npos);
}

TEST_F(HttpServerTest, PingsASilentStream) {
  start({.ping_after = 50ms});
  TestClient client = connect();
  client.send(kGet);
  const auto exchange = next();
  exchange->start_stream({.ping = ":\n\n"});
  const std::string got = client.read_until("3\r\n:\n\n\r\n3\r\n:\n\n\r\n");
  EXPECT_NE(got.find("3\r\n:\n\n\r\n"), std::string::npos);
  exchange->finish();
}

TEST_F(HttpServerTest, NoticesAClientThatLeaves) {
  start();
  for (const bool reset : {false, true}) {
    for (const bool streaming : {false, true}) {
      for (const bool pipelined : {false, true}) {
        TestClient client = connect();
        client.send(pipelined ? kGet + "GET" : kGet);
        const auto exchange = next();
        ASSERT_TRUE(exchange);
        std::atomic<int> n_cancels = 0;
        exchange->on_cancel([&] { n_cancels++; });
        if (streaming) exchange->start_stream({});
        std::this_thread::sleep_for(20ms);
        EXPECT_EQ(n_cancels, 0);
        reset ? client.reset() : client.close();
        EXPECT_TRUE(eventually([&] { return n_cancels == 1; })) << reset << streaming << pipelined;
        if (streaming) exchange->write("into the void");
      }
    }
  }
  EXPECT_TRUE(eventually([&] { return server_->stats().n_connections == 0; }));
}

TEST_F(HttpServerTest, CutsOffAReaderThatIsTooSlow) {
  start({.max_unsent_bytes = 64 << 10});
  TestClient client(server_->port(), 4096);
  client.send(kGet);
  const auto exchange = next();
  std::atomic<bool> cancelled = false;
  exchange->on_cancel([&] { cancelled = true; });
  exchange->start_stream({});
  const std::string some(1000, 'x');
  for (int i = 0; i < 20'000 && !cancelled; i++) exchange->write(some);
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(eventually([&] { return server_->stats().n_connections == 0; }));
}

TEST_F(HttpServerTest, CutsOffAReaderThatStalls) {
  start({.max_unsent_bytes = 8 << 20, .write_stall = 100ms});
  TestClient client(server_->port(), 4096);
  client.send(kGet);
  const auto exchange = next();
  std::atomic<bool> cancelled = false;
  exchange->on_cancel([&] { cancelled = true; });
  exchange->start_stream({});
  exchange->write(std::string(7 << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return cancelled.load(); }));
}

TEST_F(HttpServerTest, GivesUpOnRequestsThatNeverArrive) {
  start({.head_deadline = 80ms, .body_idle = 80ms, .keep_alive_idle = 80ms});
  TestClient silent = connect();
  EXPECT_EQ(silent.read_all(5s), "");
  EXPECT_TRUE(silent.is_closed_by_server());

  TestClient head = connect();
  head.send("GET / HT");
  EXPECT_EQ(TestClient::status_of(head.read_all(5s)), 408);
  TestClient body = connect();
  body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12");
  EXPECT_EQ(TestClient::status_of(body.read_all(5s)), 408);
  TestClient drip = connect();  // a byte now and then does not help: the head's deadline is for all of it
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100 && drip.send("G"); i++) std::this_thread::sleep_for(20ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1800ms);
}

TEST_F(HttpServerTest, EndsADrippingBodyAtItsDeadline) {
  start({.body_idle = 1s, .body_deadline = 100ms});
  TestClient drip = connect();
  drip.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 20; i++) {
    drip.send("x");
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(TestClient::status_of(drip.read_all(5s)), 408);
}

TEST_F(HttpServerTest, AnswersWhatIsNoRequestAndCloses) {
  echo_ = true;
  start();
  for (const auto& [bytes, status] : std::initializer_list<std::pair<std::string, int>>{
           {"GET / HTTP/1.1\nHost: a\n\n", 400},
           {"GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
           {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777217\r\n\r\n" + std::string(100'000, 'x'), 413},
           {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400}}) {
    TestClient client = connect();
    client.send(bytes + kGet);
    const std::string all = client.read_all();
    EXPECT_EQ(TestClient::status_of(all), status);
    EXPECT_EQ(all.find("HTTP/1.1", 1), std::string::npos) << "the bytes behind it were taken for a request";
    EXPECT_NE(all.find("Connection: close\r\n"), std::string::npos);
  }
}

TEST_F(HttpServerTest, TakesABodyAtTheLimit) {
  echo_ = true;
  start();
  TestClient client = connect();
  std::thread writer([&] {
    client.send("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 16777216\r\n\r\n" +
                std::string(16 << 20, 'x'));
  });
  const std::string all = client.read_all();
  writer.join();
  EXPECT_EQ(TestClient::body_of(all).size(), 16u << 20);
}

TEST_F(HttpServerTest, RefusesLargeBodiesTogetherBeyondTheirSum) {
  start({.max_pending_body_bytes = 1000});
  std::vector<TestClient> clients;
  for (int i = 0; i < 3; i++) {
    clients.push_back(connect());
    clients.back().send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n" + std::string(400, 'x'));
    if (i < 2) std::this_thread::sleep_for(30ms);
  }
  EXPECT_EQ(TestClient::status_of(clients[2].read_all(5s)), 503);
  clients[0].send(std::string(100, 'x'));
  EXPECT_TRUE(next());
}

TEST_F(HttpServerTest, BodiesCountUntilTheyAreAnswered) {
  start({.max_pending_body_bytes = 1000});
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 400\r\n\r\n" + std::string(400, 'x');
  std::vector<TestClient> clients;
  std::vector<std::shared_ptr<Exchange>> waiting;
  for (int i = 0; i < 2; i++) {
    clients.push_back(connect());
    clients.back().send(post);
    waiting.push_back(next());
    ASSERT_TRUE(waiting.back());
    waiting.back()->take_body();
  }
  TestClient extra = connect();
  extra.send(post);
  EXPECT_EQ(TestClient::status_of(extra.read_all(5s)), 503);
  waiting[0]->start_stream({});
  EXPECT_EQ(TestClient::status_of(clients[0].read_until("\r\n\r\n")), 200);
  clients.pop_back();  // leaves without an answer
  ASSERT_TRUE(eventually([&] { return waiting[1]->is_cancelled(); }));
  for (int i = 0; i < 2; i++) {
    clients.push_back(connect());
    clients.back().send(post);
    EXPECT_TRUE(next());
  }
}

TEST_F(HttpServerTest, RefusesConnectionsBeyondItsLimit) {
  echo_ = true;
  start({.max_connections = 8});
  std::vector<TestClient> clients;
  for (int i = 0; i < 8; i++) clients.push_back(connect());
  ASSERT_TRUE(eventually([&] { return server_->stats().n_connections == 8; }));
  TestClient extra = connect();
  EXPECT_EQ(TestClient::status_of(extra.read_all(5s)), 503);
  clients.pop_back();
  ASSERT_TRUE(eventually([&] { return server_->stats().n_connections <= 7; }));
  TestClient again = connect();
  again.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(TestClient::status_of(again.read_all()), 200);
}

TEST_F(HttpServerTest, StopsWithAnswersSentAndIdleConnectionsClosed) {
  start();
  TestClient idle = connect(), busy = connect();
  busy.send(kGet);
  const auto exchange = next();
  exchange->start_stream({});
  exchange->write("first ");
  busy.read_until("first ");
  server_->stop(5s);
  EXPECT_EQ(idle.read_all(5s), "");
  EXPECT_TRUE(idle.is_closed_by_server());
  exchange->write("last");
  exchange->finish();
  EXPECT_NE(busy.read_all().find("last"), std::string::npos);
  loop_.join();
  loop_ = std::thread([] {});
}

}  // namespace
}  // namespace rocmforge::server
