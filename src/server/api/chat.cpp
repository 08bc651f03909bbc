// POST /v1/chat/completions

#include <ctime>
#include <utility>

#include "server/api/events.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/prompt.h"
#include "server/api/reasoning.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

// Where what the model thinks goes: into the content, into reasoning_content (llama.cpp's name, DeepSeek's), or into
// reasoning (vLLM's) as well.
enum class ReasoningFormat : uint8_t { none, apart, both };

class ChatShape {
 public:
  // `thinks_first`: the prompt ends with <think>.
  ChatShape(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model,
            ReasoningFormat format, bool thinks_first)
      : id_(std::move(id)),
        model_name_(fields.model),
        fingerprint_(call.shared->options.fingerprint),
        created_(std::time(nullptr)),
        tokenizer_(model.tokenizer),
        splits_(format != ReasoningFormat::none),
        has_both_names_(format == ReasoningFormat::both),
        splitters_(fields.n, ReasoningSplitter(thinks_first)),
        is_stream_(fields.stream),
        include_usage_(fields.include_usage),
        want_logprobs_(fields.request.sampling.want_logprobs) {}

  bool is_stream() const { return is_stream_; }

  std::string first(uint32_t choice) const {
    return chunk(choice, [](JsonWriter& w) { w.key("role").value("assistant").key("content").value(""); });
  }

  std::string token(uint32_t choice, const TokenEvent& event) {
    const ReasoningSplitter::Output out = split(choice, event.text);
    if (splits_ && splitters_[choice].is_thinking()) n_reasoning_++;
    return chunks(choice, out, event.logprobs ? &event : nullptr);
  }

  std::string last(uint32_t choice, const ChoiceSoFar&, const FinishEvent& event) {
    std::string out = chunks(choice, split(choice, event.text));
    if (splits_) out += chunks(choice, splitters_[choice].finish());
    return out + chunk(choice, [](JsonWriter&) {}, nullptr, openai_finish_name(event.reason));
  }

  std::string end(const RequestUsage& total) const {
    std::string out;
    if (include_usage_) {
      JsonWriter w;
      begin(w, "chat.completion.chunk");
      w.key("choices").begin_array().end_array().key("usage");
      write_usage(w, total, n_reasoning_);
      w.key("timings");
      write_timings(w, total, n_choices());
      out = event_of(w.end_object().take());
    }
    return out.append(kDoneEvent);
  }

  std::string whole(std::span<const ChoiceSoFar> choices, const RequestUsage& total) {
    JsonWriter w;
    begin(w, "chat.completion");
    w.key("choices").begin_array();
    for (uint32_t i = 0; i < choices.size(); i++) {
      const ChoiceSoFar& choice = choices[i];
      w.begin_object().key("index").value(i).key("message").begin_object();
      ReasoningSplitter::Output said = split(i, choice.text);
      if (splits_) {
        const ReasoningSplitter::Output rest = splitters_[i].finish();
        said.reasoning += rest.reasoning;
        said.content += rest.content;
      }
      w.key("role").value("assistant").key("content").value(said.content).key("refusal").null();
      if (!said.reasoning.empty()) {
        write_reasoning(w, said.reasoning);
        n_reasoning_ += n_tokens_until_answer(choice);
      }
      w.end_object();
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
    write_usage(w, total, n_reasoning_);
    w.key("timings");
    write_timings(w, total, n_choices());
    return w.end_object().take();
  }

 private:
  uint32_t n_choices() const { return static_cast<uint32_t>(splitters_.size()); }

  ReasoningSplitter::Output split(uint32_t choice, const std::string& text) {
    return splits_ ? splitters_[choice].push(text) : ReasoningSplitter::Output{.reasoning = {}, .content = text};
  }

  uint64_t n_tokens_until_answer(const ChoiceSoFar& choice) const {
    constexpr std::string_view kClose = "</think>";
    std::string text;
    for (size_t i = 0; i < choice.tokens.size(); i++) {
      const size_t from = text.size() - std::min(text.size(), kClose.size());
      text += tokenizer_->token_text(choice.tokens[i]);
      if (text.find(kClose, from) != std::string::npos) return i;
    }
    return choice.tokens.size();
  }

  // A chunk for each part that has text; one without any when there are logprobs to send.
  std::string chunks(uint32_t choice, const ReasoningSplitter::Output& out,
                     const TokenEvent* with_logprobs = nullptr) const {
    std::string events;
    if (!out.reasoning.empty()) {
      events += chunk(
          choice, [&](JsonWriter& w) { write_reasoning(w, out.reasoning); }, std::exchange(with_logprobs, nullptr));
    }
    if (!out.content.empty() || with_logprobs) {
      events += chunk(choice, [&](JsonWriter& w) { w.key("content").value(out.content); }, with_logprobs);
    }
    return events;
  }

  void write_reasoning(JsonWriter& w, const std::string& text) const {
    w.key("reasoning_content").value(text);
    if (has_both_names_) w.key("reasoning").value(text);
  }

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
  bool splits_, has_both_names_;
  std::vector<ReasoningSplitter> splitters_;  // per choice
  uint64_t n_reasoning_ = 0;                  // tokens
  bool is_stream_, include_usage_, want_logprobs_;
};

void read_logprobs(Fields& fields, SamplingOptions& sampling) {
  sampling.want_logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !sampling.want_logprobs) fields.refuse("top_logprobs", "needs 'logprobs' to be true.");
  sampling.n_logprobs = static_cast<uint32_t>(top.value_or(0));
}

ReasoningFormat read_reasoning_format(Fields& fields) {
  const std::string name = fields.text("reasoning_format").value_or("auto");
  if (name == "none") return ReasoningFormat::none;
  if (name == "both") return ReasoningFormat::both;
  if (name != "auto" && name != "deepseek") {
    fields.refuse("reasoning_format", "must be \"auto\", \"both\" or \"none\".");
  }
  return ReasoningFormat::apart;
}

void answer(const Call& call, const JsonValue& body, ModelRef model) {
  Fields fields(body);
  refuse_unsupported(fields, FieldFamily::chat);
  GenerationFields generation = read_generation(fields, call, *model);
  read_logprobs(fields, generation.request.sampling);
  const ReasoningFormat format = read_reasoning_format(fields);
  tokenizer::ChatRequest conversation = read_conversation(fields);
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields));
  if (call.is_abandoned()) return;

  if (const auto error = check_size(text_bytes(conversation.messages), *model, "messages")) return call.refuse(*error);
  bool thinks_first = false;
  auto prompt = encode_conversation(*model, std::move(conversation), &thinks_first);
  if (call.is_abandoned()) return;
  if (!prompt.ok()) {
    ApiError error = ApiError::from(prompt.error());
    if (error.status == 400) error.param = "messages";
    return call.refuse(error);
  }
  if (prompt->empty()) return call.refuse(ApiError::bad_param("messages", "The conversation is empty."));
  generation.request.prompt = std::move(*prompt);
  if (generation.request.constraint && thinks_first) generation.request.constraint->after = "</think>";
  if (const auto error = check_context(generation.request, *model, "messages")) return call.refuse(*error);

  std::vector<GenerationRequest> choices(generation.n, generation.request);
  for (uint32_t i = 0; i < generation.n; i++) choices[i].sampling.seed += i;
  const std::string id = make_id("chatcmpl");
  ChatShape shape(id, generation, call, *model, format, thinks_first);
  GenerationRun<ChatShape>::start(call, std::move(model), id, std::move(shape), std::move(choices), generation.n);
}

}  // namespace

void chat_completions(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) { answer(call, *body, std::move(model)); });
}

}  // namespace rocmforge::server
