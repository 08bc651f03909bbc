#include "model/keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rocmforge {
namespace {

// Which values of a key change nothing.
enum class Neutral : uint8_t {
  zero,
  zero_or_one,
  yes,            // true
  whole_context,  // 0, or a window that no sequence is longer than
  plain_scale,    // 0, or one over the root of the head's size
};

struct GuardedKey {
  std::string_view key;
  Neutral neutral;
};

// Keys that some architecture computes with. An architecture that heeds one of them reads it.
constexpr std::array kGuarded = {
    GuardedKey{"attention.sliding_window", Neutral::whole_context},
    GuardedKey{"attention.causal", Neutral::yes},
    GuardedKey{"attention.scale", Neutral::plain_scale},
    GuardedKey{"attention.output_scale", Neutral::zero_or_one},
    GuardedKey{"attention.value_scale", Neutral::zero_or_one},
    GuardedKey{"attention.temperature_length", Neutral::zero},
    GuardedKey{"attention.temperature_scale", Neutral::zero},
    GuardedKey{"attention.max_alibi_bias", Neutral::zero},
    GuardedKey{"attention.clamp_kqv", Neutral::zero},
    GuardedKey{"attention.shared_kv_layers", Neutral::zero},
    GuardedKey{"attn_logit_softcapping", Neutral::zero},
    GuardedKey{"router_logit_softcapping", Neutral::zero},
    GuardedKey{"final_logit_softcapping", Neutral::zero},
    GuardedKey{"embedding_scale", Neutral::zero_or_one},
    GuardedKey{"residual_scale", Neutral::zero_or_one},
    GuardedKey{"logit_scale", Neutral::zero_or_one},
    GuardedKey{"expert_group_count", Neutral::zero_or_one},
    GuardedKey{"expert_group_scale", Neutral::zero_or_one},
    GuardedKey{"swiglu_clamp_exp", Neutral::zero},
    GuardedKey{"swiglu_clamp_shexp", Neutral::zero},
    GuardedKey{"nextn_predict_layers", Neutral::zero},
    GuardedKey{"pooling_type", Neutral::zero},
    GuardedKey{"rope.dimension_sections", Neutral::zero},
    GuardedKey{"rope.scaling.alpha", Neutral::zero},
    GuardedKey{"rope.scaling.finetuned", Neutral::yes},
    GuardedKey{"rope.scaling.yarn_log_multiplier", Neutral::zero},
    GuardedKey{"attention.rope_pattern", Neutral::yes},
    GuardedKey{"embedding_length_per_layer_input", Neutral::zero},
    GuardedKey{"interleave_moe_layer_step", Neutral::zero_or_one},
    GuardedKey{"moe_every_n_layers", Neutral::zero_or_one},
    GuardedKey{"attention.relative_buckets_count", Neutral::zero},
    GuardedKey{"hidden_activation", Neutral::zero},
    GuardedKey{"moe_latent_size", Neutral::zero},
    GuardedKey{"full_attention_interval", Neutral::zero_or_one},
    GuardedKey{"ssm.dt_b_c_rms", Neutral::zero},
    GuardedKey{"ssm.state_size", Neutral::zero},
    GuardedKey{"shortconv.l_cache", Neutral::zero},
};

bool is_neutral(const gguf::Value& value, Neutral neutral, const ModelSpec& spec) {
  if (neutral == Neutral::yes) return value.as_bool().value_or(value.as_f64() == 1.0);
  const auto number = value.as_f64();
  if (!number) return false;
  if (*number == 0) return true;
  switch (neutral) {
    case Neutral::zero:
    case Neutral::yes:
      return false;
    case Neutral::zero_or_one:
      return *number == 1;
    case Neutral::whole_context:
      return *number >= spec.n_context;
    case Neutral::plain_scale:
      return std::abs(*number * std::sqrt(static_cast<double>(spec.layers[0].key_size)) - 1) < 1e-5;
  }
  RF_UNREACHABLE("a Neutral outside its enum");
}

bool are_neutral(const gguf::Value& value, Neutral neutral, const ModelSpec& spec) {
  if (value.type() != gguf::ValueType::array) return is_neutral(value, neutral, spec);
  if (value.element_type() == gguf::ValueType::string) return false;
  for (uint64_t i = 0; i < value.n_elements(); i++) {
    if (!is_neutral(value.element(i), neutral, spec)) return false;
  }
  return true;
}

std::string to_text(const gguf::Value& value) {
  if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
  if (const auto number = value.as_f64()) return fmt::format("{}", *number);
  return fmt::format("a value of type {}", value_type_name(value.type()));
}

Result<uint32_t> in_range(const std::string& name, uint32_t value, uint32_t most) {
  if (value < 1 || value > most) return bad_key(name, fmt::format("{} is not in 1 to {}", value, most));
  return value;
}

}  // namespace

Error bad_key(std::string_view key, std::string_view fact) {
  return {ErrorCode::model_hyperparameter, fmt::format("model: key '{}': {}", key, fact)};
}

Keys::Keys(const gguf::Metadata& metadata, std::string_view architecture) : metadata_(metadata), prefix_(architecture) {
  prefix_ += '.';
}

Keys Keys::unprefixed() const {
  Keys keys(metadata_, "");
  keys.prefix_.clear();
  return keys;
}

bool Keys::is_array(std::string_view key) const {
  const gguf::Value* value = find(key);
  return value != nullptr && value->type() == gguf::ValueType::array;
}

