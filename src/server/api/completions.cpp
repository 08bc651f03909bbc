// POST /v1/completions

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/utf8.h"
#include "server/api/events.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/infill.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxPrompts = 64;

struct Prompt {
  std::vector<TokenId> tokens;
  std::string text;  // for echo
};

class CompletionShape {
 public:
  CompletionShape(std::string id, const GenerationFields& fields, const Call& call, const ServedModel& model,
                  std::vector<Prompt> prompts)
      : id_(std::move(id)),
        model_name_(fields.model),
        fingerprint_(call.shared->options.fingerprint),
        created_(std::time(nullptr)),
        tokenizer_(model.tokenizer),
        prompts_(std::move(prompts)),
        offsets_(prompts_.size(), 0),
        is_stream_(fields.stream),
        include_usage_(fields.include_usage),
        echoes_logprobs_(fields.echo && fields.request.sampling.want_logprobs),
        tells_prompt_logprobs_(fields.prompt_logprobs) {}

  bool is_stream() const { return is_stream_; }

  std::string first(uint32_t choice) const {
    return prompts_[choice].text.empty() ? "" : chunk(choice, prompts_[choice].text);
  }

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
      w.begin_object().key("text").value(prompts_[i].text + choices[i].text).key("index").value(i).key("logprobs");
      write_logprobs(w, i, choices[i]);
      if (tells_prompt_logprobs_) write_prompt_logprobs(w, i, choices[i]);
      w.key("finish_reason").value(openai_finish_name(choices[i].reason)).end_object();
    }
    w.end_array().key("usage");
    write_usage(w, total);
    return w.end_object().take();
  }

 private:
  void write_logprobs(JsonWriter& w, uint32_t choice, const ChoiceSoFar& so_far) const {
    std::vector<TokenId> tokens;
    std::vector<const TokenLogprobs*> logprobs;
    if (echoes_logprobs_) {
      tokens = prompts_[choice].tokens;
      logprobs.push_back(nullptr);  // the first token follows nothing
      for (const TokenLogprobs& one : so_far.prompt_logprobs) logprobs.push_back(&one);
    }
    for (const TokenLogprobs& one : so_far.logprobs) logprobs.push_back(&one);
    tokens.insert(tokens.end(), so_far.tokens.begin(), so_far.tokens.end());
    if (logprobs.empty()) {
      w.null();
      return;
    }
    uint64_t offset = 0;
    write_completion_logprobs(w, *tokenizer_, tokens, logprobs, offset);
  }

  // As vLLM writes them: an object by token id for each token, null for the first.
  void write_prompt_logprobs(JsonWriter& w, uint32_t choice, const ChoiceSoFar& so_far) const {
    w.key("prompt_logprobs").begin_array().null();
    for (size_t i = 0; i < so_far.prompt_logprobs.size(); i++) {
      const TokenLogprobs& one = so_far.prompt_logprobs[i];
      const TokenId own = prompts_[choice].tokens[i + 1];
      w.begin_object();
      write_prompt_logprob(w, own, one.logprob);
      for (const TokenLogprob& other : one.top) {
        if (other.token != own) write_prompt_logprob(w, other.token, other.logprob);
      }
      w.end_object();
    }
    w.end_array();
  }
  void write_prompt_logprob(JsonWriter& w, TokenId token, float logprob) const {
    w.key(std::to_string(token.value)).begin_object().key("logprob").value(shown_logprob(logprob));
    w.key("decoded_token").value(to_valid_utf8(tokenizer_->token_text(token))).end_object();
  }

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
      const TokenLogprobs* const logprobs = &*with_logprobs->logprobs;
      write_completion_logprobs(w, *tokenizer_, {&with_logprobs->token, 1}, {&logprobs, 1}, offset);
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
  std::vector<Prompt> prompts_;            // per choice
  std::vector<uint64_t> offsets_;          // per choice, characters so far
  bool is_stream_, include_usage_, echoes_logprobs_, tells_prompt_logprobs_;
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

// A text with a gap behind it: the answer fills it in.
std::vector<Prompt> read_prompt_with_suffix(Fields& fields, const ServedModel& model, const std::string& suffix,
                                            bool echo) {
  const std::optional<std::string> text = fields.text("prompt");
  if (!text) {
    fields.refuse("prompt", "must be one string where there is a 'suffix'.");
    return {};
  }
  if (auto error = check_size(text->size() + suffix.size(), model, "prompt")) {
    fields.refuse(std::move(*error));
    return {};
  }
  const InfillText gap{.before = *text, .behind = suffix};
  return {{read_infill(fields, "suffix", *model.tokenizer, gap), echo ? *text : ""}};
}

void read_own_fields(Fields& fields, GenerationFields& generation) {
  SamplingOptions& sampling = generation.request.sampling;
  if (const auto n = fields.integer("logprobs", 0, kMaxLogprobs)) {
    sampling.want_logprobs = true;
    sampling.n_logprobs = static_cast<uint32_t>(*n);
    if (generation.echo) generation.request.n_prompt_logprobs = sampling.n_logprobs;
  }
  if (const auto n = fields.integer("prompt_logprobs", 0, kMaxLogprobs)) {
    generation.prompt_logprobs = true;
    generation.request.n_prompt_logprobs =
        std::max(static_cast<uint32_t>(*n), generation.request.n_prompt_logprobs.value_or(0));
  }
  if (generation.request.n_prompt_logprobs && generation.stream) {
    fields.refuse("stream", "cannot be combined with the logprobs of a prompt.", "unsupported_feature");
  }
  const auto best_of = fields.integer("best_of", 1, kMaxChoices);
  if (best_of && *best_of != generation.n) fields.refuse("best_of", "must equal 'n'.", "unsupported_feature");
}

void answer(const Call& call, const JsonValue& body, ModelRef model) {
  Fields fields(body);
  refuse_unsupported(fields, FieldFamily::completions);
  const bool echo = fields.boolean("echo").value_or(false);
  const bool scores = echo || fields.has("prompt_logprobs");
  GenerationFields generation = read_constrained_generation(fields, call, *model, scores ? 0 : 1);
  generation.echo = echo;
  read_own_fields(fields, generation);
  const std::string suffix = fields.text("suffix").value_or("");
  const std::vector<Prompt> prompts =
      suffix.empty() ? read_prompts(fields, *model, echo) : read_prompt_with_suffix(fields, *model, suffix, echo);
  if (!fields.error() && prompts.size() * generation.n > kMaxPrompts) {
    fields.refuse("n", fmt::format("times the number of prompts must not exceed {}.", kMaxPrompts));
  }
  if (call.is_abandoned()) return;
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields));

  std::vector<GenerationRequest> choices;
  std::vector<Prompt> of_choices;
  for (const Prompt& prompt : prompts) {
    generation.request.prompt = prompt.tokens;
    if (const auto error = check_context(generation.request, *model, "prompt")) return call.refuse(*error);
    for (uint32_t i = 0; i < generation.n; i++) {
      choices.push_back(generation.request);
      choices.back().sampling.seed += i;
      of_choices.push_back(prompt);
    }
  }
  const std::string id = make_id("cmpl");
  CompletionShape shape(id, generation, call, *model, std::move(of_choices));
  GenerationRun<CompletionShape>::start(call, std::move(model), id, std::move(shape), std::move(choices), generation.n);
}

}  // namespace

void completions(const Call& call) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body](ModelRef model) { answer(call, *body, std::move(model)); });
}

}  // namespace rocmforge::server
