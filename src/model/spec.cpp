#include "model/spec.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "model/families.h"
#include "model/keys.h"
#include "model/layers.h"

namespace rocmforge {
namespace {

Result<const Family*> find_family(std::string_view architecture) {
  for (const Family& family : all_families()) {
    if (family.architecture == architecture) return &family;
  }
  return Error{ErrorCode::model_unsupported,
               fmt::format("model: architecture '{}' is not supported; known are {}", printable(architecture, 64),
                           fmt::join(supported_architectures(), ", "))};
}

// The expert that every row uses.
Result<uint32_t> read_shared_width(const Keys& keys, SharedWidth fallback, uint32_t expert_width) {
  constexpr std::string_view kKey = "expert_shared_feed_forward_length";
  if (TRY(keys.u32_or(kKey, 0)) != 0) return keys.count(kKey, kMaxWidth);
  const uint32_t n_shared = TRY(keys.u32_or("expert_shared_count", 0));
  if (n_shared > kMaxWidth / expert_width)
    return bad_key(keys.full("expert_shared_count"), fmt::format("{}", n_shared));
  if (n_shared > 0) return n_shared * expert_width;
  switch (fallback) {
    case SharedWidth::none:
      return 0u;
    case SharedWidth::expert:
      return expert_width;
    case SharedWidth::dense:
      return keys.count("feed_forward_length", kMaxWidth);
  }
  RF_UNREACHABLE("a SharedWidth outside its enum");
}

Result<bool> read_normalise(const Keys& keys, const Family& family) {
  constexpr std::string_view kKey = "expert_weights_norm";
  switch (family.normalise) {
    case Normalise::if_softmax:
      return keys.boolean_or(kKey, family.gating == Gating::softmax);
    case Normalise::no:
      return keys.boolean_or(kKey, false);
    case Normalise::always:
      return true;
    case Normalise::never:
      return false;
  }
  RF_UNREACHABLE("a Normalise outside its enum");
}

Result<void> read_groups(const Keys& keys, const Family& family, ExpertSpec& experts) {
  constexpr std::string_view kGroups = "expert_group_count", kUsed = "expert_group_used_count";
  if (!family.has_groups || TRY(keys.u32_or(kGroups, 1)) <= 1) return {};
  experts.n_groups = TRY(keys.count(kGroups, experts.n_experts));
  experts.n_groups_used = TRY(keys.count(kUsed, experts.n_groups));
  const uint32_t size = experts.n_experts / experts.n_groups;
  if (experts.n_experts % experts.n_groups || size < 2) {
    return bad_key(keys.full(kGroups), fmt::format("{} groups of {} experts", experts.n_groups, experts.n_experts));
  }
  if (experts.n_groups_used * size < experts.n_used) {
    return bad_key(keys.full(kUsed), fmt::format("{} groups of {} experts, of which {} are used", experts.n_groups_used,
                                                 size, experts.n_used));
  }
  return {};
}

Result<ExpertSpec> read_experts(const Keys& keys, const Family& family) {
  ExpertSpec experts;
  // Dense models are sometimes written with an expert count of 0.
  if (TRY(keys.u32_or("expert_count", 0)) == 0) {
    if (TRY(keys.u32_or("expert_used_count", 0)) != 0)
      return bad_key(keys.full("expert_count"), "0 of them, but some used");
    return experts;
  }
  experts.n_experts = TRY(keys.count("expert_count", 1'024));
  experts.n_used = TRY(keys.count("expert_used_count", experts.n_experts));
  experts.width = keys.has("expert_feed_forward_length") ? TRY(keys.count("expert_feed_forward_length", kMaxWidth))
                                                         : TRY(keys.count("feed_forward_length", kMaxWidth));
  experts.shared_width = TRY(read_shared_width(keys, family.shared_width, experts.width));
  experts.scale = TRY(keys.positive_or("expert_weights_scale", 1.0f));
  if (family.has_latent_experts && TRY(keys.u32_or("moe_latent_size", 0)) > 0) {
    experts.latent_width = TRY(keys.count("moe_latent_size", kMaxWidth));
  }
  experts.gating = family.gating;
  experts.normalise_weights = TRY(read_normalise(keys, family));
  TRY(read_groups(keys, family, experts));
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
    case Scales::multiplied:
      spec.logit_scale = TRY(keys.positive_or("logit_scale", 1.0f));
      break;
    case Scales::gemma: {
      spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
      spec.attention_softcap = TRY(keys.positive_or_none("attn_logit_softcapping"));
      spec.logit_softcap = TRY(keys.positive_or_none("final_logit_softcapping"));
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
    case 2:
      return std::optional(Pooling::first);
    case 3:
      return std::optional(Pooling::last);
    case 4:
      return std::optional(Pooling::rank);
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
  spec.experts = TRY(read_experts(keys, family));
  TRY(read_layers(keys, family, spec));
  spec.norm = family.norm;
  spec.norm_placement = family.norm_placement;
  spec.norms_have_weights = family.norms_have_weights;
  spec.output_norm_name = family.output_norm_name;
  spec.ffn_norm_name = family.ffn_norm_name;
  spec.attention_post_norm_name = family.attention_post_norm_name;
  spec.ffn_post_norm_name = family.ffn_post_norm_name;
  spec.norm_epsilon = TRY(keys.positive(family.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon"
                                                                     : "attention.layer_norm_epsilon"));
  spec.activation = family.activation;
  spec.gated = family.gated;
  spec.attends_both_ways = family.is_encoder;
  if (family.is_encoder) keys.has("attention.causal");
  spec.has_token_types = family.has_token_types;
  spec.learned_positions = family.learned_positions;
  spec.has_output_bias = family.has_output_bias;
  spec.normalises_embeddings = family.normalises_embeddings;
  spec.qk_norm = family.qk_norm;
  spec.qk_norm_after_rope = family.qk_norm_after_rope;
  spec.qkv_bias = family.qkv_bias;
  spec.sinks = family.sinks;
  spec.output_gate = family.output_gate;
  spec.queries_hold_gates = family.queries_hold_gates;
  spec.alibi_bias = family.alibi_bias;
  spec.has_shared_gate = family.has_shared_gate;
  spec.has_inner_norms = family.has_inner_norms;
  spec.has_weight_scales = family.has_weight_scales;
  if (family.has_clamp) spec.qkv_clamp = TRY(keys.positive_or_none("attention.clamp_kqv"));
  const uint32_t key_size = spec.layers[0].key_size;
  if (key_size > 0) spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(key_size));
  TRY(read_scales(keys, family, spec));
  if (family.finish != nullptr) TRY(family.finish(keys, spec));
  TRY(check_layers(keys, spec));
  spec.pooling = TRY(read_pooling(keys));
  // A decoder knows the whole text in its last row only.
  if (!spec.attends_both_ways) spec.classifier = {.pooling = Pooling::last, .has_softmax = true};
  TRY(keys.refuse_unread(spec));
  return spec;
}

}  // namespace rocmforge
