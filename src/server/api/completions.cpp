// POST /v1/completions

#include <fmt/core.h>

#include <ctime>
#include <utility>

#include "server/api/events.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxPrompts = 64;

class CompletionShape {
 public:
  CompletionShape(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model,
                  std::vector<std::string> echoes)
      : id_(std::move(id)),
        model_name_(fields.model),
        fingerprint_(call.shared->options.fingerprint),
        created_(std::time(nullptr)),
        tokenizer_(model.tokenizer),
        echoes_(std::move(echoes)),
        offsets_(echoes_.size(), 0),
        is_stream_(fields.stream),
        include_usage_(fields.include_usage) {}

  bool is_stream() const { return is_stream_; }

  std::string first(uint32_t choice) const { return echoes_[choice].empty() ? "" : chunk(choice, echoes_[choice]); }

  std::string token(uint32_t choice, const TokenEvent& event) {
    if (event.text.empty() && !event.logprobs) return {};
    return chunk(choice, event.text, event.logprobs ? &event : nullptr);
  }

  std::string last(uint32_t choice, const ChoiceSoFar&, const FinishEvent& event) {
    std::string out;
    if (!event.text.empty()) out = chunk(choice, event.text);
    return out + chunk(choice, "", nullptr, openai_finish_name(event.reason));
  }

  std::string end(const RequestUsage& total) const {
    std::string out;
    if (include_usage_) {
      JsonWriter w;
      begin(w);
      w.key("choices").begin_array().end_array().key("usage");
      write_usage(w, total);
      out = event_of(w.end_object().take());
    }
    return out.append(kDoneEvent);
  }

  std::string whole(std::span<const ChoiceSoFar> choices, const RequestUsage& total) const {
    JsonWriter w;
    begin(w);
    w.key("choices").begin_array();
    for (uint32_t i = 0; i < choices.size(); i++) {
      w.begin_object().key("text").value(echoes_[i] + choices[i].text).key("index").value(i).key("logprobs");
      if (choices[i].logprobs.empty()) {
        w.null();
      } else {
        uint64_t offset = 0;
        write_completion_logprobs(w, *tokenizer_, choices[i].tokens, choices[i].logprobs, offset);
      }
      w.key("finish_reason").value(openai_finish_name(choices[i].reason)).end_object();
    }
    w.end_array().key("usage");
    write_usage(w, total);
    return w.end_object().take();
  }

 private:
  void begin(JsonWriter& w) const {
    w.begin_object().key("id").value(id_).key("object").value("text_completion").key("created").value(created_);
    w.key("model").value(model_name_).key("system_fingerprint").value(fingerprint_);
  }

