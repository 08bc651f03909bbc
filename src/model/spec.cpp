#include "model/spec.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <cmath>

#include "model/families.h"

namespace rocmforge {
namespace {

Error bad_key(std::string_view key, std::string_view fact) {
  return {ErrorCode::model_hyperparameter, fmt::format("model: key '{}': {}", key, fact)};
}

// The keys of one architecture: "block_count" is read as "llama.block_count".
class Keys {
 public:
  Keys(const gguf::Metadata& metadata, std::string_view architecture) : metadata_(metadata), prefix_(architecture) {
    prefix_ += '.';
  }

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return metadata_.find(full(key)) != nullptr; }

  // A count that must be there and lie in [1, most].
  Result<uint32_t> count(std::string_view key, uint32_t most) const {
    const std::string name = full(key);
    return in_range(name, TRY(per_layer_or_one(name)), most);
  }
  Result<uint32_t> count_or(std::string_view key, uint32_t fallback, uint32_t most) const {
    return has(key) ? count(key, most) : Result<uint32_t>(fallback);
  }

  // A number that must be finite and positive.
  Result<float> positive_or(std::string_view key, float fallback) const {
    const std::string name = full(key);
    const float value = TRY(metadata_.f32_or(name, fallback));
    if (!(std::isfinite(value) && value > 0)) return bad_key(name, fmt::format("{} is not a positive number", value));
    return value;
  }
  Result<float> positive(std::string_view key) const {
    if (!has(key)) return bad_key(full(key), "is missing");
    return positive_or(key, 0);
  }

  Result<std::string_view> string_or(std::string_view key, std::string_view fallback) const {
    return metadata_.string_or(full(key), fallback);
  }
  Result<bool> boolean_or(std::string_view key, bool fallback) const {
    return metadata_.boolean_or(full(key), fallback);
  }
  Result<uint32_t> u32_or(std::string_view key, uint32_t fallback) const {
    return metadata_.u32_or(full(key), fallback);
  }

 private:
  static Result<uint32_t> in_range(const std::string& name, uint32_t value, uint32_t most) {
    if (value < 1 || value > most) return bad_key(name, fmt::format("{} is not in 1 to {}", value, most));
    return value;
  }

  // Some files give one value per layer. The same value for all of them is the plain case; different ones are not run.
  Result<uint32_t> per_layer_or_one(const std::string& name) const {
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
        return Error{ErrorCode::model_unsupported,
                     fmt::format("model: key '{}': layers differ ({} in layer 0, {} in layer {})", name, values[0],
                                 values[i], i)};
      }
    }
    if (values.empty() || values[0] < 0) return bad_key(name, "has no usable value");
    return static_cast<uint32_t>(values[0]);
  }

  const gguf::Metadata& metadata_;
  std::string prefix_;
};

Result<const Family*> find_family(std::string_view architecture) {
  for (const Family& family : all_families()) {
    if (family.architecture == architecture) return &family;
  }
  return Error{ErrorCode::model_unsupported, fmt::format("model: architecture '{}' is not supported; known are {}",
                                                         architecture, fmt::join(supported_architectures(), ", "))};
}

constexpr uint32_t kMaxWidth = 1u << 20;
constexpr uint32_t kMaxContext = 1u << 24;

Result<RopeSpec> read_rope(const Keys& keys, RopePairs pairs, uint32_t head_size) {
  RopeSpec rope;
  rope.pairs = pairs;
  rope.n_dims = TRY(keys.count_or("rope.dimension_count", head_size, head_size));
  if (rope.n_dims % 2) return bad_key(keys.full("rope.dimension_count"), fmt::format("{} is odd", rope.n_dims));
  rope.base = TRY(keys.positive_or("rope.freq_base", 10000.0f));
  rope.attention_factor = TRY(keys.positive_or("rope.scaling.attn_factor", 1.0f));
  rope.original_context = TRY(keys.count_or("rope.scaling.original_context_length",
                                            TRY(keys.count("context_length", kMaxContext)), kMaxContext));
  // The older spelling of linear scaling is a bare factor.
  rope.factor = TRY(keys.positive_or("rope.scaling.factor", TRY(keys.positive_or("rope.scale_linear", 1.0f))));
  const std::string_view type = TRY(keys.string_or("rope.scaling.type", "linear"));
  if (type == "none" || type == "longrope") {
    rope.factor = 1.0f;  // longrope lies in factors of its own, one per pair
  } else if (type == "linear") {
    rope.scaling = rope.factor == 1.0f ? RopeScaling::none : RopeScaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.beta_fast = TRY(keys.positive_or("rope.scaling.yarn_beta_fast", 32.0f));
    rope.beta_slow = TRY(keys.positive_or("rope.scaling.yarn_beta_slow", 1.0f));
  } else {
    return Error{
        ErrorCode::model_unsupported,
        fmt::format("model: key '{}': rope scaling '{}' is not supported; known are none, linear, yarn, longrope",
                    keys.full("rope.scaling.type"), type)};
  }
  return rope;
}

