// llama.cpp's own POST /completion and /infill, GET /props and /slots

#include <fmt/core.h>

#include <algorithm>

#include "server/api/events.h"
#include "server/api/generation_fields.h"
#include "server/api/generation_run.h"
#include "server/api/infill.h"
#include "server/api/request_fields.h"
#include "server/api/routes.h"
#include "server/api/state_names.h"

namespace rocmforge::server {
namespace {

constexpr size_t kMaxInfillFiles = 256;

class LlamaShape {
 public:
  LlamaShape(std::string model, bool is_stream) : model_(std::move(model)), is_stream_(is_stream) {}

  bool is_stream() const { return is_stream_; }
  std::string first(uint32_t) const { return {}; }
  std::string token(uint32_t, const TokenEvent& event) const {
    JsonWriter w;
    w.begin_object().key("index").value(0).key("content").value(event.text).key("tokens").begin_array();
    w.value(event.token.value).end_array().key("stop").value(false);
    return event_of(w.end_object().take());
  }
  std::string last(uint32_t, const ChoiceSoFar& so_far, const FinishEvent& event) const {
    return event_of(object(event.text, so_far, event.usage));
  }
  std::string end(const RequestUsage&) const { return {}; }
  std::string whole(std::span<const ChoiceSoFar> choices, const RequestUsage& total) const {
    return object(choices[0].text, choices[0], total);
  }

 private:
  std::string object(std::string_view content, const ChoiceSoFar& choice, const RequestUsage& usage) const {
    const bool is_length = choice.reason == FinishReason::length;
    JsonWriter w;
    w.begin_object().key("index").value(0).key("content").value(content).key("tokens").begin_array();
    for (const TokenId token : choice.tokens) w.value(token.value);
    w.end_array().key("id_slot").value(0).key("stop").value(true).key("model").value(model_);
    w.key("tokens_predicted").value(usage.n_generated).key("tokens_evaluated").value(usage.n_prompt);
    w.key("tokens_cached").value(usage.n_cached).key("truncated").value(false);
    w.key("stop_type").value(is_length ? "limit" : choice.stopped_by ? "word" : "eos").key("timings");
    write_timings(w, usage, 1);
    return w.end_object().take();
  }

