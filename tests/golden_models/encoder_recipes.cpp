// Models for embeddings and rerankers. Weights are drawn as those of the variants.

#include "builder.h"

namespace rocmforge::golden_models {
namespace {

constexpr Dims kUsual = {384, 128, 256, 4, 2, 32, 3, 128};
constexpr Dims kNarrow = {384, 128, 128, 4, 2, 32, 3, 128};
constexpr uint32_t kWindow = 16;

enum class PoolingType : uint32_t { mean = 1, first = 2, rank = 4 };

Builder encoder(const char* architecture, uint32_t n_layers, PoolingType pooling) {
  Builder b(architecture, kUsual, n_layers);
  b.layer_norm().drop("attention.head_count_kv").set("attention.causal", false);
  return b.set("pooling_type", static_cast<uint32_t>(pooling));
}

Builder& without_rope(Builder& b) {
  return b.drop("rope.freq_base").drop("rope.dimension_count");
}

Builder& typed_embeddings(Builder& b) {
  b.tensor("token_embd.weight", {kUsual.width, kUsual.vocabulary}).tensor("token_types.weight", {kUsual.width, 2});
  return b.tensor("token_embd_norm.weight", {kUsual.width}).tensor("token_embd_norm.bias", {kUsual.width});
}

Builder bert(PoolingType pooling) {
  Builder b = encoder("bert", kUsual.layers, pooling);
  without_rope(b);
  typed_embeddings(b).tensor("position_embd.weight", {kUsual.width, 512});
  if (pooling == PoolingType::rank) {
    b.tensor("cls.weight", {kUsual.width, kUsual.width}).tensor("cls.bias", {kUsual.width});
    b.tensor("cls.output.weight", {kUsual.width, 1}).tensor("cls.output.bias", {1});
  }
  return b.layers([](Builder& l, uint32_t) {
    l.attention({.bias = true, .output_bias = true, .kv_heads = kUsual.heads});
    l.norms({"attn_output_norm", "layer_output_norm"}, true).feed_forward({.gate = false, .bias = true});
  });
}

Builder nomic_bert() {
  Builder b = encoder("nomic-bert", kUsual.layers, PoolingType::mean);
  b.set("rope.freq_base", 1000.0f);
  return typed_embeddings(b).layers([](Builder& l, uint32_t) {
    l.attention({.fused = true, .kv_heads = kUsual.heads});
    l.norms({"attn_output_norm", "layer_output_norm"}, true).feed_forward();
  });
}

Builder jina_bert_v2() {
  Builder b = encoder("jina-bert-v2", kUsual.layers, PoolingType::mean);
  return typed_embeddings(without_rope(b)).layers([](Builder& l, uint32_t) {
    l.attention({.bias = true, .output_bias = true, .kv_heads = kUsual.heads});
    l.norms({"attn_output_norm", "layer_output_norm"}, true);
    l.part("ffn_gate.weight", {kUsual.width, kUsual.ff}).part("ffn_up.weight", {kUsual.width, kUsual.ff});
    l.part("ffn_down.weight", {kUsual.ff, kUsual.width}).part("ffn_down.bias", {kUsual.width});
  });
}

Builder modern_bert() {
  Builder b = encoder("modern-bert", 4, PoolingType::mean);
  b.set("attention.sliding_window", kWindow).set("rope.freq_base", 160000.0f).set("rope.freq_base_swa", 10000.0f);
  b.tensor("token_embd.weight", {kUsual.width, kUsual.vocabulary}).tensor("token_embd_norm.weight", {kUsual.width});
  return b.tensor("output_norm.weight", {kUsual.width}).layers([](Builder& l, uint32_t i) {
    if (i > 0) l.norms({"attn_norm"});
    l.norms({"ffn_norm"}).attention({.fused = true, .kv_heads = kUsual.heads});
    l.feed_forward({.gate = false, .up_times = 2});
  });
}

Builder gemma_embedding() {
  Builder b("gemma-embedding", kNarrow, 7);
  b.keys().set("pooling_type", 1u).set("attention.sliding_window", kWindow).set("rope.freq_base", 1e6f);
  return b.head(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"});
    l.attention({.qk_norm = QkNorm::per_head}).feed_forward();
  });
}

}  // namespace

std::vector<Recipe> encoder_recipes() {
  std::vector<Recipe> recipes;
  const auto add = [&](const std::string& name, const Builder& builder, double embedding = 1.0) {
    Recipe r = builder.recipe;
    r.name = r.seed = name;
    r.draw = Recipe::Draw::quantiles;
    r.embedding = embedding;
    recipes.push_back(std::move(r));
  };
  add("bert", bert(PoolingType::first));
  add("bert-rank", bert(PoolingType::rank));
  add("nomic-bert", nomic_bert());
  add("jina-bert-v2", jina_bert_v2());
  add("modern-bert", modern_bert());
  add("gemma-embedding", gemma_embedding(), 0.05);
  return recipes;
}

}  // namespace rocmforge::golden_models