  std::string chunk(uint32_t choice, std::string_view text) const {
    uint64_t unused = 0;
    return chunk_with(choice, text, nullptr, {}, unused);
  }
  std::string chunk(uint32_t choice, std::string_view text, const TokenEvent* with_logprobs,
                    std::string_view finish = {}) {
    return chunk_with(choice, text, with_logprobs, finish, offsets_[choice]);
  }
  std::string chunk_with(uint32_t choice, std::string_view text, const TokenEvent* with_logprobs,
                         std::string_view finish, uint64_t& offset) const {
    JsonWriter w;
    begin(w);
    w.key("choices").begin_array().begin_object().key("text").value(text).key("index").value(choice).key("logprobs");
    if (with_logprobs) {
      write_completion_logprobs(w, *tokenizer_, {&with_logprobs->token, 1}, {&*with_logprobs->logprobs, 1}, offset);
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
  std::vector<std::string> echoes_;        // per choice, what comes before its answer
  std::vector<uint64_t> offsets_;          // per choice, characters so far
  bool is_stream_, include_usage_;
};

struct Prompt {
  std::vector<TokenId> tokens;
  std::string text;  // for echo
};

// A text, token ids, or an array of either.
std::vector<Prompt> read_prompts(Fields& fields, const ServedModel& model, bool echo) {
  std::vector<Prompt> out;
  const auto add_tokens = [&](const JsonArray& array) {
    auto tokens = read_tokens(fields, "prompt", array, *model.tokenizer);
    if (!tokens) return;
    auto text = echo ? model.tokenizer->decode(*tokens) : Result<std::string>("");
    out.push_back({std::move(*tokens), text.ok() ? std::move(*text) : ""});
  };
  const auto add_text = [&](const std::string& text) {
    if (auto error = check_size(text.size(), model, "prompt")) return fields.refuse(std::move(*error));
    auto tokens = model.tokenizer->encode(text, {.parse_special = true, .add_bos = true});
    if (!tokens.ok()) return fields.refuse(ApiError::from(tokens.error()));
    if (tokens->empty()) return fields.refuse("prompt", "must not be empty.");
    out.push_back({std::move(*tokens), echo ? text : ""});
  };
  const JsonValue* prompt = fields.find("prompt");
  if (!prompt) {
    fields.refuse("prompt", "must be a string, an array of strings, token ids or an array of those.");
    return out;
  }
  if (const auto* text = prompt->as<std::string>()) {
    add_text(*text);
  } else if (const auto* array = prompt->as<JsonArray>(); array && is_token_array(*array)) {
    add_tokens(*array);
  } else if (array && !array->empty() && array->size() <= kMaxPrompts) {
    for (const JsonValue& one : *array) {
      if (fields.error()) break;
      if (const auto* item = one.as<std::string>()) {
        add_text(*item);
      } else if (const auto* ids = one.as<JsonArray>()) {
        add_tokens(*ids);
      } else {
        fields.refuse("prompt", "must hold strings or arrays of token ids.");
      }
    }
  } else {
    fields.refuse("prompt", fmt::format("must be a string, token ids, or an array of 1 to {} of those.", kMaxPrompts));
  }
  return out;
}

void read_own_fields(Fields& fields, GenerationFields& generation, bool echo) {
  if (const auto n = fields.integer("logprobs", 0, kMaxLogprobs)) {
    generation.request.sampling.want_logprobs = true;
    generation.request.sampling.n_logprobs = static_cast<uint32_t>(*n);
    if (echo) fields.refuse("echo", "cannot be combined with 'logprobs'.", "unsupported_feature");
  }
  if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty()) {
    fields.refuse("suffix", "is not supported.", "unsupported_feature");
  }
  const auto best_of = fields.integer("best_of", 1, kMaxChoices);
  if (best_of && *best_of != generation.n) fields.refuse("best_of", "must equal 'n'.", "unsupported_feature");
}

void answer(const Call& call, const JsonValue& body, ModelRef model) {
  Fields fields(body);
  refuse_unsupported(fields, FieldFamily::completions);
  GenerationFields generation = read_generation(fields, call, *model);
  const bool echo = fields.boolean("echo").value_or(false);
  read_own_fields(fields, generation, echo);
  const std::vector<Prompt> prompts = read_prompts(fields, *model, echo);
  if (!fields.error() && prompts.size() * generation.n > kMaxPrompts) {
    fields.refuse("n", fmt::format("times the number of prompts must not exceed {}.", kMaxPrompts));
  }
  if (call.is_abandoned()) return;
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields));

  std::vector<GenerationRequest> choices;
  std::vector<std::string> echoes;
  for (const Prompt& prompt : prompts) {
    generation.request.prompt = prompt.tokens;
    if (const auto error = check_context(generation.request, *model, "prompt")) return call.refuse(*error);
    for (uint32_t i = 0; i < generation.n; i++) {
      choices.push_back(generation.request);
      choices.back().sampling.seed += i;
      echoes.push_back(prompt.text);
    }
  }
  const std::string id = make_id("cmpl");
  CompletionShape shape(id, generation, call, *model, std::move(echoes));
  GenerationRun<CompletionShape>::start(call, std::move(model), id, std::move(shape), std::move(choices), generation.n);
}

}  // namespace

void completions(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) { answer(call, *body, std::move(model)); });
}

}  // namespace rocmforge::server
