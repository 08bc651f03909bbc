#include "model/spec.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/families.h"
#include "model/keys.h"

namespace rocmforge {
namespace {

Result<const Family*> find_family(std::string_view architecture) {
  for (const Family& family : all_families()) {
    if (family.architecture == architecture) return &family;
  }
  return Error{ErrorCode::model_unsupported, fmt::format("model: architecture '{}' is not supported; known are {}",
                                                         architecture, fmt::join(supported_architectures(), ", "))};
}

constexpr uint32_t kMaxWidth = 1u << 20;
constexpr uint32_t kMaxContext = 1u << 24;

// With sections a pair's angle comes from one of four coordinates of its token. Of text the first three are the
// position and the fourth is 0, so that sections of the first three are plain rope, of halves.
Result<bool> has_sections(const Keys& keys) {
  if (!keys.has("rope.dimension_sections")) return false;
  const std::vector<int32_t> sections = TRY(keys.i32_array("rope.dimension_sections"));
  if (std::ranges::all_of(sections, [](int32_t n) { return n == 0; })) return false;
  const bool is_plain = sections.size() >= 3 && sections[0] > 0 && sections[1] > 0 && sections[2] >= 0 &&
                        std::all_of(sections.begin() + 3, sections.end(), [](int32_t n) { return n == 0; });
  if (is_plain) return true;
  return Error{
      ErrorCode::model_unsupported,
      fmt::format("model: key '{}': sections of {} pairs; only the first three may have any, and the first two "
                  "must",
                  keys.full("rope.dimension_sections"), fmt::join(sections, ", "))};
}

Result<RopeSpec> read_rope(const Keys& keys, const Family& family, uint32_t head_size) {
  RopeSpec rope;
  rope.pairs = family.rope_pairs;
  if (family.has_sections && TRY(has_sections(keys))) rope.pairs = RopePairs::halves;
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

// The last layer of how many looks at everything. Some files say of each layer whether it has a window.
Result<uint32_t> read_window_period(const Keys& keys, uint32_t fallback, uint32_t n_layers) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const gguf::Value* value = keys.find(kKey);
  if (!value || value->type() != gguf::ValueType::array) return keys.count_or(kKey, fallback, kMaxLayers);
  const std::vector<int32_t> has_window = TRY(keys.i32_array(kKey));
  if (has_window.size() < n_layers) {
    return bad_key(keys.full(kKey), fmt::format("{} values for {} layers", has_window.size(), n_layers));
  }
  const auto trunk = std::span(has_window).first(n_layers);
  const auto period = static_cast<uint32_t>(std::ranges::find(trunk, 0) - trunk.begin()) + 1;
  for (uint32_t i = 0; i < n_layers; i++) {
    if ((trunk[i] != 0) == (i % period + 1 < period)) continue;
    return Error{ErrorCode::model_unsupported,
                 fmt::format("model: key '{}': layer {} is out of the order of the first {}: only windows in all but "
                             "every n-th layer are supported",
                             keys.full(kKey), i, period)};
  }
  return period;
}

Result<void> read_windows(const Keys& keys, const Family& family, ModelSpec& spec) {
  spec.window_rope = spec.rope;
  if (family.ignores_window) keys.has("attention.sliding_window");
  if (family.window_period == 0 || TRY(keys.u32_or("attention.sliding_window", family.window)) == 0) return {};
  spec.window = TRY(keys.count_or("attention.sliding_window", family.window, kMaxContext));
  spec.window_period = TRY(read_window_period(keys, family.window_period, spec.n_layers));
  const float base = family.window_rope_base > 0 ? family.window_rope_base : spec.rope.base;
  spec.window_rope.base = TRY(keys.positive_or("rope.freq_base_swa", base));
  if (family.window_rope_is_plain) {
    spec.window_rope.scaling = RopeScaling::none;
    spec.window_rope.factor = 1.0f;
    spec.window_rope.attention_factor = 1.0f;
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
      spec.attention_softcap = TRY(keys.positive_or_none("attn_logit_softcapping"));
      spec.logit_softcap = TRY(keys.positive_or_none("final_logit_softcapping"));
      // The 27B models of both generations scale by the width per head instead of the head's size.
      const bool is_27b = (spec.architecture == "gemma2" && spec.n_layers == 46) ||
                          (spec.architecture == "gemma3" && spec.n_layers == 62);
      if (is_27b) spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.width / spec.n_heads));
      break;
    }
  }
  return {};
}

// A model for embeddings says how the rows of a text become one.
Result<std::optional<Pooling>> read_pooling(const Keys& keys) {
  constexpr std::string_view kKey = "pooling_type";
  switch (const uint32_t type = TRY(keys.u32_or(kKey, 0)); type) {
    case 0:
      return std::optional<Pooling>();
    case 1:
      return std::optional(Pooling::mean);
    case 3:
      return std::optional(Pooling::last);
    case 2:
      return Error{ErrorCode::model_unsupported,
                   fmt::format("model: key '{}': embeddings from the first row (type 2, cls) are not supported",
                               keys.full(kKey))};
    case 4:
      return Error{ErrorCode::model_unsupported,
                   fmt::format("model: key '{}': reranking (type 4, rank) is not supported", keys.full(kKey))};
    default:
      return bad_key(keys.full(kKey), fmt::format("{} is not in 0 to 4", type));
  }
}

// The layers that compute logits: those that predict further tokens come behind them and are left out.
Result<uint32_t> read_trunk(const Keys& keys, const Family& family, uint32_t n_blocks) {
  constexpr std::string_view kKey = "nextn_predict_layers";
  if (!family.has_next_token_layers) return n_blocks;
  const uint32_t n_next = TRY(keys.u32_or(kKey, 0));
  if (n_next >= n_blocks) return bad_key(keys.full(kKey), fmt::format("{} of {} layers", n_next, n_blocks));
  return n_blocks - n_next;
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

  spec.n_blocks = TRY(keys.count("block_count", kMaxLayers));
  spec.n_layers = TRY(read_trunk(keys, family, spec.n_blocks));
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
  spec.has_rope = !family.learned_positions;
  if (family.rope_is_optional) spec.has_rope = TRY(keys.boolean_or("rope.scaling.finetuned", true));
  spec.qk_norm = family.qk_norm;
  spec.qkv_bias = family.qkv_bias;
  spec.has_sinks = family.has_sinks;
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.head_size));
  spec.rope = TRY(read_rope(keys, family, spec.head_size));
  spec.experts = TRY(read_experts(keys, family, spec.ff_width));
  TRY(read_windows(keys, family, spec));
  TRY(read_scales(keys, family, spec));
  spec.pooling = TRY(read_pooling(keys));
  TRY(keys.refuse_unread(spec));
  return spec;
}

}  // namespace rocmforge