const gguf::Value* Keys::find(std::string_view key) const {
  const gguf::Value* value = metadata_.find(full(key));
  if (value) read_.emplace(key);
  return value;
}

Result<uint32_t> Keys::count(std::string_view key, uint32_t most) const {
  if (!has(key)) return bad_key(full(key), "is missing");
  const std::string name = full(key);
  return in_range(name, TRY(per_layer_or_one(name)), most);
}

Result<uint32_t> Keys::count_or(std::string_view key, uint32_t fallback, uint32_t most) const {
  return has(key) ? count(key, most) : Result<uint32_t>(fallback);
}

Result<std::vector<uint32_t>> Keys::per_layer(std::string_view key, uint32_t n_layers, uint32_t most) const {
  if (!has(key)) return bad_key(full(key), "is missing");
  std::vector<uint32_t> out;
  if (!is_array(key)) {
    out.assign(n_layers, TRY(metadata_.u32(full(key))));
  } else {
    for (const int32_t value : TRY(i32_array(key))) {
      if (value < 0) return bad_key(full(key), fmt::format("{} in layer {}", value, out.size()));
      out.push_back(static_cast<uint32_t>(value));
    }
  }
  if (out.size() < n_layers) return bad_key(full(key), fmt::format("{} values for {} layers", out.size(), n_layers));
  out.resize(n_layers);
  for (uint32_t i = 0; i < n_layers; i++) {
    if (out[i] > most) return bad_key(full(key), fmt::format("{} in layer {}, at most {}", out[i], i, most));
  }
  return out;
}

Result<std::vector<float>> Keys::numbers_per_layer(std::string_view key, uint32_t n_layers) const {
  if (!has(key)) return bad_key(full(key), "is missing");
  std::vector<float> out;
  if (is_array(key)) {
    out = TRY(metadata_.f32_array(full(key)));
  } else {
    out.assign(n_layers, TRY(metadata_.f32(full(key))));
  }
  if (out.size() < n_layers) return bad_key(full(key), fmt::format("{} values for {} layers", out.size(), n_layers));
  out.resize(n_layers);
  for (const float value : out) {
    if (!std::isfinite(value)) return bad_key(full(key), fmt::format("{} is not a number", value));
  }
  return out;
}

Result<float> Keys::positive_or(std::string_view key, float fallback) const {
  if (!has(key)) return fallback;
  const std::string name = full(key);
  const float value = TRY(metadata_.f32(name));
  if (!(std::isfinite(value) && value > 0)) return bad_key(name, fmt::format("{} is not a positive number", value));
  return value;
}

Result<float> Keys::positive(std::string_view key) const {
  if (!has(key)) return bad_key(full(key), "is missing");
  return positive_or(key, 0);
}

Result<float> Keys::positive_or_none(std::string_view key) const {
  if (const gguf::Value* value = find(key); !value || value->as_f64() == 0.0) return 0.0f;
  return positive(key);
}

Result<std::string_view> Keys::string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? metadata_.string(full(key)) : Result<std::string_view>(fallback);
}

Result<bool> Keys::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? metadata_.boolean(full(key)) : Result<bool>(fallback);
}

Result<uint32_t> Keys::u32_or(std::string_view key, uint32_t fallback) const {
  return has(key) ? metadata_.u32(full(key)) : Result<uint32_t>(fallback);
}

Result<std::vector<int32_t>> Keys::i32_array(std::string_view key) const {
  const gguf::Value* value = find(key);
  if (!value) return bad_key(full(key), "is missing");
  if (value->type() != gguf::ValueType::array || value->element_type() != gguf::ValueType::boolean) {
    return metadata_.i32_array(full(key));
  }
  std::vector<int32_t> out;
  for (uint64_t i = 0; i < value->n_elements(); i++) out.push_back(value->element(i).as_bool().value_or(false));
  return out;
}

Result<uint32_t> Keys::per_layer_or_one(const std::string& name) const {
  const gguf::Value* value = metadata_.find(name);
  if (!value) return bad_key(name, "is missing");
  if (value->type() != gguf::ValueType::array) return metadata_.u32(name);
  const std::vector<int32_t> values = TRY(metadata_.i32_array(name));
  const uint32_t n_layers = TRY(metadata_.u32(full("block_count")));
  if (values.size() < n_layers) {
    return bad_key(name, fmt::format("{} values for {} layers", values.size(), n_layers));
  }
  for (size_t i = 1; i < n_layers; i++) {
    if (values[i] != values[0]) {
      return Error{
          ErrorCode::model_unsupported,
          fmt::format("model: key '{}': layers differ ({} in layer 0, {} in layer {})", name, values[0], values[i], i)};
    }
  }
  if (values.empty() || values[0] < 0) return bad_key(name, "has no usable value");
  return static_cast<uint32_t>(values[0]);
}

Result<void> Keys::refuse_unread(const ModelSpec& spec) const {
  for (const GuardedKey& guarded : kGuarded) {
    const gguf::Value* value = metadata_.find(full(guarded.key));
    if (!value || read_.contains(guarded.key) || are_neutral(*value, guarded.neutral, spec)) continue;
    return Error{ErrorCode::model_unsupported,
                 fmt::format("model: key '{}': {} is not supported with {} models; running the file without it would "
                             "give wrong answers",
                             full(guarded.key), to_text(*value), spec.architecture)};
  }
  return {};
}

}  // namespace rocmforge
