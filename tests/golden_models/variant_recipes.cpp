// Variants of the first families.

#include "variant_list.h"

namespace rocmforge::golden_models {
namespace {

void add_gemmas_and_command_r(VariantList& list) {
  const auto layer = [](const AttentionParts& attention) {
    return [attention](Builder& l, uint32_t) {
      l.norms({"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}).attention(attention).feed_forward();
    };
  };
  // These take their layer count as a sign of the model they are: thin, so that the files stay small.
  const Dims thin = {384, 64, 96, 4, 2, 32, 3, 48};
  Builder two("gemma2", thin, 46);
  two.keys().set("attn_logit_softcapping", 2.0f).set("final_logit_softcapping", 0.5f);
  two.set("attention.sliding_window", kWindow).head(true).layers(layer({}));
  list.add("gemma2-27b", two, {.embedding = 0.02, .qk_deviation = 0.08, .salt = "b"});

  Builder three("gemma3", thin, 62);
  three.keys().set("attention.sliding_window", kWindow).set("rope.freq_base", 1e6f);
  three.set("rope.scaling.type", "linear").set("rope.scaling.factor", 8.0f);
  three.head(true).layers(layer({.qk_norm = QkNorm::per_head}));
  list.add("gemma3-27b", three, {.embedding = 0.02, .qk_norm = 0.7, .salt = "c"});

  Builder plus("command-r", {384, 64, 96, 2, 1, 32, 3, 48}, 64);
  plus.layer_norm().set("logit_scale", 0.25f).head(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm"}).attention({.qk_norm = QkNorm::heads}).feed_forward();
  });
  list.add("command-r-plus", plus);
}

void add_glms(VariantList& list) {
  const auto glm4_layer = [](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}).attention({.bias = true});
    l.feed_forward({.gate = false, .up_times = 2});
    if (i == kUsual.layers) l.next_token();
  };
  Builder ocr("glm4", kUsual, kUsual.layers + 1);
  ocr.set("rope.dimension_count", 16u).set("nextn_predict_layers", 1u).head().layers(glm4_layer);
  list.add("glm4-nextn", ocr);

  Builder sections("glm4", kUsual, kUsual.layers);
  sections.set("rope.dimension_count", 16u).set("rope.dimension_sections", std::vector<int32_t>{2, 2, 4, 0});
  sections.head().layers(glm4_layer);
  list.add("glm4-sections", sections, {.salt = "b"});

  const auto glm4moe = [](uint32_t n_layers, QkNorm qk_norm) {
    Builder b("glm4moe", kUsual, n_layers);
    b.set("rope.dimension_count", 16u).keys().set("expert_count", 8u).set("expert_used_count", 2u);
    b.set("expert_feed_forward_length", 128u).set("expert_shared_count", 1u).set("leading_dense_block_count", 1u);
    if (n_layers > kUsual.layers) b.set("nextn_predict_layers", 1u);
    b.set("expert_gating_func", 2u).set("expert_weights_norm", true).set("expert_weights_scale", 2.5f);
    return b.head().layers([&](Builder& l, uint32_t i) {
      l.norms({"attn_norm", "post_attention_norm"}).attention({.bias = true, .qk_norm = qk_norm});
      i == 0 ? l.feed_forward() : l.experts({.choice_bias = true, .shared = true});
      if (i == kUsual.layers) l.next_token();
    });
  };
  list.add("glm4moe-nextn", glm4moe(kUsual.layers + 1, QkNorm::per_head));
  list.add("glm4moe-noqk", glm4moe(kUsual.layers, QkNorm::none));
}

void add_llamas(VariantList& list) {
  Builder granite("granite", kUsual, kUsual.layers);
  granite.set("attention.scale", 0.0625f).set("embedding_scale", 6.0f).set("residual_scale", 0.3f);
  granite.set("logit_scale", 4.0f).set("rope.scaling.finetuned", false).head(true);
  granite.layers([](Builder& l, uint32_t) { l.norms({"attn_norm", "ffn_norm"}).attention().feed_forward(); });
  list.add("granite-norope", granite, {.embedding = 0.01});

  Builder bias("llama", kUsual, kUsual.layers);
  bias.set("rope.freq_base", 5e5f).head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.bias = true, .output_bias = true});
    l.feed_forward({.bias = true}).part("ffn_gate.bias", {kUsual.ff});
  });
  list.add("llama-bias", bias);

  Builder mixtral("llama", kUsual, kUsual.layers);
  mixtral.set("expert_count", 8u).set("expert_used_count", 2u).set("feed_forward_length", 128u).head(true);
  mixtral.layers([](Builder& l, uint32_t) { l.norms({"attn_norm", "ffn_norm"}).attention().experts(); });
  list.add("mixtral-shared", mixtral);

  Builder olmo("olmo2", kUsual, 5);
  olmo.set("attention.sliding_window", kWindow).set("rope.freq_base", 5e5f).yarn(32).head();
  olmo.layers([](Builder& l, uint32_t) {
    l.norms({"post_attention_norm", "post_ffw_norm"}).attention({.qk_norm = QkNorm::per_row}).feed_forward();
  });
  list.add("olmo2-swa", olmo);
}

