#include "server/api/sampling_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/random.h"

namespace rocmforge::server {
namespace {

void read_float(Fields& fields, std::string_view name, double least, double most, float& out) {
  if (const auto value = fields.number(name, least, most)) out = static_cast<float>(*value);
}

void read_int(Fields& fields, std::string_view name, int64_t least, int64_t most, int32_t& out) {
  if (const auto value = fields.integer(name, least, most)) out = static_cast<int32_t>(*value);
}

void read_penalties(Fields& fields, SamplingOptions& out) {
  read_float(fields, "presence_penalty", -2, 2, out.presence_penalty);
  read_float(fields, "frequency_penalty", -2, 2, out.frequency_penalty);
  read_float(fields, "repeat_penalty", 0.01, 100, out.repetition_penalty);      // llama.cpp's name
  read_float(fields, "repetition_penalty", 0.01, 100, out.repetition_penalty);  // vLLM's
  read_int(fields, "repeat_last_n", -1, INT32_MAX, out.penalty_last_n);
}

void read_dry(Fields& fields, DryOptions& out) {
  read_float(fields, "dry_multiplier", 0, 100, out.multiplier);
  read_float(fields, "dry_base", 1, 100, out.base);
  read_int(fields, "dry_allowed_length", 0, INT32_MAX, out.allowed_length);
  read_int(fields, "dry_penalty_last_n", -1, INT32_MAX, out.last_n);
  const JsonArray* breakers = fields.array("dry_sequence_breakers", kMaxSequenceBreakers);
  if (!breakers) return;
  out.sequence_breakers.clear();
  for (const JsonValue& one : *breakers) {
    const auto* text = one.as<std::string>();
    if (!text || text->size() > kMaxSequenceBreakerBytes) {
      return fields.refuse("dry_sequence_breakers",
                           fmt::format("must hold strings of at most {} bytes.", kMaxSequenceBreakerBytes));
    }
    out.sequence_breakers.push_back(*text);
  }
}

void read_mirostat(Fields& fields, MirostatOptions& out) {
  for (const char* name : {"mirostat", "mirostat_mode"}) read_int(fields, name, 0, 2, out.version);
  read_float(fields, "mirostat_tau", 0, 100, out.tau);
  read_float(fields, "mirostat_eta", 0, 1, out.eta);
}

void read_logit_bias(Fields& fields, const ServedModel& model, SamplingOptions& out) {
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

}  // namespace

void read_sampling(Fields& fields, const ServedModel& model, SamplingOptions& out) {
  read_float(fields, "temperature", 0, 100, out.temperature);
  // -1 is how vLLM's clients say "all".
  if (const auto k = fields.integer("top_k", -1, INT32_MAX))
    out.top_k = static_cast<uint32_t>(std::max<int64_t>(0, *k));
  read_float(fields, "top_p", 0, 1, out.top_p);
  read_float(fields, "min_p", 0, 1, out.min_p);
  for (const char* name : {"typical_p", "typical"}) read_float(fields, name, 0, 1, out.typical_p);
  // llama.cpp's -1 is "off", as 0 is.
  read_float(fields, "top_n_sigma", -1, 100, out.top_n_sigma);
  out.top_n_sigma = std::max(out.top_n_sigma, 0.0f);
  read_float(fields, "xtc_probability", 0, 1, out.xtc_probability);
  read_float(fields, "xtc_threshold", 0, 1, out.xtc_threshold);
  read_penalties(fields, out);
  read_dry(fields, out.dry);
  read_mirostat(fields, out.mirostat);
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  out.seed = seed ? static_cast<uint64_t>(*seed) : random_bits();
  read_logit_bias(fields, model, out);
}

}  // namespace rocmforge::server
