#include "model/family_rules.h"

#include <fmt/core.h>

#include <cmath>
#include <numbers>

#include "model/layers.h"

namespace rocmforge {
namespace {

constexpr auto kHalfRoot = static_cast<float>(std::numbers::sqrt2 / 2);

// The largest sizes of some generations scale scores by the width per head instead of the head's size.
void scale_by_width_per_head(ModelSpec& spec, uint32_t n_layers) {
  if (spec.n_layers != n_layers) return;
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.width / spec.layers[0].n_heads));
}

Result<float> alibi_bias(const Keys& keys) {
  const float bias = TRY(keys.positive("attention.max_alibi_bias"));
  if (bias > 64) return bad_key(keys.full("attention.max_alibi_bias"), fmt::format("{} is more than 64", bias));
  return bias;
}

// Numbers that no layer has where the key is missing.
Result<std::vector<float>> clamps(const Keys& keys, std::string_view key, uint32_t n_layers) {
  if (!keys.has(key)) return std::vector<float>(n_layers, 0.0f);
  std::vector<float> out = TRY(keys.numbers_per_layer(key, n_layers));
  for (float& clamp : out) {
    if (clamp < 0) return bad_key(keys.full(key), fmt::format("{} is negative", clamp));
    if (clamp <= 1e-6f) clamp = 0;
  }
  return out;
}

// Experts in the last of every `interleave_moe_layer_step` layers.
Result<void> interleave_experts(const Keys& keys, ModelSpec& spec) {
  const uint32_t step = TRY(keys.count("interleave_moe_layer_step", kMaxLayers));
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    if ((i + 1) % step != 0) spec.layers[i].feed_forward = FeedForward::dense;
  }
  return {};
}

}  // namespace

Result<void> finish_gemma2(const Keys&, ModelSpec& spec) {
  scale_by_width_per_head(spec, 46);
  return {};
}

Result<void> finish_gemma3(const Keys&, ModelSpec& spec) {
  scale_by_width_per_head(spec, 62);
  return {};
}

// The last layers have no keys and values of their own: they read those of the last layer of their kind that has.
Result<void> finish_gemma4(const Keys& keys, ModelSpec& spec) {
  spec.attention_scale = 1;
  spec.normalises_values = true;
  spec.values_may_be_keys = true;
  spec.has_layer_scales = true;
  const uint32_t n_sharing = TRY(keys.u32_or("attention.shared_kv_layers", 0));
  if (n_sharing > 0 && n_sharing + 2 > spec.n_layers) {
    return bad_key(keys.full("attention.shared_kv_layers"), fmt::format("{} of {} layers", n_sharing, spec.n_layers));
  }
  const uint32_t n_own = spec.n_layers - n_sharing;
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    LayerSpec& layer = spec.layers[i];
    layer.has_rope_factors = layer.window == 0;
    if (i >= n_own) layer.cache = layer.window > 0 ? n_own - 2 : n_own - 1;
    const LayerSpec& owner = spec.layers[layer.cache];
    if ((owner.window > 0) != (layer.window > 0) || owner.n_kv_heads != layer.n_kv_heads ||
        owner.key_size != layer.key_size || owner.value_size != layer.value_size) {
      return bad_key(keys.full("attention.shared_kv_layers"),
                     fmt::format("layer {} cannot read the cache of layer {}: they differ", i, layer.cache));
    }
    if (spec.experts.n_experts > 0) layer.feed_forward = FeedForward::dense_and_experts;
  }
  if (spec.experts.n_experts > 0) {
    spec.has_branch_norms = true;
    spec.experts_norm_name = "pre_ffw_norm_2";
  }
  if (TRY(keys.u32_or("embedding_length_per_layer_input", 0)) > 0) {
    spec.per_layer_width = TRY(keys.count("embedding_length_per_layer_input", kMaxWidth / kMaxLayers));
  }
  return {};
}

// Four residual streams. Layers from the 20th on read the caches of the last two before them; the first ten have sparse
// feed-forwards. The keys that files have besides repeat these numbers.
Result<void> finish_gemma3n(const Keys& keys, ModelSpec& spec) {
  constexpr uint32_t kOwnCaches = 20, kSparseLayers = 10, kStreams = 4, kPerLayerWidth = 256;
  const auto fixed = [&](std::string_view key, uint32_t value) -> Result<void> {
    const uint32_t given = TRY(keys.u32_or(key, value));
    return given == value ? Result<void>() : bad_key(keys.full(key), fmt::format("{}, expected {}", given, value));
  };
  TRY(fixed("altup.num_inputs", kStreams));
  TRY(fixed("altup.active_idx", 0));
  TRY(fixed("embedding_length_per_layer_input", kPerLayerWidth));
  if (spec.n_layers <= kOwnCaches) {
    return bad_key(keys.full("block_count"), fmt::format("{}, expected more than {}", spec.n_layers, kOwnCaches));
  }
  TRY(fixed("attention.shared_kv_layers", spec.n_layers - kOwnCaches));
  spec.attention_scale = 1;
  spec.normalises_values = true;
  spec.logit_softcap = TRY(keys.positive_or("final_logit_softcapping", 30.0f));
  spec.per_layer_width = kPerLayerWidth;
  spec.n_streams = kStreams;
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    LayerSpec& layer = spec.layers[i];
    if (i >= kOwnCaches) layer.cache = layer.window > 0 ? kOwnCaches - 2 : kOwnCaches - 1;
    if ((spec.layers[layer.cache].window > 0) != (layer.window > 0)) {
      return bad_key(keys.full("attention.sliding_window_pattern"),
                     fmt::format("layer {} cannot read the cache of layer {}: they differ", i, layer.cache));
    }
    // The largest 5 % of a normal distribution.
    if (i < kSparseLayers) layer.sparse_cut = 1.6448535f;
  }
  return {};
}

