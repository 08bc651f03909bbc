#pragma once
// The HTTP API: sends each exchange to its route or refuses it. Knows no sockets.
//
// If API keys are set, every route needs one, except /health, /ready, the page and its parts, and OPTIONS. The route is
// determined once, by the path as sent, and access by the route alone. Paths are not normalised: //, .., %2e and ;
// match no route.
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
  // `post_work` runs a function on a worker thread. `try_post_work` does so for a new request, and returns false if the
  // queue is full; without it every request is accepted.
  Api(ModelSource models, ApiOptions options, PostWork post_work, TryPostWork try_post_work = {});

  void handle(std::shared_ptr<Exchange> exchange, Port port = Port::api) const;
  // The allowed length of the body, by the head; SIZE_MAX: the server's limit. None: handle() refuses the request
  // without its body.
  std::optional<size_t> judge_head(const Request& head, Port port = Port::api) const;
  // The answer to a malformed request.
  std::pair<ResponseHead, std::string> answer_error(const HttpError& error) const;

  // Replaces the keys, for new requests.
  void set_keys(const ApiKeys& keys);
  // From now on /ready and new requests for work get 503.
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
