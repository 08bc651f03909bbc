#include "server/http/http_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <unordered_set>

#include "base/attempt.h"
#include "base/check.h"
#include "base/log.h"
#include "server/http/connection.h"

namespace rocmforge::server {

namespace asio = boost::asio;
using asio::ip::tcp;

struct HttpServer::State {
  State(const HttpOptions& given, Handler handler, ErrorAnswer error_answer, HeadJudge head_judge)
      : options(given),
        handle(std::move(handler)),
        answer_error(std::move(error_answer)),
        judge_head(std::move(head_judge)) {}

  void wait_for_connection();
  void wait_for_sweep();
  void wait_for_signal();
  void wait_for_hangup();
  void cancel_waits();
  void adopt(tcp::socket socket);
  bool make_room();
  bool drop_slowest_body(const Connection& asking, uint64_t n_bytes);
  void sweep();

  const HttpOptions options;
  const Handler handle;
  const ErrorAnswer answer_error;
  const HeadJudge judge_head;
  std::string address;
  asio::ip::address bound;
  uint16_t port = 0;

  asio::io_context loop{1};
  tcp::acceptor acceptor{loop};
  asio::steady_timer accept_pause{loop}, next_sweep{loop};
  asio::signal_set signals{loop}, hangups{loop};
  ConnectionContext context{options,
                            handle,
                            answer_error,
                            judge_head,
                            std::make_shared<ByteBudget>(options.max_bytes_of_bodies),
                            [this](const Connection& asking, uint64_t n) { return drop_slowest_body(asking, n); }};
  std::shared_ptr<const TlsContext> tls{options.tls};  // of new connections
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::function<void(int)> signalled;
  std::function<void()> hung_up;
  int n_signals = 0;
  std::atomic<size_t> n_connections = 0;
  std::atomic<uint64_t> n_accepted = 0, n_refused = 0, n_made_room = 0, n_dropped_bodies = 0;
  std::unique_ptr<Workers> workers;  // last: its threads end first
};

namespace {

constexpr int kBacklog = 1024;

Error cannot_listen(const std::string& where, const boost::system::error_code& error) {
  return {ErrorCode::unsupported, fmt::format("server: cannot listen on {}: {}", where, error.message())};
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpOptions& options, Handler handler,
                                                       ErrorAnswer error_answer, HeadJudge judge_head) {
  auto state = std::make_unique<State>(options, std::move(handler), std::move(error_answer), std::move(judge_head));
  boost::system::error_code error;
  state->bound = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error) {
    return Error{ErrorCode::invalid_argument, fmt::format("server: '{}' is not an address to listen on", options.host)};
  }
  const tcp::endpoint endpoint(state->bound, options.port);
  const std::string where = fmt::format("{}:{}", options.host, options.port);
  if (state->acceptor.open(endpoint.protocol(), error); error) return cannot_listen(where, error);
  state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (state->acceptor.bind(endpoint, error); error) return cannot_listen(where, error);
  if (state->acceptor.listen(kBacklog, error); error) return cannot_listen(where, error);
  state->port = state->acceptor.local_endpoint(error).port();
  state->workers = TRY(Workers::start(options.n_workers, options.max_queued_work));
  const std::string name = state->bound.to_string();
  state->address = fmt::format("{}:{}", state->bound.is_v6() ? "[" + name + "]" : name, state->port);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

const std::string& HttpServer::address() const {
  return state_->address;
}
uint16_t HttpServer::port() const {
  return state_->port;
}
bool HttpServer::is_loopback() const {
  return state_->bound.is_loopback();
}

HttpStats HttpServer::stats() const {
  const State& s = *state_;
  return {.n_connections = s.n_connections,
          .n_accepted = s.n_accepted,
          .n_refused = s.n_refused,
          .n_made_room = s.n_made_room,
          .n_dropped_bodies = s.n_dropped_bodies,
          .body_bytes = s.context.bodies->used_bytes(),
          .workers = s.workers->stats()};
}

// Closes the connection that has been waiting for a request the longest. False: all of them are at work.
bool HttpServer::State::make_room() {
  const auto now = std::chrono::steady_clock::now();
  Connection* longest = nullptr;
  Connection::Time since = Connection::Time::max();
  for (const auto& connection : connections) {
    const auto waits_since = connection->waits_for_request_since(now);
    if (!waits_since || *waits_since >= since) continue;
    longest = connection.get();
    since = *waits_since;
  }
  if (!longest) return false;
  longest->close();
  n_made_room++;
  return true;
}

bool HttpServer::State::drop_slowest_body(const Connection& asking, uint64_t n_bytes) {
  Connection* slowest = nullptr;
  Connection::BodyProgress least{};
  for (const auto& connection : connections) {
    const auto progress = connection->body_progress();
    if (!progress || progress->n_held_bytes < n_bytes) continue;
    const bool is_slower = !slowest || progress->n_recent_bytes < least.n_recent_bytes ||
                           (progress->n_recent_bytes == least.n_recent_bytes && progress->begin < least.begin);
    if (!is_slower) continue;
    slowest = connection.get();
    least = *progress;
  }
  if (!slowest || slowest == &asking) return false;
  slowest->drop_body();
  n_dropped_bodies++;
  return true;
}

void HttpServer::State::adopt(tcp::socket socket) {
  const auto connection = std::make_shared<Connection>(std::move(socket), tls, context);
  // One too many takes the place of one that only waits, or gets an answer; many too many get none.
  const bool is_full = connections.size() >= options.max_connections &&
                       std::ranges::count_if(connections, [](const auto& c) { return !c->is_closed(); }) >=
                           static_cast<ptrdiff_t>(options.max_connections);
  const bool is_welcome = !is_full || make_room();
  if (!is_welcome) {
    n_refused++;
    if (connections.size() >= options.max_connections + 64) return connection->close();
  }
  n_accepted++;
  connections.insert(connection);
  n_connections = connections.size();
  const auto forget = [this, connection](std::exception_ptr) {
    connection->close();
    connections.erase(connection);
    n_connections = connections.size();
  };
  try {
    asio::co_spawn(loop, is_welcome ? connection->serve() : connection->refuse(), forget);
  } catch (const std::bad_alloc&) {
    forget(nullptr);
  }
}

void HttpServer::State::wait_for_connection() {
  acceptor.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
    if (!error) {
      attempt_in("server", [&] { adopt(std::move(socket)); });
      return wait_for_connection();
    }
    // Mostly: no file descriptor left. Those who wait in the backlog may get one later.
    log(LogLevel::warn, "server: cannot accept a connection: {}", error.message());
    accept_pause.expires_after(std::chrono::milliseconds(100));
    accept_pause.async_wait([this](const boost::system::error_code& ended) {
      if (!ended) wait_for_connection();
    });
  });
}

