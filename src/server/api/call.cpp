#include "server/api/call.h"

#include <fmt/core.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/log.h"
#include "server/api/fields.h"

namespace rocmforge::server {

namespace {

// A bijection that scatters its input over 64 bits (splitmix64).
uint64_t scatter(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr size_t kMaxModelNameBytes = 512;
// A value in memory takes ten times what "1," takes in a text: their number is bounded before any is made.
constexpr size_t kMaxJsonValues = 1u << 20;

// At least as many as there are: one, and one for each comma and bracket outside of strings.
size_t count_values(std::string_view json) {
  size_t n = 1;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); i++) {
    const char c = json[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      i += c == '\\';
    } else {
      n += c == ',' || c == '[' || c == '{';
    }
  }
  return n;
}

}  // namespace

std::string ApiShared::make_id(std::string_view prefix) {
  const uint64_t n = n_ids++;
  return fmt::format("{}-{:016x}{:08x}", prefix, scatter(id_salt ^ n), n);
}

uint64_t ApiShared::random_seed() {
  return scatter(~id_salt ^ n_ids++);
}

void Call::respond(ResponseHead head, std::string body) const {
  if (!origin.empty()) {
    head.headers.push_back({"Access-Control-Allow-Origin", origin});
    head.headers.push_back({"Vary", "Origin"});
  }
  shared->metrics.answered(head.status);
  exchange->respond(std::move(head), std::move(body));
}

void Call::respond(int status, std::string json, std::vector<Header> headers) const {
  respond(ResponseHead{.status = status, .headers = std::move(headers)}, std::move(json));
}

void Call::refuse(const ApiError& error) const {
  respond(error.head(), error.to_json());
}

void Call::start_event_stream() const {
  ResponseHead head{.content_type = "text/event-stream",
                    .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                    .ping = ":\n\n"};
  if (!origin.empty()) {
    head.headers.push_back({"Access-Control-Allow-Origin", origin});
    head.headers.push_back({"Vary", "Origin"});
  }
  shared->metrics.answered(head.status);
  exchange->start_stream(std::move(head));
  exchange->write(":\n\n");  // the client sees a living stream before the prompt is computed
}

void Call::give_up(const std::exception& why) const noexcept {
  try {
    log(LogLevel::error, "server: a request failed: {}", why.what());
    const bool is_short = dynamic_cast<const std::bad_alloc*>(&why) != nullptr;  // of memory
    const ApiError error =
        is_short ? ApiError::out_of_memory()
                 : ApiError{.status = 500, .message = "The server failed at this request.", .code = "internal_error"};
    shared->metrics.answered(error.status);
    exchange->give_up(error.head(), error.to_json());
  } catch (const std::exception&) {  // not even an error can be said
    exchange->cancel();
  }
}

std::optional<JsonValue> Call::read_body() const {
  const std::string body = exchange->take_body();
  if (count_values(body) > kMaxJsonValues) {
    refuse({.status = 400, .message = "The body holds more values than are accepted.", .code = "request_too_large"});
    return {};
  }
  auto parsed = parse_json(body);
  if (!parsed.ok()) {
    refuse({.status = 400, .message = "The body is not JSON: " + parsed.error().message, .code = "invalid_json"});
    return {};
  }
  if (!parsed->as<JsonObject>()) {
    refuse({.status = 400, .message = "The body must be a JSON object.", .code = "invalid_json"});
    return {};
  }
  return std::move(*parsed);
}

void Call::with_model(const JsonValue& body, WithModel then) const {
  Fields fields(body);
  const std::string name = fields.text("model", kMaxModelNameBytes).value_or("");
  const bool wait = fields.boolean("wait_for_model").value_or(true);
  if (fields.error()) return refuse(*fields.error());
  const std::string wanted = name.empty() ? shared->models.default_name() : name;
  // Whoever takes it answers: the model, when it comes, or who does not wait for it. What a request holds goes with it.
  struct Waiting {
    std::atomic<bool> is_taken = false;
    std::optional<Call> call;
    WithModel then;
    ~Waiting() {
      if (!is_taken && call) call->give_up(std::bad_alloc());  // dropped by who had no memory to answer
    }
  };
  const auto waiting = std::make_shared<Waiting>();
  waiting->call = *this;
  waiting->then = std::move(then);
  shared->models.acquire(wanted, [waiting](Result<ModelRef> model) {
    if (waiting->is_taken.exchange(true)) return;
    waiting->call->attempt([&] {
      if (!model.ok()) return waiting->call->refuse(ApiError::from(model.error()));
      waiting->call->shared->post_work([waiting, ready = std::move(*model)]() mutable {
        waiting->call->attempt([&] { waiting->then(std::move(ready)); });
      });
    });
  });
  if (wait || waiting->is_taken.exchange(true)) return;
  waiting->call.reset();
  waiting->then = nullptr;
  refuse(ApiError::unavailable("The model is being loaded.", "model_loading", 1));
}

}  // namespace rocmforge::server