void add_phis(VariantList& list) {
  const auto layer = [](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.fused = true}).feed_forward({.gate = false, .up_times = 2});
  };
  Builder window("phi3", kUsual, kUsual.layers);
  window.set("attention.sliding_window", kWindow).set("rope.scaling.original_context_length", 512u);
  list.add("phi3-window", window.head().layers(layer));

  Builder partial("phi3", kUsual, kUsual.layers);
  partial.set("rope.dimension_count", 24u).set("rope.scaling.original_context_length", 512u);
  partial.set("rope.scaling.attn_factor", 1.19f).head(true);
  partial.tensor("rope_factors_long.weight", {12}).tensor("rope_factors_short.weight", {12});
  list.add("phi3-partial", partial.layers(layer));
}

void add_qwens(VariantList& list) {
  Builder two("qwen2", kUsual, kUsual.layers);
  two.set("rope.freq_base", 1e6f).yarn(32).head(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.bias = true}).feed_forward();
  });
  list.add("qwen2-yarn", two, {.salt = "c"});

  const auto three = [](uint32_t pooling) {
    Builder b("qwen3", kUsual, kUsual.layers);
    b.keys().set("rope.freq_base", 1e6f).set("pooling_type", pooling);
    if (pooling == 4) b.set("classifier.output_labels", std::vector<std::string>{"yes", "no"});
    b.head(true);
    if (pooling == 4) b.tensor("cls.output.weight", {kUsual.width, 2});
    return b.layers([](Builder& l, uint32_t) {
      l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head}).feed_forward();
    });
  };
  list.add("qwen3-embed", three(3));
  list.add("qwen3-rank", three(4));

  Builder wide("qwen3moe", kUsual, kUsual.layers);
  wide.keys(64).set("rope.dimension_count", 64u).set("expert_count", 8u).set("expert_used_count", 2u);
  wide.set("expert_feed_forward_length", 128u).head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head, .head_size = 64}).experts();
  });
  list.add("qwen3moe-wide", wide);
}

void add_stablelms(VariantList& list) {
  const auto base = [](bool is_parallel) {
    Builder b("stablelm", kUsual, kUsual.layers);
    return b.layer_norm().set("rope.dimension_count", 8u).set("use_parallel_residual", is_parallel).head(false, true);
  };
  list.add("stablelm", base(false).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}, true).attention({.bias = true}).feed_forward();
  }));
  list.add("stablelm-12b", base(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm"}, true).attention({.qk_norm = QkNorm::heads}).feed_forward();
  }),
           {.salt = "b"});
}

}  // namespace

std::vector<Recipe> variant_recipes() {
  VariantList list;
  add_gemmas_and_command_r(list);
  add_glms(list);
  add_llamas(list);
  add_phis(list);
  add_qwens(list);
  add_stablelms(list);
  add_families(list);
  return std::move(list.recipes);
}

}  // namespace rocmforge::golden_models
