#pragma once
// The HTTP API: exchanges in, each sent to its route, or refused. Knows no sockets.
//
// Every route needs an API key when there are any, except those that say so here: /health, /ready, the page and its
// parts, and OPTIONS. What a request is for is decided once, from its path as it was sent; whether it may is decided
// from that alone. A path with tricks in it (//, .., %2e, ;) is the path of no route.
//
// Threads: handle() on the event loop; see call.h.

#include <functional>
#include <memory>

#include "server/api/call.h"

namespace rocmforge::server {

class Api {
 public:
  // `post_work` runs a function on a worker thread.
  Api(ModelSource models, ApiOptions options, std::function<void(std::function<void()>)> post_work);

  void handle(std::shared_ptr<Exchange> exchange) const;
  // The answer to what is not a request.
  std::pair<ResponseHead, std::string> answer_error(const HttpError& error) const;

  // From now on requests for work get 503 and /ready says so.
  void begin_drain();
  Metrics& metrics() const { return shared_->metrics; }

 private:
  void dispatch(Call& call) const;

  std::shared_ptr<ApiShared> shared_;
};

}  // namespace rocmforge::server