Result<ExpertSpec> read_experts(const Keys& keys, const Family& family, uint32_t ff_width) {
  ExpertSpec experts;
  // Dense models are sometimes written with an expert count of 0.
  if (TRY(keys.u32_or("expert_count", 0)) == 0) {
    if (TRY(keys.u32_or("expert_used_count", 0)) != 0)
      return bad_key(keys.full("expert_count"), "0 of them, but some used");
    return experts;
  }
  experts.n_experts = TRY(keys.count("expert_count", 1'024));
  experts.n_used = TRY(keys.count("expert_used_count", experts.n_experts));
  experts.width = TRY(keys.count_or("expert_feed_forward_length", ff_width, kMaxWidth));
  const uint32_t n_shared = TRY(keys.u32_or("expert_shared_count", 0));
  if (n_shared > kMaxWidth / experts.width)
    return bad_key(keys.full("expert_shared_count"), fmt::format("{}", n_shared));
  experts.shared_width = n_shared * experts.width;
  experts.n_dense_layers = TRY(keys.u32_or("leading_dense_block_count", 0));
  experts.scale = TRY(keys.positive_or("expert_weights_scale", 1.0f));
  experts.gating = family.gating;
  experts.normalise_weights = TRY(keys.boolean_or("expert_weights_norm", family.gating == Gating::softmax));
  switch (TRY(keys.u32_or("expert_gating_func", 0))) {
    case 0:
      break;
    case 1:
      experts.gating = Gating::softmax;
      break;
    case 2:
      experts.gating = Gating::sigmoid;
      break;
    case 3:
      experts.gating = Gating::softmax_of_chosen;
      break;
    default:
      return Error{ErrorCode::model_unsupported,
                   fmt::format("model: key '{}': expert gating {}", keys.full("expert_gating_func"),
                               TRY(keys.u32_or("expert_gating_func", 0)))};
  }
  return experts;
}

Result<void> read_windows(const Keys& keys, const Family& family, ModelSpec& spec) {
  spec.window_rope = spec.rope;
  if (family.window_period == 0 || TRY(keys.u32_or("attention.sliding_window", family.window)) == 0) return {};
  spec.window = TRY(keys.count_or("attention.sliding_window", family.window, kMaxContext));
  spec.window_period = TRY(keys.count_or("attention.sliding_window_pattern", family.window_period, kMaxLayers));
  if (family.window_rope_base > 0) {
    // Windowed layers keep the plain rope they were trained with.
    spec.window_rope.base = TRY(keys.positive_or("rope.freq_base_swa", family.window_rope_base));
    spec.window_rope.scaling = RopeScaling::none;
    spec.window_rope.factor = 1.0f;
  }
  return {};
}

Result<void> read_scales(const Keys& keys, const Family& family, ModelSpec& spec) {
  switch (family.scales) {
    case Scales::none:
      break;
    case Scales::granite:
      spec.embedding_scale = TRY(keys.positive_or("embedding_scale", 1.0f));
      spec.residual_scale = TRY(keys.positive_or("residual_scale", 1.0f));
      spec.attention_scale = TRY(keys.positive_or("attention.scale", spec.attention_scale));
      spec.logit_scale = 1.0f / TRY(keys.positive("logit_scale"));
      break;
    case Scales::command_r:
      spec.logit_scale = TRY(keys.positive_or("logit_scale", 1.0f));
      break;
    case Scales::gemma: {
      spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
      if (keys.has("attn_logit_softcapping")) spec.attention_softcap = TRY(keys.positive("attn_logit_softcapping"));
      if (keys.has("final_logit_softcapping")) spec.logit_softcap = TRY(keys.positive("final_logit_softcapping"));
      // The 27B models of both generations scale by the width per head instead of the head's size.
      const bool is_27b = (spec.architecture == "gemma2" && spec.n_layers == 46) ||
                          (spec.architecture == "gemma3" && spec.n_layers == 62);
      if (is_27b) spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.width / spec.n_heads));
      break;
    }
  }
  return {};
}

