#include "server/api/call.h"

#include <fmt/core.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "server/api/constraint_fields.h"
#include "server/api/fields.h"

namespace rocmforge::server {

namespace {

constexpr size_t kMaxModelNameBytes = 512;
// A value in memory takes ten times what "1," takes in a text: their number is bounded before any is made.
constexpr size_t kMaxJsonValues = 1u << 20;
constexpr size_t kMaxJsonMembers = 4096;  // of one object; readers of requests look members up one after the other

// At least what a text becomes when it is parsed.
struct ParsedSize {
  size_t n_values = 1;
  uint64_t n_bytes = 0;
};

// Every value stands behind a comma or a bracket outside of strings, every key before a colon.
ParsedSize parsed_size(std::string_view json) {
  constexpr uint64_t kValueBytes = sizeof(JsonValue), kKeyBytes = sizeof(JsonObject::value_type) - sizeof(JsonValue),
                     kHeapBytes = 32;  // around what a value or key holds elsewhere
  size_t n_keys = 0, n_texts = 0, n_opened = 0, n_commas = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); i++) {
    const char c = json[i];
    if (c == '"') {
      in_string = !in_string;
      n_texts += in_string;
    } else if (in_string) {
      i += c == '\\';
    } else {
      n_commas += c == ',';
      n_keys += c == ':';
      n_opened += c == '[' || c == '{';
    }
  }
  ParsedSize size;
  size.n_values += n_commas + n_opened;
  size.n_bytes = size.n_values * kValueBytes + n_keys * kKeyBytes + (n_texts + n_opened) * kHeapBytes + json.size();
  return size;
}

ApiError too_many_values(uint64_t n, uint64_t most, std::string_view of_what) {
  return {.status = 400,
          .message = fmt::format("The body holds {} {}, at most {} are accepted. Send it in several requests.", n,
                                 of_what, most),
          .code = "request_too_large"};
}

// A parsed body and its count: they end together.
struct ParsedBody {
  JsonValue json;
  ByteHold hold;
};

}  // namespace

std::string make_id(std::string_view prefix, char separator) {
  return fmt::format("{}{}{:016x}{:08x}", prefix, separator, random_bits(), random_bits() >> 32);
}

ResponseHead Call::complete(ResponseHead head) const {
  std::string ignored;
  record->note([&](RequestRecord::Facts& facts) {
    facts.status = head.status;
    ignored = facts.ignored;
  });
  head.headers.push_back({"X-Request-Id", record->id()});
  if (dialect == Dialect::anthropic) head.headers.push_back({"Request-Id", record->id()});  // as its clients read it
  if (!ignored.empty()) head.headers.push_back({"X-Rocmforge-Ignored", std::move(ignored)});
  if (!origin.empty()) {
    head.headers.push_back({"Access-Control-Allow-Origin", origin});
    head.headers.push_back(
        {"Access-Control-Expose-Headers", "X-Request-Id, Request-Id, X-Rocmforge-Ignored, Retry-After"});
    head.headers.push_back({"Vary", "Origin"});
  }
  shared->metrics.answered(head.status);
  return head;
}

void Call::tell_ignored(std::string names) const {
  record->note([&](RequestRecord::Facts& facts) { facts.ignored = std::move(names); });
}

uint64_t parsed_bytes(std::string_view json) {
  return parsed_size(json).n_bytes;
}

void Call::respond(ResponseHead head, std::string body) const {
  // What is refused takes little, and is said whatever others hold.
  if (head.status < 400 && !exchange->resize_answer(body.size())) {
    return refuse(ApiError::unavailable("Too many large answers at once.", "answers_too_large", 1));
  }
  exchange->respond(complete(std::move(head)), std::move(body));
}

void Call::respond(int status, std::string json, std::vector<Header> headers) const {
  respond(ResponseHead{.status = status, .headers = std::move(headers)}, std::move(json));
}

void Call::refuse(const ApiError& error) const {
  ApiError said = error;
  if (said.status == 429) said.status = shared->options.overload_status;  // 429 means a full queue, nothing else
  record->note([&](RequestRecord::Facts& facts) { facts.error = said.message; });
  respond(said.head(), said.to_json(dialect, record->id()));
}

void Call::start_stream(ResponseHead head) const {
  const std::string ping = head.ping;
  exchange->start_stream(complete(std::move(head)));
  if (ping.starts_with(':')) exchange->write(ping);  // the client sees a living stream before the prompt is computed
}

