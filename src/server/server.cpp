#include "server/server.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/log.h"
#include "base/thread.h"
#include "server/api/api.h"
#include "server/api/deliveries.h"
#include "server/api/registry_source.h"

namespace rocmforge::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kStep = 20ms;  // between two looks whether all is done
constexpr size_t kMaxMetricsConnections = 64;

constexpr std::chrono::milliseconds kLeastTimeToEnd = 1s;

// The last part of the drain: requests that still run are ended.
std::chrono::milliseconds ending_time(std::chrono::milliseconds drain) {
  return std::clamp<std::chrono::milliseconds>(drain / 4, 500ms, 5s);
}
// The part of it in which their last events may still be sent; the rest is for giving back the models' memory.
std::chrono::milliseconds flush_time(std::chrono::milliseconds drain) {
  return ending_time(drain) * 3 / 5;
}

// A connection is a file descriptor, and the usual limit is 1,024 of them.
void raise_descriptor_limit(size_t n) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= n) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, n);
  setrlimit(RLIMIT_NOFILE, &limit);
}

constexpr int kStuckExitCode = 3;

// Ends the process after a while, even if all of its threads are stuck: a signal handler needs none of them.
void end_process_after(std::chrono::milliseconds patience) {
  std::signal(SIGALRM, [](int) { _exit(kStuckExitCode); });
  itimerval timer{};
  timer.it_value.tv_sec = patience.count() / 1000;
  timer.it_value.tv_usec = patience.count() % 1000 * 1000 + 1;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // After the name, which may hold anything, in parentheses: the start time is the 20th value.
  std::istringstream values(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int i = 0; i < 19; i++) values >> skipped;
  double ticks = 0;
  timespec now{};
  if (!(values >> ticks) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 -
         ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

struct Server::State {
  State(ModelRegistry& given, const ServerOptions& options)
      : registry(given),
        drain(options.drain),
        end_after(std::max(options.drain, kLeastTimeToEnd)),
        is_encrypted(options.http.tls != nullptr) {}

  void wait_until_idle(std::chrono::milliseconds left);

  ModelRegistry& registry;
  const std::chrono::milliseconds drain, end_after;
  const bool is_encrypted;
  std::atomic<bool> is_draining = false, handles_signals = false;
  std::mutex reload_mutex;
  std::shared_ptr<Deliveries> deliveries;
  std::unique_ptr<Api> api;
  std::unique_ptr<HttpServer> metrics_http;  // null: there is no such port
  std::unique_ptr<HttpServer> http;          // last: its workers end first
};

Result<std::unique_ptr<Server>> Server::create(ModelRegistry& registry, const ServerOptions& options) {
  raise_descriptor_limit(options.http.max_connections + 512);
  auto state = std::make_unique<State>(registry, options);
  State* s = state.get();
  state->http = TRY(HttpServer::listen(
      options.http, [s](std::shared_ptr<Exchange> exchange) { s->api->handle(std::move(exchange)); },
      [s](const HttpError& error) { return s->api->answer_error(error); },
      [s](const Request& head) { return s->api->judge_head(head); }));
  if (options.metrics_port) {
    HttpOptions http = options.http;
    http.port = *options.metrics_port;
    http.max_connections = kMaxMetricsConnections;
    http.max_bytes_of_bodies = 1u << 20;
    http.n_workers = 1;  // none of the routes needs it
    state->metrics_http = TRY(HttpServer::listen(
        http, [s](std::shared_ptr<Exchange> exchange) { s->api->handle(std::move(exchange), Port::metrics); },
        [s](const HttpError& error) { return s->api->answer_error(error); },
        [s](const Request& head) { return s->api->judge_head(head, Port::metrics); }));
  }
  ApiOptions api = options.api;
  api.access.any_host = api.access.any_host || !state->http->is_loopback();
  const std::string& address = state->http->address();
  api.access.allowed_hosts.push_back(address.substr(0, address.rfind(':')));  // 127.0.0.2 is this machine, too
  api.http_stats = [s] { return s->http->stats(); };
  state->deliveries = Deliveries::make([s](std::function<void()> call) { s->http->post(std::move(call)); });
  state->api = std::make_unique<Api>(
      registry_source(registry, state->deliveries), std::move(api),
      [s](std::function<void()> work, WorkSize size) { s->http->post_work(std::move(work), size); },
      [s](std::function<void()> work, WorkSize size) { return s->http->try_post_work(std::move(work), size); });
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() {
  state_->deliveries->close();
}

const std::string& Server::address() const {
  return state_->http->address();
}
uint16_t Server::port() const {
  return state_->http->port();
}
std::string Server::metrics_address() const {
  return state_->metrics_http ? state_->metrics_http->address() : "";
}
std::string_view Server::scheme() const {
  return state_->is_encrypted ? "https" : "http";
}
bool Server::is_loopback() const {
  return state_->http->is_loopback();
}

void Server::run() {
  std::thread metrics;
  if (state_->metrics_http) {
    auto started = start_thread([http = state_->metrics_http.get()] { http->run(); });
    if (started.ok()) {
      metrics = std::move(*started);
    } else {
      log(LogLevel::error, "server: the metrics port answers nobody: {}", started.error().message);
    }
  }
  state_->http->run();
  if (metrics.joinable()) {
    state_->metrics_http->stop(0ms);
    metrics.join();
  }
  state_->deliveries->close();
}
void Server::note_started() {
  state_->api->metrics().started(seconds_since_process_start());
}

void Server::handle_signals(std::function<void()> reload) {
  state_->handles_signals = true;
  state_->http->on_signal([this](int n) {
    if (n > 1) _exit(1);
    begin_drain();
  });
  state_->http->on_hangup([this, reload = std::move(reload)] {
    state_->http->post_work([this, reload] {
      const std::lock_guard lock(state_->reload_mutex);
      reload();
    });
  });
}

void Server::set_keys(const ApiKeys& keys) {
  state_->api->set_keys(keys);
}

void Server::set_tls(const std::shared_ptr<const TlsContext>& tls) {
  state_->http->set_tls(tls);
  if (state_->metrics_http) state_->metrics_http->set_tls(tls);
}

void Server::begin_drain() {
  if (state_->is_draining.exchange(true)) return;
  const auto for_requests = std::max(0ms, state_->drain - ending_time(state_->drain));
  log(LogLevel::info, "drain begins: running requests have {} s, and the process ends within {} s",
      std::chrono::duration<double>(for_requests).count(), std::chrono::duration<double>(state_->end_after).count());
  if (state_->handles_signals) end_process_after(state_->end_after);
  state_->api->begin_drain();
  state_->registry.begin_drain();
  state_->wait_until_idle(for_requests);
}

void Server::State::wait_until_idle(std::chrono::milliseconds left) {
  if (left > 0ms && !registry.is_idle()) {
    return http->post_after(kStep, [this, left] { wait_until_idle(left - kStep); });
  }
  log(LogLevel::info, "drain ends: {}",
      registry.is_idle() ? "no request is left" : "requests that still run are ended");
  http->post_work([this] {  // it waits for the engines' threads
    registry.stop({ErrorCode::draining, "the server is stopping"});
    http->stop(flush_time(drain));
  });
}

}  // namespace rocmforge::server