Result<uint32_t> read_vocab_size(const gguf::Metadata& metadata, const Keys& keys) {
  const gguf::Value* tokens = metadata.find("tokenizer.ggml.tokens");
  const bool has_tokens = tokens && tokens->type() == gguf::ValueType::array;
  const uint64_t n_tokens = has_tokens ? tokens->n_elements() : 0;
  if (!keys.has("vocab_size")) {
    if (n_tokens < 1 || n_tokens > kMaxVocab) {
      return bad_key("tokenizer.ggml.tokens", fmt::format("{} tokens, expected 1 to {}", n_tokens, kMaxVocab));
    }
    return static_cast<uint32_t>(n_tokens);
  }
  const uint32_t n_vocab = TRY(keys.count("vocab_size", kMaxVocab));
  if (has_tokens && n_tokens != n_vocab) {
    return bad_key(keys.full("vocab_size"), fmt::format("{}, but tokenizer.ggml.tokens has {}", n_vocab, n_tokens));
  }
  return n_vocab;
}

}  // namespace

std::vector<std::string_view> supported_architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : all_families()) names.push_back(family.architecture);
  return names;
}

Result<ModelSpec> read_model_spec(const gguf::Metadata& metadata) {
  ModelSpec spec;
  spec.architecture = TRY(metadata.string("general.architecture"));
  spec.name = TRY(metadata.string_or("general.name", ""));
  const Family& family = *TRY(find_family(spec.architecture));
  const Keys keys(metadata, spec.architecture);

  spec.n_layers = TRY(keys.count("block_count", kMaxLayers));
  spec.n_vocab = TRY(read_vocab_size(metadata, keys));
  spec.n_context = TRY(keys.count("context_length", kMaxContext));
  spec.width = TRY(keys.count("embedding_length", kMaxWidth));
  spec.n_heads = TRY(keys.count("attention.head_count", 1'024));
  spec.n_kv_heads = TRY(keys.count_or("attention.head_count_kv", spec.n_heads, spec.n_heads));
  if (spec.n_heads % spec.n_kv_heads) {
    return bad_key(keys.full("attention.head_count_kv"),
                   fmt::format("{} does not divide the {} heads", spec.n_kv_heads, spec.n_heads));
  }
  if (!keys.has("attention.key_length") && spec.width % spec.n_heads) {
    return bad_key(keys.full("attention.head_count"),
                   fmt::format("{} does not divide the width {}", spec.n_heads, spec.width));
  }
  spec.head_size = TRY(keys.count_or("attention.key_length", spec.width / spec.n_heads, 1'024));
  if (const uint32_t v = TRY(keys.count_or("attention.value_length", spec.head_size, 1'024)); v != spec.head_size) {
    return Error{ErrorCode::model_unsupported,
                 fmt::format("model: heads with keys of {} and values of {} elements", spec.head_size, v)};
  }
  spec.ff_width = TRY(keys.count("feed_forward_length", kMaxWidth));
  spec.norm = family.norm;
  spec.norm_placement = family.norm_placement;
  spec.ffn_norm_is_post_attention = family.ffn_norm_is_post_attention;
  spec.norm_epsilon = TRY(keys.positive(family.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon"
                                                                     : "attention.layer_norm_epsilon"));
  spec.activation = family.activation;
  spec.gated = family.gated;
  spec.learned_positions = family.learned_positions;
  spec.qk_norm = family.qk_norm;
  spec.qkv_bias = family.qkv_bias;
  spec.has_sinks = family.has_sinks;
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.head_size));
  spec.rope = TRY(read_rope(keys, family.rope_pairs, spec.head_size));
  spec.experts = TRY(read_experts(keys, family, spec.ff_width));
  TRY(read_windows(keys, family, spec));
  TRY(read_scales(keys, family, spec));
  return spec;
}

}  // namespace rocmforge
