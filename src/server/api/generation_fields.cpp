#include "server/api/generation_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/random.h"
#include "server/api/constraint_fields.h"

namespace rocmforge::server {
namespace {

constexpr int64_t kMaxAnswerTokens = INT32_MAX;

void read_float(Fields& fields, std::string_view name, double least, double most, float& out) {
  if (const auto value = fields.number(name, least, most)) out = static_cast<float>(*value);
}

void read_sampling(Fields& fields, const ServedModel& model, SamplingOptions& out) {
  read_float(fields, "temperature", 0, 100, out.temperature);
  read_float(fields, "top_p", 0, 1, out.top_p);
  read_float(fields, "min_p", 0, 1, out.min_p);
  read_float(fields, "presence_penalty", -2, 2, out.presence_penalty);
  read_float(fields, "frequency_penalty", -2, 2, out.frequency_penalty);
  read_float(fields, "repeat_penalty", 0.01, 100, out.repetition_penalty);      // llama.cpp's name
  read_float(fields, "repetition_penalty", 0.01, 100, out.repetition_penalty);  // vLLM's
  // -1 is how vLLM's clients say "all".
  if (const auto k = fields.integer("top_k", -1, INT32_MAX))
    out.top_k = static_cast<uint32_t>(std::max<int64_t>(0, *k));
  if (const auto n = fields.integer("repeat_last_n", -1, INT32_MAX)) out.penalty_last_n = static_cast<int32_t>(*n);
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  out.seed = seed ? static_cast<uint64_t>(*seed) : random_bits();

  const JsonObject* biases = fields.object("logit_bias", kMaxLogitBiases);
  for (const auto& [key, value] : biases ? *biases : JsonObject{}) {
    int32_t id = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    const auto bias = as_number(value);
    if (failure != std::errc() || end != key.data() + key.size() || !model.tokenizer->contains(TokenId(id))) {
      fields.refuse("logit_bias", fmt::format("has '{}', which is no token id of this model.", key.substr(0, 20)));
    } else if (!bias || !(-100 <= *bias && *bias <= 100)) {
      fields.refuse("logit_bias", "must give every token a number from -100 to 100.");
    } else {
      out.logit_bias.push_back({TokenId(id), static_cast<float>(*bias)});
    }
  }
}

void read_stop(Fields& fields, std::vector<std::string>& out) {
  const JsonValue* stop = fields.find("stop");
  if (!stop) return;
  const auto add = [&](const JsonValue& value) {
    const auto* text = value.as<std::string>();
    if (!text || text->size() > kMaxStopBytes) {
      fields.refuse("stop", fmt::format("must hold strings of at most {} bytes.", kMaxStopBytes));
    } else if (!text->empty()) {
      out.push_back(*text);
    }
  };
  if (stop->as<std::string>()) return add(*stop);
  const auto* all = stop->as<JsonArray>();
  if (!all || all->size() > kMaxStops) {
    return fields.refuse("stop", fmt::format("must be a string or an array of at most {} strings.", kMaxStops));
  }
  for (const JsonValue& one : *all) add(one);
}

}  // namespace

GenerationFields read_generation(Fields& fields, const Call& call, const ServedModel& model) {
  GenerationFields out;
  out.model = fields.text("model").value_or("");
  if (out.model.empty()) out.model = model.name;
  read_sampling(fields, model, out.request.sampling);
  read_stop(fields, out.request.stop);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {  // the later counts
    if (const auto n = fields.integer(name, 1, kMaxAnswerTokens)) out.request.max_tokens = static_cast<uint32_t>(*n);
  }
  out.request.ignore_end_of_text = fields.boolean("ignore_eos").value_or(false);
  out.request.cache_salt = call.client.owner + fields.text("cache_salt", 256).value_or("");
  out.request.client = ClientId(call.client.number());
  if (!fields.boolean("cache_prompt").value_or(true)) out.request.cache_salt += make_id("/alone");
  fields.text("user");  // without effect, and yet of no other type
  out.request.constraint = read_constraint(fields, model);
  out.n = static_cast<uint32_t>(fields.integer("n", 1, kMaxChoices).value_or(1));
  out.stream = fields.boolean("stream").value_or(false);
  if (const JsonValue* options = fields.find("stream_options")) {
    Fields inner(*options, "stream_options.");
    out.include_usage = inner.boolean("include_usage").value_or(false);
    if (inner.error()) fields.refuse(*inner.error());
    if (!out.stream) fields.refuse("stream_options", "is only for streams.");
  }
  return out;
}

bool is_token_array(const JsonArray& array) {
  return !array.empty() && as_number(array[0]).has_value();
}

std::optional<std::vector<TokenId>> read_tokens(Fields& fields, std::string_view name, const JsonArray& array,
                                                const tokenizer::Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  tokens.reserve(array.size());
  for (const JsonValue& value : array) {
    const auto id = as_integer(value);
    if (!id || *id < 0 || *id >= static_cast<int64_t>(tokenizer.n_tokens())) {
      fields.refuse(name, fmt::format("must hold token ids from 0 to {}.", tokenizer.n_tokens() - 1));
      return {};
    }
    tokens.push_back(TokenId(static_cast<int32_t>(*id)));
  }
  if (tokens.empty()) {
    fields.refuse(name, "must not be empty.");
    return {};
  }
  return tokens;
}

std::optional<ApiError> check_size(size_t n_bytes, const ServedModel& model, std::string_view param) {
  const tokenizer::Vocabulary& vocabulary = model.tokenizer->vocabulary();
  size_t longest = 1;
  for (size_t i = 0; i < vocabulary.size(); i++) longest = std::max(longest, vocabulary.tokens[i].size());
  const size_t n_least = n_bytes / longest;  // tokens
  if (n_least <= model.n_context) return {};
  ApiError error = ApiError::context_length(model.n_context, n_least, 1);
  error.param = param;
  return error;
}

std::optional<ApiError> check_context(const GenerationRequest& request, const ServedModel& model,
                                      std::string_view param) {
  const uint64_t n_prompt = request.prompt.size();
  const uint64_t n_answer = request.max_tokens.value_or(1);
  if (n_prompt + n_answer <= model.n_context) return {};
  ApiError error = ApiError::context_length(model.n_context, n_prompt, n_answer);
  error.param = param;
  return error;
}

}  // namespace rocmforge::server
