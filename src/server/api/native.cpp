// POST /generate, POST /generate/stream, GET /status/{id}, POST /cancel/{id}

#include "server/api/events.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

class NativeShape {
 public:
  NativeShape(std::string id, bool is_stream) : id_(std::move(id)), is_stream_(is_stream) {}

  bool is_stream() const { return is_stream_; }
  std::string first(uint32_t) const { return {}; }
  std::string token(uint32_t, const TokenEvent& event) const {
    JsonWriter w;
    w.begin_object().key("request_id").value(id_).key("token").value(event.token.value).key("text").value(event.text);
    w.key("finished").value(false).key("finish_reason").null();
    return event_of(w.end_object().take());
  }
  std::string last(uint32_t, const ChoiceSoFar&, const FinishEvent& event) const {
    JsonWriter w;
    w.begin_object().key("request_id").value(id_).key("token").null().key("text").value(event.text);
    w.key("finished").value(true).key("finish_reason").value(finish_name(event.reason));
    return event_of(w.end_object().take());
  }
  std::string end(const RequestUsage&) const { return {}; }

  std::string whole(std::span<const ChoiceSoFar> choices, const RequestUsage&) const {
    JsonWriter w;
    w.begin_object().key("request_id").value(id_).key("text").value(choices[0].text).key("tokens").begin_array();
    for (const TokenId token : choices[0].tokens) w.value(token.value);
    w.end_array().key("finished").value(true).key("finish_reason").value(finish_name(choices[0].reason));
    return w.end_object().take();
  }

 private:
  std::string id_;
  bool is_stream_;
};

void answer(const Call& call, const JsonValue& body, ModelRef model, bool is_stream) {
  Fields fields(body);
  refuse_unsupported(fields, FieldFamily::generate);
  GenerationFields generation = read_constrained_generation(fields, call, *model);
  const JsonValue* prompt = fields.find("prompt");
  const auto* text = prompt ? prompt->as<std::string>() : nullptr;
  const auto* ids = prompt ? prompt->as<JsonArray>() : nullptr;
  if (text) {
    if (const auto error = check_size(text->size(), *model, "prompt")) return call.refuse(*error);
    auto tokens = model->tokenizer->encode(*text, {.parse_special = true, .add_bos = true});
    if (!tokens.ok()) return call.refuse(ApiError::from(tokens.error()));
    generation.request.prompt = std::move(*tokens);
  } else if (ids) {
    generation.request.prompt = read_tokens(fields, "prompt", *ids, *model->tokenizer).value_or(std::vector<TokenId>{});
  }
  if (generation.request.prompt.empty()) fields.refuse("prompt", "must be a string or token ids, and not empty.");
  if (generation.n != 1) fields.refuse("n", "can only be 1 here.");
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields));
  if (const auto error = check_context(generation.request, *model, "prompt")) return call.refuse(*error);

  const std::string id = make_id("gen");
  GenerationRun<NativeShape>::start(call, std::move(model), id, NativeShape(id, is_stream || generation.stream),
                                    {std::move(generation.request)}, 1);
}

void begin(const Call& call, bool is_stream) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body, is_stream](ModelRef model) { answer(call, *body, std::move(model), is_stream); });
}

ApiError no_such_request() {
  return ApiError::not_found("There is no request of this id.", "request_not_found");
}

}  // namespace

void generate(const Call& call) {
  begin(call, false);
}
void generate_stream(const Call& call) {
  begin(call, true);
}

void request_status(const Call& call) {
  const auto status = call.shared->requests.find(call.argument, call.client.owner);
  if (!status) return call.refuse(no_such_request());
  JsonWriter w;
  w.begin_object().key("request_id").value(call.argument).key("model").value(status->model);
  w.key("state").value(status->is_finished ? "finished" : status->is_running ? "running" : "waiting");
  w.key("finished").value(status->is_finished).key("finish_reason");
  status->is_finished ? w.value(status->finish_reason) : w.null();
  w.key("prompt_tokens").value(status->n_prompt_tokens).key("generated_tokens").value(status->n_generated);
  call.respond(200, w.end_object().take());
}

void cancel_request(const Call& call) {
  if (!call.shared->requests.find(call.argument, call.client.owner)) return call.refuse(no_such_request());
  const bool cancelled = call.shared->requests.cancel(call.argument, call.client.owner);
  JsonWriter w;
  w.begin_object().key("request_id").value(call.argument).key("cancelled").value(cancelled);
  call.respond(200, w.end_object().take());
}

}  // namespace rocmforge::server
