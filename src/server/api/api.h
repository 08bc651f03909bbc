#pragma once
// The HTTP API: exchanges in, each sent to its route, or refused. Knows no sockets.
//
// Every route needs an API key when there are any, except those that say so here: /health, /ready, the page and its
// parts, and OPTIONS. What a request is for is decided once, from its path as it was sent; whether it may is decided
// from that alone. A path with tricks in it (//, .., %2e, ;) is the path of no route.
//
// A port for metrics (Port::metrics) has /metrics, /health and /ready, without a key, and nothing else.
//
// Threads: handle() on the event loop; see call.h. The metrics port has an event loop of its own.

#include <functional>
#include <memory>
#include <optional>

#include "server/api/call.h"

namespace rocmforge::server {

enum class Port : uint8_t { api, metrics };  // where a request came in

class Api {
 public:
  // `post_work` runs a function on a worker thread; `try_post_work` does so for a new request, and says no when too
  // many wait. Without it all are taken.
  Api(ModelSource models, ApiOptions options, PostWork post_work, TryPostWork try_post_work = {});

  void handle(std::shared_ptr<Exchange> exchange, Port port = Port::api) const;
  // How long a body the request may bring, by its head alone: SIZE_MAX leaves that to the server. Nothing: handle()
  // refuses it whatever its body is.
  std::optional<size_t> judge_head(const Request& head, Port port = Port::api) const;
  // The answer to what is not a request.
  std::pair<ResponseHead, std::string> answer_error(const HttpError& error) const;

  // From now on these keys count.
  void set_keys(const ApiKeys& keys);
  // From now on requests for work get 503 and /ready says so.
  void begin_drain();
  Metrics& metrics() const { return shared_->metrics; }

 private:
  struct Judgement;
  Judgement judge(const Request& request, Port port) const;
  void judge_metrics_port(const Request& request, Judgement& out) const;
  void dispatch(Call& call, Port port) const;

  std::shared_ptr<ApiShared> shared_;
};

}  // namespace rocmforge::server