Result<void> finish_minicpm(const Keys& keys, ModelSpec& spec) {
  spec.embedding_scale = TRY(keys.positive_or("embedding_scale", 12.0f));
  spec.residual_scale = TRY(keys.positive_or("residual_scale", 1.4f / std::sqrt(static_cast<float>(spec.n_layers))));
  spec.logit_scale = 1.0f / TRY(keys.positive_or("logit_scale", 256.0f / static_cast<float>(spec.width)));
  return {};
}

// The file's width is that of gate and up together.
Result<void> finish_qwen(const Keys&, ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) layer.ff_width /= 2;
  return {};
}

// A longer context by a larger base.
Result<void> finish_hunyuan(const Keys& keys, ModelSpec& spec) {
  const float alpha = TRY(keys.positive_or_none("rope.scaling.alpha"));
  if (alpha == 0) return {};
  for (LayerSpec& layer : spec.layers) {
    if (layer.key_size <= 2) return bad_key(keys.full("attention.key_length"), fmt::format("{}", layer.key_size));
    const auto d = static_cast<float>(layer.key_size);
    layer.rope.base *= std::pow(alpha, d / (d - 2));
  }
  return {};
}

// Layers without heads have no mixer, those without key-value heads a matrix in its place; those without a
// feed-forward are left out altogether, as the reference does.
Result<void> finish_deci(const Keys&, ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) {
    layer.mixer = layer.n_heads == 0 ? Mixer::none : layer.n_kv_heads == 0 ? Mixer::matrix : Mixer::attention;
    if (layer.ff_width != 0) continue;
    layer.is_left_out = true;
    layer.mixer = Mixer::none;
    layer.feed_forward = FeedForward::none;
  }
  return {};
}

Result<void> finish_gptneox(const Keys& keys, ModelSpec& spec) {
  if (!keys.has("use_parallel_residual")) return bad_key(keys.full("use_parallel_residual"), "is missing");
  if (TRY(keys.boolean_or("use_parallel_residual", true))) spec.norm_placement = NormPlacement::apart;
  return {};
}

Result<void> finish_apertus(const Keys& keys, ModelSpec& spec) {
  const Keys plain = keys.unprefixed();
  const auto alpha_n = TRY(plain.numbers_per_layer("xielu.alpha_n", spec.n_layers));
  const auto alpha_p = TRY(plain.numbers_per_layer("xielu.alpha_p", spec.n_layers));
  const auto beta = TRY(plain.numbers_per_layer("xielu.beta", spec.n_layers));
  const auto epsilon = TRY(plain.numbers_per_layer("xielu.eps", spec.n_layers));
  // The alphas are stored as what softplus makes positive, the negative side's less beta.
  const auto softplus = [](float x) { return x > 20 ? x : std::log1p(std::exp(x)); };
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    spec.layers[i].xielu = {beta[i] + softplus(alpha_n[i]), softplus(alpha_p[i]), beta[i], epsilon[i]};
  }
  return {};
}

Result<void> finish_mpt(const Keys& keys, ModelSpec& spec) {
  spec.alibi_bias = TRY(alibi_bias(keys));
  return {};
}

Result<void> finish_jais(const Keys& keys, ModelSpec& spec) {
  spec.alibi_bias = TRY(alibi_bias(keys));
  spec.attention_scale = 1.0f / static_cast<float>(spec.layers[0].key_size);
  return {};
}

// The two sizes know positions by different means, and only their number of layers tells them apart.
Result<void> finish_baichuan(const Keys& keys, ModelSpec& spec) {
  if (spec.n_layers == 32) return {};
  if (spec.n_layers != 40) {
    return Error{ErrorCode::model_unsupported,
                 fmt::format("model: key '{}': {} layers; known are models of 32 (with rope) and of 40 (without)",
                             keys.full("block_count"), spec.n_layers)};
  }
  spec.alibi_bias = 8;
  for (LayerSpec& layer : spec.layers) layer.has_rope = false;
  return {};
}