void HttpServer::State::sweep() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& connection : connections) attempt_in("server", [&] { connection->sweep(now); });
  // Asio drops a coroutine for whose next wait there is no memory. Such a connection is held by nobody else.
  std::erase_if(connections, [](const auto& connection) { return connection.use_count() == 1; });
  n_connections = connections.size();
}

void HttpServer::State::wait_for_sweep() {
  next_sweep.expires_after(options.sweep);
  next_sweep.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    sweep();
    wait_for_sweep();
  });
}

void HttpServer::State::wait_for_signal() {
  signals.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    n_signals++;
    wait_for_signal();
    signalled(n_signals);
  });
}

void HttpServer::State::wait_for_hangup() {
  hangups.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    wait_for_hangup();
    hung_up();
  });
}

void HttpServer::State::cancel_waits() {
  boost::system::error_code ignored;
  acceptor.cancel(ignored);
  signals.cancel(ignored);
  hangups.cancel(ignored);
  accept_pause.cancel();
  next_sweep.cancel();
}

void HttpServer::run() {
  State& s = *state_;
  const auto run_once = [&s] {
    s.wait_for_connection();
    s.wait_for_sweep();
    if (s.signalled) s.wait_for_signal();
    if (s.hung_up) s.wait_for_hangup();
    s.loop.run();
  };
  // Where memory has run out it is not known which of the waits go on: they begin anew.
  while (!attempt_in("server", run_once)) s.cancel_waits();
  s.connections.clear();
  s.n_connections = 0;
}

void HttpServer::set_tls(std::shared_ptr<const TlsContext> tls) {
  CHECK(state_->options.tls && tls);
  post([state = state_.get(), tls = std::move(tls)] { state->tls = tls; });
}

void HttpServer::stop(std::chrono::milliseconds grace) {
  State* state = state_.get();
  asio::post(state->loop, [this, state, grace] {
    boost::system::error_code ignored;
    state->acceptor.close(ignored);
    state->context.is_stopping = true;
    const auto connections = state->connections;
    for (const auto& connection : connections) connection->close_when_idle();
    if (connections.empty() || grace.count() <= 0) {
      for (const auto& connection : connections) connection->close();
      state->signals.cancel(ignored);
      return state->loop.stop();
    }
    const auto step = std::min(grace, std::chrono::milliseconds(20));
    post_after(step, [this, rest = grace - step] { stop(rest); });
  });
}

void HttpServer::post_work(std::function<void()> work, WorkSize size) {
  state_->workers->post(std::move(work), size);
}

bool HttpServer::try_post_work(std::function<void()> work, WorkSize size) {
  return state_->workers->try_post(std::move(work), size);
}

void HttpServer::post(std::function<void()> call) {
  asio::post(state_->loop, std::move(call));
}

void HttpServer::post_after(std::chrono::milliseconds delay, std::function<void()> call) {
  asio::post(state_->loop, [this, delay, call = std::move(call)]() mutable {
    auto timer = std::make_shared<asio::steady_timer>(state_->loop, delay);
    timer->async_wait([timer, call = std::move(call)](const boost::system::error_code& error) {
      if (!error) call();
    });
  });
}

void HttpServer::on_signal(std::function<void(int)> call) {
  State* state = state_.get();
  state->signalled = std::move(call);
  boost::system::error_code ignored;
  state->signals.add(SIGTERM, ignored);
  state->signals.add(SIGINT, ignored);
}

void HttpServer::on_hangup(std::function<void()> call) {
  state_->hung_up = std::move(call);
  boost::system::error_code ignored;
  state_->hangups.add(SIGHUP, ignored);
}

}  // namespace rocmforge::server