void Call::give_up(const std::exception& why) const noexcept {
  try {
    log(LogLevel::error, "server: request {} failed: {}", record->id(), why.what());
    const bool is_short = dynamic_cast<const std::bad_alloc*>(&why) != nullptr;  // of memory
    const ApiError error =
        is_short ? ApiError::out_of_memory()
                 : ApiError{.status = 500, .message = "The server failed at this request.", .code = "internal_error"};
    record->note([&](RequestRecord::Facts& facts) { facts.error = error.message; });
    exchange->give_up(complete(error.head()), error.to_json(dialect, record->id()));
  } catch (const std::exception&) {  // not even an error can be said
    exchange->cancel();
  }
}

bool Call::hold_answer(uint64_t n_bytes, std::string_view param, std::string_view advice) const {
  const uint64_t most = shared->options.max_answer_bytes;
  if (n_bytes > most) {
    refuse(ApiError::bad_param(
        std::string(param),
        fmt::format("The answer could take {} bytes, at most {} are given. {}", n_bytes, most, advice),
        "answer_too_large"));
    return false;
  }
  if (exchange->resize_answer(n_bytes)) return true;
  refuse(ApiError::unavailable("Too many large answers at once.", "answers_too_large", 1));
  return false;
}

std::shared_ptr<JsonValue> Call::read_body() const {
  if (is_abandoned()) return nullptr;
  const Exchange::Body body = exchange->take_body();
  const ParsedSize size = parsed_size(body.bytes);
  const uint64_t max_bytes = shared->options.max_parsed_bytes;
  if (size.n_values > kMaxJsonValues || size.n_bytes > max_bytes) {
    const bool is_many = size.n_values > kMaxJsonValues;
    refuse(is_many ? too_many_values(size.n_values, kMaxJsonValues, "values")
                   : too_many_values(size.n_bytes, max_bytes, "bytes when it is parsed"));
    return nullptr;
  }
  const auto out = std::make_shared<ParsedBody>(ParsedBody{{}, ByteHold(shared->parsed)});
  if (!out->hold.resize(size.n_bytes)) {
    refuse(ApiError::unavailable("Too many large requests at once.", "requests_too_large", 1));
    return nullptr;
  }
  if (is_abandoned()) return nullptr;
  auto parsed = parse_json(body.bytes, {.max_members = kMaxJsonMembers});
  if (!parsed.ok() && parsed.error().code == ErrorCode::limit_exceeded) {
    refuse({.status = 400, .message = "The body is too large: " + parsed.error().message, .code = "request_too_large"});
    return nullptr;
  }
  if (!parsed.ok()) {
    refuse({.status = 400, .message = "The body is not JSON: " + parsed.error().message, .code = "invalid_json"});
    return nullptr;
  }
  if (!parsed->as<JsonObject>()) {
    refuse({.status = 400, .message = "The body must be a JSON object.", .code = "invalid_json"});
    return nullptr;
  }
  out->json = std::move(*parsed);
  return {out, &out->json};
}

void Call::with_model(const JsonValue& body, WithModel then) const {
  Fields fields(body);
  const std::string name = fields.text("model", kMaxModelNameBytes).value_or("");
  const bool wait = fields.boolean("wait_for_model").value_or(true);
  if (fields.error()) return refuse(*fields.error());
  const auto alias = shared->options.aliases.find(name);
  const std::string wanted = name.empty()                             ? shared->models.default_name()
                             : alias == shared->options.aliases.end() ? name
                                                                      : alias->second;
  record->note([&](RequestRecord::Facts& facts) { facts.model = wanted; });
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
  if (asks_to_compile(body)) waiting->call->work_size = WorkSize::large;
  waiting->then = std::move(then);
  // A client that leaves takes its request along. What it holds may be large: not to be freed on the event loop.
  exchange->on_cancel([weak = std::weak_ptr(waiting), shared = shared] {
    shared->post_work([weak] {
      const auto left = weak.lock();
      if (!left || left->is_taken.exchange(true)) return;
      left->then = nullptr;
      left->call.reset();
    });
  });
  shared->models.acquire(wanted, [waiting](Result<ModelRef> model) {
    if (waiting->is_taken.exchange(true)) return;
    waiting->call->attempt([&] {
      if (!model.ok()) return waiting->call->refuse(ApiError::from(model.error()));
      auto work = [waiting, ready = std::move(*model)]() mutable {
        if (waiting->call->is_abandoned()) return;
        waiting->call->attempt([&] { waiting->then(std::move(ready)); });
      };
      waiting->call->shared->post_work(std::move(work), waiting->call->work_size);
    });
  });
  if (wait || waiting->is_taken.exchange(true)) return;
  waiting->call.reset();
  waiting->then = nullptr;
  refuse(ApiError::unavailable("The model is being loaded.", "model_loading", 1));
}

}  // namespace rocmforge::server
