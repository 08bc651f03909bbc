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
          if (echo_) return exchange->respond({.content_type = "text/plain"}, exchange->take_body().bytes);
          exchanges_.push_back(std::move(exchange));
          arrived_.notify_all();
        },
        [](const HttpError& error) {
          return std::pair(ResponseHead{.status = error.status}, std::string(error.reason));
        },
        [](const Request& head) -> std::optional<size_t> {
          if (head.target == "/refused") return {};
          return head.target == "/small" ? 100 : SIZE_MAX;
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
    EXPECT_EQ(exchange->take_body().bytes, "hi");
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
  start({.first_byte = 80ms, .head_deadline = 80ms, .body_idle = 80ms});
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

std::string post_of(size_t n_declared, size_t n_sent, std::string_view path = "/") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(n_declared) +
         "\r\n\r\n" + std::string(n_sent, 'x');
}

TEST_F(HttpServerTest, WhatIsRefusedByItsHeadIsNotAwaited) {
  start();
  TestClient patient = connect();
  patient.send("POST /refused HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
  const auto exchange = next();
  ASSERT_TRUE(exchange) << "its body was awaited";
  EXPECT_EQ(exchange->take_body().bytes, "");
  exchange->respond({.status = 401}, "no");
  const std::string answer = patient.read_all();
  EXPECT_EQ(TestClient::status_of(answer), 401) << "no 100 Continue for what is refused";
  EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos);

  // A client that writes first and reads then still sees the answer, and its body is no request.
  TestClient eager = connect();
  eager.send(post_of(200'000, 100'000, "/refused"));
  const auto second = next();
  ASSERT_TRUE(second);
  second->respond({.status = 401}, "no");
  eager.send(std::string(50'000, 'x') + kGet);
  EXPECT_EQ(TestClient::status_of(eager.read_all()), 401);
  {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(exchanges_.empty());
  }

  TestClient large = connect();
  large.send(post_of(101, 50, "/small"));
  EXPECT_EQ(TestClient::status_of(large.read_all()), 413);
  TestClient chunked = connect();
  chunked.send("POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  chunked.send("60\r\n" + std::string(96, 'x') + "\r\n");
  chunked.send("5\r\nxxxxx\r\n");
  EXPECT_EQ(TestClient::status_of(chunked.read_all()), 413);
}

// Seventeen connections that withheld their last bytes gave everybody else 503.
TEST_F(HttpServerTest, WhenBodiesAreTooLargeTogetherTheSlowestIsDropped) {
  start({.max_bytes_of_bodies = 1000});
  TestClient stalled = connect(), other = connect();
  stalled.send(post_of(500, 400));
  ASSERT_TRUE(eventually([&] { return server_->stats().body_bytes == 400; }));
  std::this_thread::sleep_for(1500ms);  // until its bytes are no longer recent
  other.send(post_of(500, 400));
  ASSERT_TRUE(eventually([&] { return server_->stats().body_bytes == 800; }));
  TestClient newest = connect();
  newest.send(post_of(400, 400));
  EXPECT_TRUE(next()) << "the newest was refused";
  EXPECT_EQ(TestClient::status_of(stalled.read_all()), 503);
  EXPECT_EQ(server_->stats().n_dropped_bodies, 1u);
  other.send(std::string(100, 'x'));
  EXPECT_TRUE(next()) << "and the other one goes on";
}

TEST_F(HttpServerTest, BodiesCountUntilNobodyHoldsThem) {
  start({.max_bytes_of_bodies = 1000});
  std::vector<TestClient> clients;
  std::vector<std::shared_ptr<Exchange>> waiting;
  for (int i = 0; i < 2; i++) {
    clients.push_back(connect());
    clients.back().send(post_of(400, 400));
    waiting.push_back(next());
    ASSERT_TRUE(waiting.back());
  }
  std::optional<Exchange::Body> held = waiting[0]->take_body();
  clients[0].close();  // leaves; its body is still held
  ASSERT_TRUE(eventually([&] { return waiting[0]->is_cancelled(); }));
  EXPECT_EQ(server_->stats().body_bytes, 800u);
  TestClient extra = connect();
  extra.send(post_of(400, 400));
  EXPECT_EQ(TestClient::status_of(extra.read_all(5s)), 503);
  held.reset();
  EXPECT_EQ(server_->stats().body_bytes, 400u);
  clients.clear();  // leaves before anybody took its body: nobody will
  ASSERT_TRUE(eventually([&] { return waiting[1]->is_cancelled(); }));
  EXPECT_EQ(server_->stats().body_bytes, 0u);
  EXPECT_EQ(waiting[1]->take_body().bytes, "");
}

TEST_F(HttpServerTest, LargeAnswersArriveWhole) {
  start();
  TestClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  std::string body(3 << 20, 'a');
  for (size_t i = 0; i < body.size(); i += 997) body[i] = static_cast<char>('b' + i % 20);
  next()->respond({}, body);
  EXPECT_TRUE(TestClient::body_of(client.read_all()) == body);
}

TEST_F(HttpServerTest, RefusesConnectionsBeyondItsLimit) {
  start({.max_connections = 4});
  std::vector<TestClient> clients;
  for (int i = 0; i < 4; i++) {
    clients.push_back(connect());
    clients.back().send(kGet);
    ASSERT_TRUE(next());
  }
  TestClient extra = connect();
  EXPECT_EQ(TestClient::status_of(extra.read_all(5s)), 503) << "all are at work";
  clients.pop_back();
  ASSERT_TRUE(eventually([&] { return server_->stats().n_connections <= 3; }));
  {
    const std::lock_guard lock(mutex_);
    echo_ = true;
  }
  TestClient again = connect();
  again.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(TestClient::status_of(again.read_all()), 200);
}

// 1,024 silent connections kept everybody out.
TEST_F(HttpServerTest, TheLongestIdleConnectionMakesRoomForAnother) {
  start({.max_connections = 4});
  std::vector<TestClient> idle;
  for (size_t i = 0; i < 3; i++) {
    idle.push_back(connect());
    ASSERT_TRUE(eventually([&] { return server_->stats().n_connections == i + 1; }));
    std::this_thread::sleep_for(5ms);
  }
  TestClient busy = connect();
  busy.send(kGet);
  const auto exchange = next();
  ASSERT_TRUE(exchange);
  TestClient extra = connect();
  extra.send(kGet);
  const auto other = next();
  ASSERT_TRUE(other) << "there was no room";
  EXPECT_EQ(idle[0].read_all(5s), "");
  EXPECT_TRUE(idle[0].is_closed_by_server());
  EXPECT_EQ(server_->stats().n_made_room, 1u);
  exchange->respond({}, "still here");
  EXPECT_NE(busy.read_until("still here").find("still here"), std::string::npos);
  idle[2].send(kGet);
  EXPECT_TRUE(next());
}

TEST_F(HttpServerTest, ANewConnectionHasLessTimeThanOneThatWasOfUse) {
  start({.first_byte = 100ms, .keep_alive_idle = 60s});
  TestClient fresh = connect(), known = connect();
  known.send(kGet);
  next()->respond({}, "ok");
  known.read_until("ok");
  EXPECT_EQ(fresh.read_all(10s), "");
  EXPECT_TRUE(fresh.is_closed_by_server());
  known.send(kGet);
  EXPECT_TRUE(next());
}

TEST_F(HttpServerTest, TheWorkersQueueIsBoundedAndItsLongestJobIsSeen) {
  start({.n_workers = 1, .max_queued_work = 2});
  std::mutex gate;
  gate.lock();
  std::atomic<int> n_done = 0;
  const auto work = [&] {
    const std::lock_guard wait(gate);
    n_done++;
  };
  ASSERT_TRUE(server_->try_post_work(work));
  ASSERT_TRUE(eventually([&] { return server_->stats().workers.n_running == 1; }));
  EXPECT_TRUE(server_->try_post_work(work));
  EXPECT_TRUE(server_->try_post_work(work));
  EXPECT_FALSE(server_->try_post_work(work));
  server_->post_work(work);  // what ends a request is always taken
  EXPECT_EQ(server_->stats().workers.n_queued, 3u);
  EXPECT_TRUE(eventually([&] { return server_->stats().workers.longest >= 20ms; }));
  gate.unlock();
  EXPECT_TRUE(eventually([&] { return n_done == 4 && server_->stats().workers.n_running == 0; }));
}

// Sixty texts of 2 MB to tokenize kept a small request waiting for seconds.
TEST_F(HttpServerTest, SmallWorkDoesNotWaitForLargeWork) {
  start({.n_workers = 2});
  std::mutex gate;
  gate.lock();
  std::atomic<int> n_large = 0, n_small = 0;
  for (int i = 0; i < 3; i++) {
    server_->post_work(
        [&] {
          const std::lock_guard wait(gate);
          n_large++;
        },
        WorkSize::large);
  }
  ASSERT_TRUE(eventually([&] { return server_->stats().workers.n_running == 1; }));
  for (int i = 0; i < 3; i++) server_->post_work([&] { n_small++; });
  EXPECT_TRUE(eventually([&] { return n_small == 3; }));
  EXPECT_EQ(n_large, 0);
  gate.unlock();
  EXPECT_TRUE(eventually([&] { return n_large == 3 && server_->stats().workers.n_running == 0; }));
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
