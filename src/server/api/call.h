#pragma once
// One request on its way through the API, and what all of them share.
//
// Threads: routes run on a worker thread, or on the event loop where they only look something up; the events of a
// generation come on the event loop, too (deliveries.h). None of it waits for anything.

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/attempt.h"
#include "base/clock.h"
#include "base/json.h"
#include "server/api/access.h"
#include "server/api/answer_memory.h"
#include "server/api/api_error.h"
#include "server/api/request_log.h"
#include "server/api/request_table.h"
#include "server/api/response_store.h"
#include "server/api/served_model.h"
#include "server/http/exchange.h"
#include "server/http/workers.h"
#include "server/metrics/metrics.h"

namespace rocmforge::server {

struct ApiOptions {
  Access::Rules access = {};
  std::string fingerprint = "rocmforge";  // system_fingerprint: the build
  uint32_t n_context = 0;                 // as ModelOptions: what was asked for, to tell clients
  int overload_status = 429;              // of a request that finds the queue full; proxies retry on 503
  uint32_t n_parallel = 64;               // requests of a model that run at once, to tell clients
  // Further names of models, to which requests may go: llama.cpp's and Claude Code's clients ask for some of their own.
  std::map<std::string, std::string, std::less<>> aliases = {};
  SamplingOptions sampling = {};  // where a request says nothing; the seed is not used
  // /health is not ok when an engine with work has ended no step and read no weights for so long,
  Duration stuck_after = std::chrono::seconds(120);
  // or a worker has been at one piece of work for so long.
  Duration worker_stuck_after = std::chrono::seconds(30);
  std::function<HttpStats()> http_stats = [] { return HttpStats{}; };
  // The parsed form of a request is larger than its bytes: one, and all that are held at once.
  uint64_t max_parsed_bytes = 64u << 20, max_bytes_of_parsed = 256u << 20;
  // An answer in one piece, and all that are being made or sent.
  uint64_t max_answer_bytes = 64u << 20, max_bytes_of_answers = 256u << 20;
  ResponseStore::Limits responses = {};  // answers of the Responses API that are kept
  // The tokens of answers that may come back as history: four bytes each.
  ResponseStore::Limits answer_tokens = {.max_count = 4000, .max_bytes = 8u << 20, .max_bytes_of_all = 64u << 20};
  Clock clock = system_clock();
};

// When weights were last seen to come in, by model: a step may wait for a slow disk and not be stuck.
class LoadWatch {
 public:
  // The last time at which `read_bytes` was seen to have changed.
  TimePoint last_change(const std::string& model, uint64_t read_bytes, TimePoint now);

 private:
  struct Seen {
    uint64_t read_bytes = 0;
    TimePoint at{};
  };
  std::mutex mutex_;
  std::map<std::string, Seen> seen_;
};

// Run a function on a worker thread.
using PostWork = std::function<void(std::function<void()>, WorkSize)>;
using TryPostWork = std::function<bool(std::function<void()>, WorkSize)>;

struct ApiShared {
  ModelSource models;
  ApiOptions options;
  Access access;
  Metrics metrics;
  RequestTable requests;
  PostWork post;
  TryPostWork try_post_work;  // the same for a new request; false: too many wait
  std::shared_ptr<ByteBudget> parsed, answers;
  std::atomic<bool> is_draining = false;
  LoadWatch load_watch = {};
  ResponseStore responses{options.responses, options.clock};
  AnswerMemory known_answers{options.answer_tokens, options.clock};

  void post_work(std::function<void()> work, WorkSize size = WorkSize::small) { post(std::move(work), size); }
};

// A new id, "chatcmpl-5f3a...", of 96 random bits: who has seen some cannot guess others, and an id is what
// /cancel asks for.
std::string make_id(std::string_view prefix, char separator = '-');

// At least what a JSON text takes in memory when it is parsed.
uint64_t parsed_bytes(std::string_view json);

struct Call {
  std::shared_ptr<ApiShared> shared;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<RequestRecord> record;
  Client client;         // see is_identified
  std::string argument;  // the rest of the path, for routes that take one
  std::string origin;    // allowed to read the answer
  Dialect dialect = Dialect::openai;
  TimePoint arrived{};
  bool is_identified = false;  // false: a key is needed and was not given; only open routes are reached
  WorkSize work_size = WorkSize::small;

  // The answer, one of these.
  void respond(int status, std::string json, std::vector<Header> headers = {}) const;
  void refuse(const ApiError& error) const;
  void respond(ResponseHead head, std::string body) const;
  void start_stream(ResponseHead head) const;

  // Names members of the body that have no effect, in a header of the answer to come; "": there are none.
  void tell_ignored(std::string names) const;

  // Ends the request, whatever has become of it: with an error if nothing was sent yet, else by closing.
  void give_up(const std::exception& why) const noexcept;

  // Does a part of this request's work. Our code throws nothing, but memory can run out: that is this request's end,
  // not everybody's. False: it was given up.
  template <class Work>
  bool attempt(Work&& work) const noexcept {
    return rocmforge::attempt(work, [this](const std::exception& why) { give_up(why); });
  }

  // Whether the client has left: nobody waits for the rest of the work. Asked between the parts of long work.
  bool is_abandoned() const { return exchange->is_cancelled(); }

  // Counts an answer that may take so many bytes, before it is made. False: it may not be made now or at all, and was
  // refused; `advice` says how to ask for less.
  bool hold_answer(uint64_t n_bytes, std::string_view param, std::string_view advice) const;

  // The body as a JSON object, counted while it lives. Refuses and gives null when it is not one, or too large; null
  // also when the client has left.
  std::shared_ptr<JsonValue> read_body() const;

  // Calls `then` on a worker thread with the model that the request names in `model`, or refuses.
  using WithModel = std::function<void(ModelRef)>;
  void with_model(const JsonValue& body, WithModel then) const;

 private:
  // What every answer has: its id, what was ignored, and who may read it.
  ResponseHead complete(ResponseHead head) const;
};

}  // namespace rocmforge::server
