#include <fmt/core.h>

#include "base/printable.h"
#include "model/family_rules.h"
#include "model/layers.h"

namespace rocmforge {

Result<void> finish_gemma_embedding(const Keys&, ModelSpec& spec) {
  spec.has_embedding_layers = true;
  return {};
}

// Made from decoders; a file may keep their causal attention.
Result<void> finish_llama_embed(const Keys& keys, ModelSpec& spec) {
  spec.attends_both_ways = !TRY(keys.boolean_or("attention.causal", true));
  return {};
}

Result<void> finish_modern_bert(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kKey = "hidden_activation";
  const std::string_view activation = TRY(keys.string_or(kKey, "gelu"));
  if (activation != "gelu" && activation != "silu") {
    return Error{ErrorCode::model_unsupported,
                 fmt::format("model: key '{}': activation '{}' is not supported; known are gelu, silu", keys.full(kKey),
                             printable(activation, 64))};
  }
  if (activation == "silu") spec.activation = Activation::silu;
  spec.layers[0].has_attention_norm = false;
  spec.classifier = {.pooling = Pooling::mean, .has_gelu = true};
  return {};
}

// Experts in the second of every `moe_every_n_layers` layers.
Result<void> finish_nomic_bert_moe(const Keys& keys, ModelSpec& spec) {
  const uint32_t period = TRY(keys.count("moe_every_n_layers", kMaxLayers));
  for (uint32_t i = 0; i < spec.n_layers; i++) {
    if (i % period != 1 % period) spec.layers[i].feed_forward = FeedForward::dense;
  }
  return {};
}

// Positions are known by a bias per distance and head; scores are not scaled.
Result<void> finish_t5encoder(const Keys& keys, ModelSpec& spec) {
  spec.layer_prefix = "enc.blk";
  spec.attention_output_name = "attn_o";
  spec.attention_scale = 1;
  spec.ungated_activation = Activation::relu;
  spec.n_distance_buckets = TRY(keys.count("attention.relative_buckets_count", kMaxDistanceBuckets));
  if (spec.n_distance_buckets % 4) {
    return bad_key(keys.full("attention.relative_buckets_count"),
                   fmt::format("{} is not a multiple of 4", spec.n_distance_buckets));
  }
  return {};
}

}  // namespace rocmforge
