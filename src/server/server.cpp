#include "server/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <fstream>
#include <sstream>

#include "server/api/api.h"
#include "server/api/deliveries.h"
#include "server/api/registry_source.h"

namespace rocmforge::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kStep = 20ms;  // between two looks whether all is done
constexpr auto kFlush = 5s;   // for the last answers to reach their clients

// A connection is a file descriptor, and the usual limit is 1,024 of them.
void raise_descriptor_limit(size_t n) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= n) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, n);
  setrlimit(RLIMIT_NOFILE, &limit);
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
  explicit State(ModelRegistry& given, std::chrono::milliseconds drain_time) : registry(given), drain(drain_time) {}

  void wait_until_idle(std::chrono::milliseconds left);

  ModelRegistry& registry;
  const std::chrono::milliseconds drain;
  std::atomic<bool> is_draining = false;
  std::shared_ptr<Deliveries> deliveries;
  std::unique_ptr<Api> api;
  std::unique_ptr<HttpServer> http;  // last: its workers end first
};

Result<std::unique_ptr<Server>> Server::create(ModelRegistry& registry, const ServerOptions& options) {
  raise_descriptor_limit(options.http.max_connections + 512);
  auto state = std::make_unique<State>(registry, options.drain);
  State* s = state.get();
  state->http = TRY(HttpServer::listen(
      options.http, [s](std::shared_ptr<Exchange> exchange) { s->api->handle(std::move(exchange)); },
      [s](const HttpError& error) { return s->api->answer_error(error); }));
  ApiOptions api = options.api;
  api.access.any_host = api.access.any_host || !state->http->is_loopback();
  const std::string& address = state->http->address();
  api.access.allowed_hosts.push_back(address.substr(0, address.rfind(':')));  // 127.0.0.2 is this machine, too
  api.http_stats = [s] { return s->http->stats(); };
  state->deliveries = Deliveries::make([s](std::function<void()> call) { s->http->post(std::move(call)); });
  state->api = std::make_unique<Api>(registry_source(registry, state->deliveries), std::move(api),
                                     [s](std::function<void()> work) { s->http->post_work(std::move(work)); });
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
bool Server::is_loopback() const {
  return state_->http->is_loopback();
}
void Server::run() {
  state_->http->run();
  state_->deliveries->close();
}
void Server::note_started() {
  state_->api->metrics().started(seconds_since_process_start());
}

void Server::handle_signals() {
  state_->http->on_signal([this](int n) {
    if (n > 1) _exit(1);
    begin_drain();
  });
}

void Server::begin_drain() {
  if (state_->is_draining.exchange(true)) return;
  state_->api->begin_drain();
  state_->registry.begin_drain();
  state_->wait_until_idle(state_->drain);
}

void Server::State::wait_until_idle(std::chrono::milliseconds left) {
  if (left > 0ms && !registry.is_idle()) {
    return http->post_after(kStep, [this, left] { wait_until_idle(left - kStep); });
  }
  http->post_work([this] {  // it waits for the engines' threads
    registry.stop({ErrorCode::draining, "the server is stopping"});
    http->stop(kFlush);
  });
}

}  // namespace rocmforge::server
