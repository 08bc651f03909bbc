#pragma once
// The whole server: models from a registry, the API over them, HTTP in front; and its orderly end.
//
// A drain: /ready answers 503, new requests are refused, and running requests may continue until the last quarter of
// the drain time. Requests that still run then end with an error event. run() returns when the last answer has been
// sent or the time for sending is over. At the end of the drain time the process ends in any case: with exit code 3 if
// a thread is stuck. A second signal ends the process at once (exit code 1).
//
// The metrics port has its own event loop and connections: it answers while the API's port is full.
//
// Threads: run() is the event loop. Any thread may call the other members.

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
  std::chrono::milliseconds drain = std::chrono::seconds(30);  // until the process ends; at least one second
};

class Server {
 public:
  // Listens. `registry` must outlive the server; the registry is stopped when run() returns.
  // Errors: as HttpServer::listen.
  static Result<std::unique_ptr<Server>> create(ModelRegistry& registry, const ServerOptions& options);
  ~Server();

  const std::string& address() const;
  uint16_t port() const;
  std::string metrics_address() const;  // empty: no metrics port
  std::string_view scheme() const;      // "http" or "https", of both ports
  bool is_loopback() const;             // reachable from this machine only

  // SIGTERM and SIGINT begin a drain, which ends the process when the drain time is over. SIGHUP calls `reload` on a
  // worker thread, one call at a time.
  void handle_signals(std::function<void()> reload);
  // Replaces the keys, for new requests.
  void set_keys(const ApiKeys& keys);
  // What new connections are shown from now on. REQUIRES: options.http.tls was given
  void set_tls(const std::shared_ptr<const TlsContext>& tls);
  // Records the start-up time in the metrics: requests are answered from now on.
  void note_started();
  void begin_drain();
  void run();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rocmforge::server