  std::string model_;
  bool is_stream_;
};

std::vector<InfillFile> read_files(Fields& fields) {
  std::vector<InfillFile> out;
  const JsonArray* files = fields.array("input_extra", kMaxInfillFiles);
  for (const JsonValue& one : files ? *files : JsonArray{}) {
    Fields inner(one, "input_extra.");
    auto text = inner.text("text");
    auto name = inner.text("filename");
    if (!text) inner.refuse("text", "must be a string.");
    if (inner.error()) {
      fields.refuse(*inner.error());
      return {};
    }
    out.push_back({name.value_or("tmp"), *text});
  }
  return out;
}

std::vector<TokenId> read_infill_prompt(Fields& fields, const ServedModel& model) {
  InfillText text{.before = fields.text("input_prefix").value_or(""),
                  .behind = fields.text("input_suffix").value_or(""),
                  .beginning = fields.text("prompt").value_or(""),
                  .files = read_files(fields)};
  size_t n_bytes = text.before.size() + text.behind.size() + text.beginning.size();
  for (const InfillFile& file : text.files) n_bytes += file.text.size();
  if (auto error = check_size(n_bytes, model, "input_prefix")) fields.refuse(std::move(*error));
  if (fields.error()) return {};
  return read_infill(fields, "input_suffix", *model.tokenizer, text);
}

std::vector<TokenId> read_plain_prompt(Fields& fields, const ServedModel& model) {
  const JsonValue* prompt = fields.find("prompt");
  if (const auto* ids = prompt ? prompt->as<JsonArray>() : nullptr) {
    return read_tokens(fields, "prompt", *ids, *model.tokenizer).value_or(std::vector<TokenId>{});
  }
  const auto* text = prompt ? prompt->as<std::string>() : nullptr;
  if (!text) {
    fields.refuse("prompt", "must be a string or token ids.");
    return {};
  }
  if (auto error = check_size(text->size(), model, "prompt")) {
    fields.refuse(std::move(*error));
    return {};
  }
  auto tokens = model.tokenizer->encode(*text, {.parse_special = true, .add_bos = true});
  if (!tokens.ok()) fields.refuse(ApiError::from(tokens.error()));
  return tokens.ok() ? std::move(*tokens) : std::vector<TokenId>{};
}

void answer(const Call& call, const JsonValue& body, ModelRef model, bool is_infill) {
  Fields fields(body);
  refuse_unsupported(fields, FieldFamily::generate);
  GenerationFields generation = read_constrained_generation(fields, call, *model);
  generation.request.prompt = is_infill ? read_infill_prompt(fields, *model) : read_plain_prompt(fields, *model);
  if (generation.request.prompt.empty()) fields.refuse("prompt", "must not be empty.");
  if (generation.n != 1) fields.refuse("n", "can only be 1 here.");
  if (call.is_abandoned()) return;
  if (fields.error()) return call.refuse(*fields.error());
  call.tell_ignored(ignored_names(fields));
  if (const auto error = check_context(generation.request, *model, "prompt")) return call.refuse(*error);
  LlamaShape shape(generation.model, generation.stream);
  GenerationRun<LlamaShape>::start(call, std::move(model), make_id("cmpl"), std::move(shape),
                                   {std::move(generation.request)}, 1);
}

void begin(const Call& call, bool is_infill) {
  const auto body = call.read_body();
  if (!body) return;
  call.with_model(*body, [call, body, is_infill](ModelRef model) { answer(call, *body, std::move(model), is_infill); });
}

void write_token_text(JsonWriter& w, const tokenizer::Tokenizer& tokenizer, std::optional<TokenId> token) {
  w.value(token ? tokenizer.token_text(*token) : "");
}

// llama.cpp's names of what a request may say, with what holds where it does not.
void write_defaults(JsonWriter& w, const SamplingOptions& sampling) {
  w.begin_object().key("temperature").value(sampling.temperature).key("top_k").value(sampling.top_k);
  w.key("top_p").value(sampling.top_p).key("min_p").value(sampling.min_p);
  w.key("typical_p").value(sampling.typical_p).key("top_n_sigma").value(sampling.top_n_sigma);
  w.key("xtc_probability").value(sampling.xtc_probability).key("xtc_threshold").value(sampling.xtc_threshold);
  w.key("repeat_penalty").value(sampling.repetition_penalty).key("repeat_last_n").value(sampling.penalty_last_n);
  w.key("presence_penalty").value(sampling.presence_penalty);
  w.key("frequency_penalty").value(sampling.frequency_penalty);
  w.key("dry_multiplier").value(sampling.dry.multiplier).key("dry_base").value(sampling.dry.base);
  w.key("dry_allowed_length").value(sampling.dry.allowed_length).key("dry_penalty_last_n").value(sampling.dry.last_n);
  w.key("mirostat").value(sampling.mirostat.version).key("mirostat_tau").value(sampling.mirostat.tau);
  w.key("mirostat_eta").value(sampling.mirostat.eta).end_object();
}

void write_props(const Call& call, const ServedModel& model) {
  const tokenizer::Tokenizer& tokenizer = *model.tokenizer;
  JsonWriter w;
  w.begin_object().key("default_generation_settings").begin_object().key("n_ctx").value(model.n_context);
  w.key("params");
  write_defaults(w, call.shared->options.sampling);
  w.end_object().key("total_slots").value(call.shared->options.n_parallel);
  w.key("model_alias").value(model.name).key("model_path").value(model.name);  // where it lies is nobody's business
  w.key("chat_template").value(model.chat_template->text());
  w.key("bos_token");
  write_token_text(w, tokenizer, tokenizer.bos());
  w.key("eos_token");
  write_token_text(w, tokenizer, tokenizer.eos());
  w.key("modalities").begin_object().key("vision").value(false).key("audio").value(false).end_object();
  w.key("supports_infill").value(can_infill(tokenizer));
  call.respond(200, w.key("build_info").value(call.shared->options.fingerprint).end_object().take());
}

}  // namespace

void llama_completion(const Call& call) {
  begin(call, false);
}
void llama_infill(const Call& call) {
  begin(call, true);
}

void llama_props(const Call& call) {
  call.with_model(JsonValue(JsonObject{}), [call](ModelRef model) { write_props(call, *model); });
}

// Requests share one memory here: a slot stands for one of those that may run at once, of the default model.
void llama_slots(const Call& call) {
  const auto models = call.shared->models.list();
  const auto found = std::ranges::find(models, call.shared->models.default_name(), &ModelEntry::name);
  const bool is_known = found != models.end() && found->facts;
  const uint32_t n_running = found != models.end() && found->engine ? found->engine->n_running : 0;
  JsonWriter w;
  w.begin_array();
  for (uint32_t i = 0; i < call.shared->options.n_parallel; i++) {
    w.begin_object().key("id").value(i);
    w.key("n_ctx").value(is_known ? served_context(*found, call.shared->options.n_context) : 0u);
    w.key("is_processing").value(i < n_running).end_object();
  }
  call.respond(200, w.end_array().take());
}

}  // namespace rocmforge::server
