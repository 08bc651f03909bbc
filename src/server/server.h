#pragma once
// The whole server: models from a registry, the API over them, HTTP in front; and its orderly end.
//
// A drain: /ready says no, new work is refused, what runs goes on for a while; what is left then ends with an error
// event; when the last answer has been sent, run() returns. A second signal ends the process at once.
//
// Threads: run() is the event loop. The rest may be called from any thread.

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/registry.h"
#include "server/api/call.h"
#include "server/http/http_server.h"

namespace rocmforge::server {

struct ServerOptions {
  HttpOptions http;
  ApiOptions api;
  std::chrono::milliseconds drain = std::chrono::seconds(30);  // what runs may go on for
};

class Server {
 public:
  // Listens. `registry` must outlive the server; its models are ended when run() returns.
  // Errors: as HttpServer::listen.
  static Result<std::unique_ptr<Server>> create(ModelRegistry& registry, const ServerOptions& options);
  ~Server();

  const std::string& address() const;
  uint16_t port() const;
  bool is_loopback() const;  // reached from this machine only

  // SIGTERM and SIGINT begin a drain.
  void handle_signals();
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
