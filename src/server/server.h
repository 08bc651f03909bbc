#pragma once
// The whole server: models from a registry, the API over them, HTTP in front; and its orderly end.
//
// A drain: /ready says no, new work is refused, what runs goes on for a while; what is left then ends with an error
// event; when the last answer has been sent, or the drain's time is over, run() returns. A second signal ends the
// process at once (exit code 1). A drain that does not come to its end, because something is stuck, ends the process,
// too (exit code 3).
//
// The metrics port has its own event loop and connections: it answers while the other is full.
//
// Threads: run() is the event loop. The rest may be called from any thread.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/registry.h"
#include "server/api/call.h"
#include "server/http/http_server.h"

namespace rocmforge::server {

struct ServerOptions {
  HttpOptions http;
  ApiOptions api;
  std::optional<uint16_t> metrics_port;  // /metrics, /health, /ready without a key, on the same host; 0: any free one
  std::chrono::milliseconds drain = std::chrono::seconds(30);      // until run() returns, or half a second
  std::chrono::milliseconds end_after = std::chrono::seconds(10);  // the drain, after handle_signals()
};

class Server {
 public:
  // Listens. `registry` must outlive the server; its models are ended when run() returns.
  // Errors: as HttpServer::listen.
  static Result<std::unique_ptr<Server>> create(ModelRegistry& registry, const ServerOptions& options);
  ~Server();

  const std::string& address() const;
  uint16_t port() const;
  std::string metrics_address() const;  // empty: there is none
  bool is_loopback() const;             // reached from this machine only

  // SIGTERM and SIGINT begin a drain. SIGHUP calls `reload` on a worker thread, once at a time.
  void handle_signals(std::function<void()> reload);
  // From now on these keys count, for new requests.
  void set_keys(const ApiKeys& keys);
  // Tells the metrics that requests are answered from now on.
  void note_started();
  void begin_drain();
  void run();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge::server