Result<void> finish_mistral3(const Keys& keys, ModelSpec& spec) {
  const float multiplier = TRY(keys.positive_or_none("rope.scaling.yarn_log_multiplier"));
  spec.temperature.scale = TRY(keys.positive_or_none("attention.temperature_scale"));
  if (spec.temperature.scale > 0) {
    spec.temperature.length = TRY(keys.count("rope.scaling.original_context_length", kMaxContext));
  }
  for (LayerSpec& layer : spec.layers) {
    layer.rope.log_multiplier = multiplier;
    layer.has_temperature = spec.temperature.scale > 0;
  }
  return {};
}

// Only the largest has windows.
Result<void> finish_exaone4(const Keys& keys, ModelSpec& spec) {
  if (spec.n_layers != 64) {
    for (LayerSpec& layer : spec.layers) {
      layer.window = 0;
      layer.has_rope = true;
    }
  } else if (!keys.has("attention.sliding_window")) {
    return bad_key(keys.full("attention.sliding_window"), "is missing");
  }
  return {};
}

Result<void> finish_ernie4_5_moe(const Keys& keys, ModelSpec& spec) {
  return interleave_experts(keys, spec);
}

Result<void> finish_bailingmoe(const Keys&, ModelSpec& spec) {
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.layers[0].rope.n_dims));
  return {};
}

// The defaults are those of the first Grok, which has no keys for them.
Result<void> finish_grok(const Keys& keys, ModelSpec& spec) {
  spec.embedding_scale = TRY(keys.positive_or("embedding_scale", 78.38367176906169f));
  spec.logit_scale = TRY(keys.positive_or("logit_scale", 0.5773502691896257f));
  spec.attention_scale = TRY(keys.positive_or("attention.output_scale", 0.08838834764831845f));
  spec.attention_softcap = TRY(keys.positive_or("attn_logit_softcapping", 30.0f));
  spec.logit_softcap = TRY(keys.positive_or_none("final_logit_softcapping"));
  keys.has("router_logit_softcapping");  // the reference does without
  spec.dense_scale = kHalfRoot;
  spec.experts.scale *= kHalfRoot;
  return {};
}

// Experts beside the layer: they read its input through a norm of their own. The dense feed-forward is as wide as it.
Result<void> finish_arctic(const Keys&, ModelSpec& spec) {
  spec.experts_norm_name = "ffn_norm_exps";
  spec.experts_read_layer_input = true;
  for (LayerSpec& layer : spec.layers) layer.ff_width = spec.width;
  return {};
}

// Any window is 4096 positions.
Result<void> finish_smallthinker(const Keys&, ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) {
    if (layer.window > 0) layer.window = 4096;
  }
  spec.experts.router_reads_input = true;
  return {};
}

// Rotated layers see chunks of 8192 positions, the others everything, with a temperature. A window of 0 means neither.
Result<void> finish_llama4(const Keys& keys, ModelSpec& spec) {
  constexpr uint32_t kChunk = 8192;
  TRY(interleave_experts(keys, spec));
  const bool has_chunks = TRY(keys.u32_or("attention.sliding_window", kChunk)) != 0;
  if (has_chunks) spec.temperature = {.scale = 0.1f, .length = kChunk, .offset = 1};
  for (LayerSpec& layer : spec.layers) {
    if (!has_chunks) layer.has_rope = true;
    layer.chunk = has_chunks && layer.has_rope ? kChunk : 0;
    layer.has_temperature = !layer.has_rope;
  }
  if (spec.experts.n_experts == 16) {
    spec.qk_norm = QkNorm::plain_heads;
    spec.qk_norm_after_rope = true;
  }
  spec.experts.weighs_inputs = true;
  return {};
}

Result<void> finish_mimo2(const Keys& keys, ModelSpec& spec) {
  const float scale = TRY(keys.positive_or_none("attention.value_scale"));
  if (scale != 0) spec.attention_output_scale = scale;
  return {};
}

// Full layers rotate half of what windowed ones do.
Result<void> finish_step35(const Keys& keys, ModelSpec& spec) {
  const auto of_experts = TRY(clamps(keys, "swiglu_clamp_exp", spec.n_layers));
  const auto of_others = TRY(clamps(keys, "swiglu_clamp_shexp", spec.n_layers));
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    LayerSpec& layer = spec.layers[i];
    if (layer.window == 0) layer.rope.n_dims /= 2;
    layer.expert_clamp = of_experts[i];
    layer.dense_clamp = of_others[i];
  }
  return {};
}

Result<void> finish_afmoe(const Keys&, ModelSpec& spec) {
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.width));
  return {};
}

// What experts and the shared one give is halved.
Result<void> finish_cohere2moe(const Keys&, ModelSpec& spec) {
  if (spec.experts.shared_width == 0) return {};
  spec.experts.scale *= 0.5f;
  spec.experts.shared_scale = 0.5f;
  return {};
}

Result<void> finish_hy_v3(const Keys&, ModelSpec& spec) {
  spec.choice_bias_name = "exp_probs_b";
  return {};
}

}  // namespace rocmforge
