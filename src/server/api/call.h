#pragma once
// One request on its way through the API, and what all of them share.
//
// Threads: routes run on a worker thread, or on the event loop where they only look something up; the events of a
// generation come on the event loop, too (deliveries.h). None of it waits for anything.

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "server/api/access.h"
#include "server/api/api_error.h"
#include "server/api/request_table.h"
#include "server/api/served_model.h"
#include "server/http/exchange.h"
#include "server/metrics/metrics.h"

namespace rocmforge::server {

struct ApiOptions {
  Access::Rules access = {};
  std::string fingerprint = "rocmforge";             // system_fingerprint: the build
  uint32_t n_context = 0;                            // as ModelOptions: what was asked for, to tell clients
  Duration stuck_after = std::chrono::seconds(120);  // without a step while there is work: /health says so
  std::function<HttpStats()> http_stats = [] { return HttpStats{}; };
  Clock clock = system_clock();
};

struct ApiShared {
  ModelSource models;
  ApiOptions options;
  Access access;
  Metrics metrics;
  RequestTable requests;
  std::function<void(std::function<void()>)> post_work;  // runs it on a worker thread
  std::atomic<bool> is_draining = false;
  std::atomic<uint64_t> n_ids = 0;
  std::atomic<uint64_t> n_embedding_bytes = 0;  // of answers that are being made or sent
  uint64_t id_salt = 0;                         // random, so that ids of two runs of the server differ

  // A new id: "chatcmpl-5f3a...".
  std::string make_id(std::string_view prefix);
  // Seeds for requests that name none: each another one.
  uint64_t random_seed();
};

struct Call {
  std::shared_ptr<ApiShared> shared;
  std::shared_ptr<Exchange> exchange;
  std::string owner;     // of the API key; empty without keys
  std::string argument;  // the rest of the path, for routes that take one
  std::string origin;    // allowed to read the answer
  TimePoint arrived;

  // The answer, one of these.
  void respond(int status, std::string json, std::vector<Header> headers = {}) const;
  void refuse(const ApiError& error) const;
  void respond(ResponseHead head, std::string body) const;
  void start_event_stream() const;

  // Ends the request, whatever has become of it: with an error if nothing was sent yet, else by closing.
  void give_up(const std::exception& why) const noexcept;

  // Does a part of this request's work. Our code throws nothing, but memory can run out: that is this request's end,
  // not everybody's. False: it was given up.
  template <class Work>
  bool attempt(Work&& work) const noexcept {
    try {
      work();
      return true;
    } catch (const std::exception& e) {
      give_up(e);
      return false;
    }
  }

  // The body as a JSON object; refuses and gives nothing when it is not one.
  std::optional<JsonValue> read_body() const;

  // Calls `then` on a worker thread with the model that the request names in `model`, or refuses.
  using WithModel = std::function<void(ModelRef)>;
  void with_model(const JsonValue& body, WithModel then) const;
};

}  // namespace rocmforge::server
