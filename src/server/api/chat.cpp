// POST /v1/chat/completions

#include <ctime>
#include <utility>

#include "server/api/events.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/prompt.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

class ChatShape {
 public:
  ChatShape(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model)
      : id_(std::move(id)),
        model_name_(fields.model),
        fingerprint_(call.shared->options.fingerprint),
        created_(std::time(nullptr)),
        tokenizer_(model.tokenizer),
        is_stream_(fields.stream),
        include_usage_(fields.include_usage),
        want_logprobs_(fields.request.sampling.want_logprobs) {}

  bool is_stream() const { return is_stream_; }

  std::string first(uint32_t choice) const {
    return chunk(choice, [](JsonWriter& w) { w.key("role").value("assistant").key("content").value(""); });
  }

  std::string token(uint32_t choice, const TokenEvent& event) const {
    if (event.text.empty() && !event.logprobs) return {};
    const auto delta = [&](JsonWriter& w) { w.key("content").value(event.text); };
    return event.logprobs ? chunk(choice, delta, &event) : chunk(choice, delta);
  }

  std::string last(uint32_t choice, const ChoiceSoFar&, const FinishEvent& event) const {
    std::string out;
    if (!event.text.empty()) out = chunk(choice, [&](JsonWriter& w) { w.key("content").value(event.text); });
    return out + chunk(choice, [](JsonWriter&) {}, nullptr, openai_finish_name(event.reason));
  }

  std::string end(const RequestUsage& total) const {
    std::string out;
    if (include_usage_) {
      JsonWriter w;
      begin(w, "chat.completion.chunk");
      w.key("choices").begin_array().end_array().key("usage");
      write_usage(w, total);
      out = event_of(w.end_object().take());
    }
    return out.append(kDoneEvent);
  }

  std::string whole(std::span<const ChoiceSoFar> choices, const RequestUsage& total) const {
    JsonWriter w;
    begin(w, "chat.completion");
    w.key("choices").begin_array();
    for (uint32_t i = 0; i < choices.size(); i++) {
      const ChoiceSoFar& choice = choices[i];
      w.begin_object().key("index").value(i).key("message").begin_object();
      w.key("role").value("assistant").key("content").value(choice.text).key("refusal").null().end_object();
      w.key("logprobs");
      if (want_logprobs_) {
        w.begin_object().key("content").begin_array();
        for (size_t t = 0; t < choice.logprobs.size(); t++) {
          write_chat_logprob(w, *tokenizer_, choice.tokens[t], choice.logprobs[t]);
        }
        w.end_array().key("refusal").null().end_object();
      } else {
        w.null();
      }
      w.key("finish_reason").value(openai_finish_name(choice.reason)).end_object();
    }
    w.end_array().key("usage");
    write_usage(w, total);
    return w.end_object().take();
  }

 private:
  void begin(JsonWriter& w, const char* object) const {
    w.begin_object().key("id").value(id_).key("object").value(object).key("created").value(created_);
    w.key("model").value(model_name_).key("system_fingerprint").value(fingerprint_);
  }

  template <class Delta>
  std::string chunk(uint32_t choice, const Delta& delta, const TokenEvent* with_logprobs = nullptr,
                    std::string_view finish = {}) const {
    JsonWriter w;
    begin(w, "chat.completion.chunk");
    w.key("choices").begin_array().begin_object().key("index").value(choice).key("delta").begin_object();
    delta(w);
    w.end_object().key("logprobs");
    if (with_logprobs) {
      w.begin_object().key("content").begin_array();
      write_chat_logprob(w, *tokenizer_, with_logprobs->token, *with_logprobs->logprobs);
      w.end_array().key("refusal").null().end_object();
    } else {
      w.null();
    }
    w.key("finish_reason");
    finish.empty() ? w.null() : w.value(finish);
    w.end_object().end_array();
    if (include_usage_) w.key("usage").null();
    return event_of(w.end_object().take());
  }

  std::string id_, model_name_, fingerprint_;
  int64_t created_;
  const tokenizer::Tokenizer* tokenizer_;  // the run holds the model
  bool is_stream_, include_usage_, want_logprobs_;
};

void read_logprobs(Fields& fields, SamplingOptions& sampling) {
  sampling.want_logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !sampling.want_logprobs) fields.refuse("top_logprobs", "needs 'logprobs' to be true.");
  sampling.n_logprobs = static_cast<uint32_t>(top.value_or(0));
}

void answer(const Call& call, const JsonValue& body, ModelRef model) {
  Fields fields(body);
  refuse_unsupported(fields);
  GenerationFields generation = read_generation(fields, call, *model);
  read_logprobs(fields, generation.request.sampling);
  tokenizer::ChatRequest conversation = read_conversation(fields);
  if (fields.error()) return call.refuse(*fields.error());

  auto prompt = encode_conversation(*model, std::move(conversation));
  if (!prompt.ok()) {
    ApiError error = ApiError::from(prompt.error());
    if (error.status == 400) error.param = "messages";
    return call.refuse(error);
  }
  if (prompt->empty()) return call.refuse(ApiError::bad_param("messages", "The conversation is empty."));
  generation.request.prompt = std::move(*prompt);
  if (const auto error = check_context(generation.request, *model, "messages")) return call.refuse(*error);

  std::vector<GenerationRequest> choices(generation.n, generation.request);
  for (uint32_t i = 0; i < generation.n; i++) choices[i].sampling.seed += i;
  const std::string id = call.shared->make_id("chatcmpl");
  ChatShape shape(id, generation, call, *model);
  GenerationRun<ChatShape>::start(call, std::move(model), id, std::move(shape), std::move(choices));
}

}  // namespace

void chat_completions(const Call& call) {
  auto body = call.read_body();
  if (!body) return;
  const auto shared_body = std::make_shared<JsonValue>(std::move(*body));
  call.with_model(*shared_body, [call, shared_body](ModelRef model) { answer(call, *shared_body, std::move(model)); });
}

}  // namespace rocmforge::server
