#include "server/api/generation_fields.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/api/constraint_fields.h"
#include "server/api/sampling_fields.h"

namespace rocmforge::server {
namespace {

constexpr int64_t kMaxAnswerTokens = INT32_MAX;

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

void read_length(Fields& fields, int64_t min_answer, GenerationRequest& out) {
  // llama.cpp's name, whose clients say -1 for "to the end of the context".
  const auto n_predict = fields.integer("n_predict", -1, kMaxAnswerTokens);
  if (n_predict && *n_predict == 0 && min_answer > 0) fields.refuse("n_predict", "must not be 0.");
  if (n_predict && *n_predict >= 0) out.max_tokens = static_cast<uint32_t>(*n_predict);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {  // the later counts
    if (const auto n = fields.integer(name, min_answer, kMaxAnswerTokens)) out.max_tokens = static_cast<uint32_t>(*n);
  }
  out.min_tokens = static_cast<uint32_t>(fields.integer("min_tokens", 0, kMaxAnswerTokens).value_or(0));
}

void read_stop_tokens(Fields& fields, const ServedModel& model, GenerationRequest& out) {
  const JsonArray* ids = fields.array("stop_token_ids", kMaxStopTokens);
  if (!ids || ids->empty()) return;
  out.stop_tokens = read_tokens(fields, "stop_token_ids", *ids, *model.tokenizer).value_or(std::vector<TokenId>{});
}

}  // namespace

GenerationFields read_generation(Fields& fields, const Call& call, const ServedModel& model, int64_t min_answer) {
  GenerationFields out;
  out.model = fields.text("model").value_or("");
  if (out.model.empty()) out.model = model.name;
  out.request.sampling = call.shared->options.sampling;
  read_sampling(fields, model, out.request.sampling);
  read_stop(fields, out.request.stop);
  read_length(fields, min_answer, out.request);
  read_stop_tokens(fields, model, out.request);
  out.request.ignore_end_of_text = fields.boolean("ignore_eos").value_or(false);
  out.request.cache_salt = call.client.owner + fields.text("cache_salt", 256).value_or("");
  out.request.client = ClientId(call.client.number());
  if (!fields.boolean("cache_prompt").value_or(true)) out.request.cache_salt += make_id("/alone");
  fields.text("user");  // without effect, and yet of no other type
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

GenerationFields read_constrained_generation(Fields& fields, const Call& call, const ServedModel& model,
                                             int64_t min_answer) {
  GenerationFields out = read_generation(fields, call, model, min_answer);
  if (const auto asked = read_constraint(fields)) out.request.constraint = compile_constraint(fields, *asked, model);
  read_constraint_options(fields, out.request.constraint);
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

SizeCheck::SizeCheck(const ServedModel& model) : n_context_(model.n_context) {
  const tokenizer::Vocabulary& vocabulary = model.tokenizer->vocabulary();
  for (size_t i = 0; i < vocabulary.size(); i++) longest_token_ = std::max(longest_token_, vocabulary.tokens[i].size());
}

std::optional<ApiError> SizeCheck::operator()(size_t n_bytes, std::string_view param) const {
  const size_t n_least = n_bytes / longest_token_;  // tokens
  if (n_least <= n_context_) return {};
  ApiError error = ApiError::context_length(n_context_, n_least, 1);
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
