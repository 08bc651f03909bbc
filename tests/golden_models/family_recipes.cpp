// More architectures, one or two models each.

#include "variant_list.h"

namespace rocmforge::golden_models {
namespace {

// Thin models for families whose layer count decides what they are.
constexpr Dims kThin = {384, 64, 96, 2, 1, 32, 3, 48};

Builder usual(const char* architecture, uint32_t n_layers = kUsual.layers) {
  return {architecture, kUsual, n_layers};
}

void plain(Builder& l, uint32_t) {
  l.norms({"attn_norm", "ffn_norm"}).attention().feed_forward();
}

// One layer of GPT-NeoX and BLOOM.
void neox(Builder& l, uint32_t) {
  l.norms({"attn_norm", "ffn_norm"}, true);
  l.attention({.bias = true, .output_bias = true, .fused = true, .kv_heads = l.dims.heads});
  l.feed_forward({.gate = false, .bias = true});
}

Builder& with_experts(Builder& b, uint32_t n = 8, uint32_t n_used = 2) {
  return b.set("expert_count", n).set("expert_used_count", n_used).set("expert_feed_forward_length", b.dims.expert_ff);
}

Builder& with_sigmoid(Builder& b) {
  return b.set("expert_gating_func", 2u).set("expert_weights_norm", true).set("expert_weights_scale", 2.5f);
}

Builder& without_rope(Builder& b) {
  return b.drop("rope.freq_base").drop("rope.dimension_count");
}

// Keys that every family of Granite's scales has.
Builder& granite_scales(Builder& b) {
  b.set("attention.scale", 0.0625f).set("embedding_scale", 6.0f).set("residual_scale", 0.3f);
  return b.set("logit_scale", 4.0f);
}

void add_like_llama(VariantList& list) {
  list.add("internlm2", usual("internlm2").set("rope.freq_base", 1e6f).head().layers(plain));
  list.add("xverse", usual("xverse").head().layers(plain));
  list.add("exaone", usual("exaone").keys().head().tensor("rope_freqs.weight", {16}).layers(plain));
  list.add("ernie4_5", usual("ernie4_5").keys().set("rope.freq_base", 5e5f).head(true).layers(plain));
  list.add("smollm3", usual("smollm3", 4).keys().set("rope.freq_base", 5e6f).head(true).layers(plain));
  list.add("gemma", usual("gemma").keys().head(true).layers(plain), {.embedding = 0.02});

  Builder ministral = usual("mistral3").keys().yarn(32);
  ministral.set("rope.scaling.yarn_beta_fast", 2.0f).set("rope.scaling.yarn_beta_slow", 0.25f);
  ministral.set("rope.scaling.yarn_log_multiplier", 0.5f).set("attention.temperature_scale", 0.1f);
  list.add("mistral3", ministral.head().layers(plain), {.salt = "b"});

  Builder scaled = usual("minicpm");
  scaled.set("embedding_scale", 10.0f).set("residual_scale", 0.4f).set("logit_scale", 2.0f);
  list.add("minicpm", scaled.head(true).layers(plain), {.embedding = 0.02});
  list.add("minicpm-old", usual("minicpm").head(true).layers(plain), {.embedding = 0.02});

  constexpr Dims thin = {384, 64, 96, 2, 2, 32, 3, 48};
  list.add("baichuan", Builder("baichuan", thin, 32).head().layers(plain), {.salt = "c"});
  list.add("baichuan-13b", Builder("baichuan", thin, 40).drop("rope.freq_base").head().layers(plain));

  list.add("plamo", usual("plamo").head().layers(
                        [](Builder& l, uint32_t) { l.norms({"attn_norm"}).attention().feed_forward(); }));
  list.add("arcee", usual("arcee").keys().yarn(32).head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention().feed_forward({.gate = false});
  }));
  list.add("pangu-embedded", usual("pangu-embedded").keys().head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.bias = true, .output_bias = true}).feed_forward();
  }));
  list.add("seed_oss", usual("seed_oss").keys().set("rope.freq_base", 1e7f).head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "post_attention_norm"}).attention({.bias = true}).feed_forward();
  }));
}

void add_norms_of_heads(VariantList& list) {
  const auto after = [](Builder& l, uint32_t) {
    l.norms({"post_attention_norm", "post_ffw_norm"}).attention({.qk_norm = QkNorm::per_head}).feed_forward();
  };
  Builder exaone = usual("exaone4").keys().set("rope.freq_base", 1e6f).head(true).tensor("rope_freqs.weight", {16});
  list.add("exaone4", exaone.layers(after));
  Builder large("exaone4", kThin, 64);
  large.keys().set("rope.freq_base", 1e6f).set("attention.sliding_window", kWindow).head().layers(after);
  list.add("exaone4-32b", large, {.salt = "c"});
  Builder next("exaone4", kThin, 4);
  next.keys().set("rope.freq_base", 1e6f).set("nextn_predict_layers", 1u).head();
  list.add("exaone4-nextn", next.layers([&](Builder& l, uint32_t i) {
    after(l, i);
    if (i == 3) l.next_token();
  }));

  const auto layer = [](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head}).feed_forward();
  };
  list.add("maincoder", usual("maincoder").keys().head(true).layers(layer));
  Builder ocr = usual("hunyuan_vl").keys().set("rope.dimension_sections", std::vector<int32_t>{4, 4, 4, 4});
  ocr.set("rope.freq_base", 50.0f).set("rope.scaling.alpha", 2.0f).head(true);
  list.add("hunyuan_vl", ocr.layers(layer));
  Builder hunyuan = usual("hunyuan-dense").keys().set("rope.scaling.alpha", 50.0f);
  list.add("hunyuan-dense", hunyuan.head(true).layers(layer));

  Builder apertus = usual("apertus").keys().set("rope.freq_base", 1.2e7f);
  apertus.recipe.keys.emplace_back("xielu.alpha_n", std::vector<float>{0.6f, 0.7f, 0.8f});
  apertus.recipe.keys.emplace_back("xielu.alpha_p", std::vector<float>{0.9f, 1.0f, 1.1f});
  apertus.recipe.keys.emplace_back("xielu.beta", std::vector<float>{0.5f, 0.6f, 0.7f});
  apertus.recipe.keys.emplace_back("xielu.eps", std::vector<float>(3, -1e-6f));
  apertus.head().tensor("rope_freqs.weight", {16}).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head}).feed_forward({.gate = false});
  });
  list.add("apertus", apertus, {.salt = "b"});

  Builder plamo = usual("plamo3", 4).keys().set("attention.sliding_window", kWindow);
  plamo.set("attention.sliding_window_pattern", 3u).set("rope.freq_base", 1e6f).head(true);
  list.add("plamo3", plamo.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"});
    l.part("post_attention_norm", {kUsual.width}).part("post_ffw_norm", {kUsual.width});
    l.attention({.fused = true, .qk_norm = QkNorm::per_head}).feed_forward({.gate = false, .up_times = 2});
  }));
}

// Qwen and what has its sections of rope.
void add_qwen_likes(VariantList& list) {
  Builder vl2 = usual("qwen2vl").set("attention.layer_norm_rms_epsilon", 1e-6f).set("rope.freq_base", 1e6f);
  vl2.set("rope.dimension_sections", std::vector<int32_t>{4, 6, 6, 0}).head();
  list.add("qwen2vl", vl2.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.bias = true}).feed_forward();
  }));
  Builder ocr = usual("paddleocr").keys().set("rope.freq_base", 5e5f).head();
  list.add("paddleocr", ocr.set("rope.dimension_sections", std::vector<int32_t>{4, 6, 6, 0}).layers(plain));
  Builder vl3 = usual("qwen3vl").keys(64).set("rope.dimension_count", 64u).set("rope.freq_base", 100.0f);
  vl3.set("rope.dimension_sections", std::vector<int32_t>{12, 10, 10, 0}).head(true);
  vl3.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head, .head_size = 64}).feed_forward();
  });
  list.add("qwen3vl", vl3, {.salt = "c"});
  Builder moe = usual("qwen3vlmoe").keys();
  with_experts(moe).set("rope.dimension_sections", std::vector<int32_t>{6, 5, 5, 0}).head();
  list.add("qwen3vlmoe", moe.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head}).experts();
  }));
  Builder one = usual("qwen").drop("attention.head_count_kv").set("feed_forward_length", 2 * kUsual.ff).head();
  list.add("qwen", one.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.bias = true, .fused = true, .kv_heads = kUsual.heads});
    l.feed_forward();
  }));
  Builder two = usual("qwen2moe");
  with_experts(two).set("expert_shared_feed_forward_length", kUsual.ff).head();
  list.add("qwen2moe", two.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.bias = true});
    l.experts({.shared = true, .shared_gate = true, .shared_ff = kUsual.ff});
  }));
}

void add_layer_norms(VariantList& list) {
  Builder cohere = usual("cohere2", 5).layer_norm().set("logit_scale", 0.25f).set("rope.freq_base", 50000.0f);
  cohere.set("attention.sliding_window", kWindow).head(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm"}).attention().feed_forward();
  });
  list.add("cohere2", cohere);

  Builder olmo = usual("olmo").layer_norm().set("attention.clamp_kqv", 2.5f);
  olmo.tensor("token_embd.weight", {kUsual.width, kUsual.vocabulary});
  olmo.tensor("output.weight", {kUsual.width, kUsual.vocabulary});
  list.add("olmo", olmo.layers([](Builder& l, uint32_t) { l.attention().feed_forward(); }));

  list.add("orion", usual("orion").layer_norm().head(false, true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}, true).attention().feed_forward();
  }));
  Builder nemotron = usual("nemotron").layer_norm().set("rope.dimension_count", 16u).head(false, true);
  nemotron.layers(
      [](Builder& l, uint32_t) { l.norms({"attn_norm", "ffn_norm"}, true).attention().feed_forward({.gate = false}); });
  list.add("nemotron", nemotron, {.salt = "b"});
  Builder jais = usual("jais2").layer_norm().set("attention.head_count_kv", kUsual.heads).head(false, true);
  list.add("jais2", jais.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}, true);
    l.attention({.bias = true, .output_bias = true, .kv_heads = kUsual.heads});
    l.feed_forward({.gate = false, .bias = true});
  }));
  Builder phi = usual("phi2").layer_norm().set("attention.head_count_kv", kUsual.heads);
  phi.set("rope.dimension_count", 16u).head(false, true).tensor("output.bias", {kUsual.vocabulary});
  list.add("phi2", phi.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm"}, true);
    l.attention({.bias = true, .output_bias = true, .fused = true, .kv_heads = kUsual.heads});
    l.feed_forward({.gate = false, .bias = true});
  }));

  list.add("codeshell", usual("codeshell").layer_norm().head(false, true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}, true).attention({.bias = true, .output_bias = true, .fused = true});
    l.feed_forward({.gate = false, .bias = true});
  }));

  Builder seven = usual("falcon").layer_norm().set("attention.head_count_kv", 1u).head(false, true);
  list.add("falcon", seven.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm"}, true).attention({.fused = true, .kv_heads = 1}).feed_forward({.gate = false});
  }));
  list.add("falcon-40b", usual("falcon").layer_norm().head(false, true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "attn_norm_2"}, true).attention({.fused = true}).feed_forward({.gate = false});
  }));
  for (const auto& [name, is_parallel] : {std::pair("gptneox", true), {"gptneox-serial", false}}) {
    Builder b = usual("gptneox").layer_norm().drop("attention.head_count_kv").set("rope.dimension_count", 8u);
    list.add(name, b.set("use_parallel_residual", is_parallel).head(false, true).layers(neox));
  }
}

void add_alibi(VariantList& list) {
  constexpr Dims six_heads = {384, 192, 256, 6, 6, 32, 3, 128};
  Builder bloom("bloom", six_heads, 3);
  without_rope(bloom).layer_norm().drop("attention.head_count_kv").head(false, true);
  bloom.tensor("token_embd_norm.weight", {six_heads.width}).tensor("token_embd_norm.bias", {six_heads.width});
  list.add("bloom", bloom.layers(neox), {.salt = "c"});
  Builder mpt("mpt", six_heads, 3);
  without_rope(mpt).layer_norm().drop("attention.head_count_kv").set("attention.clamp_kqv", 2.0f);
  mpt.set("attention.max_alibi_bias", 8.0f).head(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.fused = true}).feed_forward({.gate = false});
  });
  list.add("mpt", mpt, {.embedding = 0.02});

  Builder refact = usual("refact").set("attention.head_count_kv", 1u);
  list.add("refact", without_rope(refact).head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.kv_heads = 1}).feed_forward();
  }));
  Builder jais = usual("jais").layer_norm().set("attention.head_count_kv", kUsual.heads);
  without_rope(jais).set("attention.max_alibi_bias", 8.0f).head(false, true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}, true);
    l.attention({.bias = true, .output_bias = true, .fused = true, .kv_heads = kUsual.heads});
    l.feed_forward({.bias = true}).part("ffn_gate.bias", {kUsual.ff});
  });
  list.add("jais", jais);
}

void add_softmax_experts(VariantList& list) {
  for (const auto& [name, n, n_each, salt] : {std::tuple("llama4", 16u, 1u, ""), {"llama4-maverick", 128u, 2u, "b"}}) {
    const uint32_t expert_ff = n_each == 1 ? kUsual.expert_ff : 32;
    Dims dims = kUsual;
    dims.expert_ff = expert_ff;
    Builder b("llama4", dims, 4);
    with_experts(b.keys(), n, 1).set("interleave_moe_layer_step", n_each).set("rope.freq_base", 5e5f).head();
    if (n_each == 1) b.tensor("rope_freqs.weight", {16});
    b.layers([n = n, n_each = n_each](Builder& l, uint32_t i) {
      l.norms({"attn_norm", "ffn_norm"}).attention();
      i % n_each == n_each - 1 ? l.experts({.n = n, .shared = true}) : l.feed_forward();
    });
    list.add(name, b, {.salt = salt});
  }

  Builder olmoe = usual("olmoe").set("attention.head_count_kv", kUsual.heads);
  with_experts(olmoe).drop("expert_feed_forward_length").set("feed_forward_length", kUsual.expert_ff).head();
  list.add("olmoe", olmoe.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_row, .kv_heads = kUsual.heads}).experts();
  }));
  for (const bool is_shared : {false, true}) {
    Builder b = usual("granitemoe");
    with_experts(b).drop("expert_feed_forward_length").set("feed_forward_length", kUsual.expert_ff);
    if (is_shared) b.set("expert_shared_feed_forward_length", kUsual.ff);
    granite_scales(b).head(true).layers([is_shared](Builder& l, uint32_t) {
      l.norms({"attn_norm", "ffn_norm"}).attention();
      l.experts({.shared = is_shared, .shared_ff = kUsual.ff});
    });
    list.add(is_shared ? "granitemoe-shared" : "granitemoe", b, {.embedding = 0.01});
  }
  Builder phimoe = usual("phimoe").set("rope.scaling.original_context_length", 512u);
  with_experts(phimoe).drop("expert_feed_forward_length").set("feed_forward_length", kUsual.expert_ff);
  phimoe.head(false, true).tensor("output.bias", {kUsual.vocabulary});
  phimoe.tensor("rope_factors_long.weight", {16}).tensor("rope_factors_short.weight", {16});
  list.add("phimoe", phimoe.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}, true).attention({.bias = true, .output_bias = true}).experts();
  }));
  Builder dbrx = usual("dbrx").layer_norm().set("attention.clamp_kqv", 2.0f);
  with_experts(dbrx).drop("expert_feed_forward_length").set("feed_forward_length", kUsual.expert_ff).head();
  dbrx.layers(
      [](Builder& l, uint32_t) { l.norms({"attn_norm", "attn_output_norm"}).attention({.fused = true}).experts(); });
  list.add("dbrx", dbrx, {.salt = "b"});
  Builder grok = usual("grok");
  with_experts(grok).set("embedding_scale", 8.0f).set("logit_scale", 0.5f).set("attention.output_scale", 0.1f);
  grok.set("attn_logit_softcapping", 30.0f).set("router_logit_softcapping", 30.0f);
  grok.set("final_logit_softcapping", 2.0f).head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm", "attn_output_norm", "post_ffw_norm"}).attention().feed_forward().experts();
  });
  list.add("grok", grok, {.embedding = 0.1});
}

// Windows in three of four layers.
void add_windowed_experts(VariantList& list) {
  Builder mellum = usual("mellum", 5).keys().yarn(32).set("rope.freq_base", 5e5f);
  mellum.set("attention.sliding_window", kWindow).set("attention.sliding_window_pattern", 4u);
  with_experts(mellum).head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head}).experts();
  });
  list.add("mellum", mellum, {.salt = "e"});
}

// The first layer is dense in most of these.
void add_shared_experts(VariantList& list) {
  Builder deepseek = usual("deepseek");
  with_experts(deepseek).set("expert_shared_count", 2u).set("leading_dense_block_count", 1u);
  deepseek.set("expert_weights_scale", 1.0f).head().layers([](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "ffn_norm"}).attention();
    i < 1 ? l.feed_forward() : l.experts({.shared = true, .shared_ff = 2 * kUsual.expert_ff});
  });
  list.add("deepseek", deepseek, {.salt = "c"});
  Builder ernie = usual("ernie4_5-moe").keys();
  with_experts(ernie).set("expert_shared_feed_forward_length", kUsual.ff).set("interleave_moe_layer_step", 1u);
  ernie.set("leading_dense_block_count", 1u).head().layers([](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "ffn_norm"}).attention();
    i < 1 ? l.feed_forward() : l.experts({.choice_bias = true, .shared = true, .shared_ff = kUsual.ff});
  });
  list.add("ernie4_5-moe", ernie);
  Builder hunyuan = usual("hunyuan-moe").keys();
  with_experts(hunyuan).set("feed_forward_length", kUsual.expert_ff);
  hunyuan.set("expert_shared_feed_forward_length", kUsual.ff).head(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head});
    l.experts({.shared = true, .shared_ff = kUsual.ff});
  });
  list.add("hunyuan-moe", hunyuan);
  Builder ling = usual("bailingmoe");
  with_experts(ling).set("expert_shared_count", 2u).set("expert_weights_norm", true).set("expert_weights_scale", 1.0f);
  list.add("bailingmoe", ling.head().layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention();
    l.experts({.shared = true, .shared_ff = 2 * kUsual.expert_ff});
  }));
}

void add_sigmoid_experts(VariantList& list) {
  Builder ling = usual("bailingmoe2", kUsual.layers + 1).keys().set("rope.dimension_count", 16u);
  with_sigmoid(with_experts(ling, 16, 3)).set("expert_group_count", 4u).set("expert_group_used_count", 2u);
  ling.set("expert_shared_feed_forward_length", kUsual.expert_ff).set("expert_shared_count", 1u);
  ling.set("leading_dense_block_count", 1u).set("nextn_predict_layers", 1u).head();
  list.add("bailingmoe2", ling.layers([](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.fused = true, .qk_norm = QkNorm::per_head});
    i < 1 ? l.feed_forward() : l.experts({.n = 16, .choice_bias = true, .shared = true});
    if (i == kUsual.layers) l.next_token().norms({"layer_output_norm"});
  }));
  Builder dots = usual("dots1").keys().set("attention.head_count_kv", kUsual.heads);
  with_sigmoid(with_experts(dots)).set("expert_shared_count", 2u).set("leading_dense_block_count", 1u).head();
  list.add("dots1", dots.layers([](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head, .kv_heads = kUsual.heads});
    i < 1 ? l.feed_forward() : l.experts({.choice_bias = true, .shared = true, .shared_ff = 2 * kUsual.expert_ff});
  }));
  Builder minimax = usual("minimax-m2").keys().set("rope.dimension_count", 16u);
  with_experts(minimax).set("feed_forward_length", kUsual.expert_ff).set("expert_gating_func", 2u).head();
  minimax.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_row}).experts({.choice_bias = true});
  });
  list.add("minimax-m2", minimax, {.salt = "b"});

  Builder small = usual("smallthinker", 5).keys().set("attention.sliding_window", 4096u);
  with_experts(small).set("expert_gating_func", 2u).head(true).layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention().experts();
  });
  list.add("smallthinker", small, {.salt = "c"});

  Builder exaone = usual("exaone-moe", 6).keys().set("attention.sliding_window", kWindow);
  with_sigmoid(with_experts(exaone)).set("expert_shared_feed_forward_length", kUsual.expert_ff);
  exaone.set("rope.freq_base", 1e6f).set("expert_shared_count", 1u).set("leading_dense_block_count", 1u);
  exaone.set("nextn_predict_layers", 1u).head().layers([](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head});
    i == 0 || i == 5 ? l.feed_forward() : l.experts({.choice_bias = true, .shared = true});
    if (i == 5) l.next_token();
  });
  list.add("exaone-moe", exaone);
  Builder trinity = usual("afmoe", 5).keys().set("attention.sliding_window", kWindow);
  with_sigmoid(with_experts(trinity)).set("expert_shared_count", 1u).set("leading_dense_block_count", 1u).head();
  trinity.layers([](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"});
    l.attention({.qk_norm = QkNorm::per_head});
    l.part("attn_gate.weight", {kUsual.width, uint64_t{kUsual.heads} * kUsual.head_size});
    i < 1 ? l.feed_forward() : l.experts({.choice_bias = true, .shared = true});
  });
  list.add("afmoe", trinity, {.embedding = 0.1, .salt = "b"});
}

}  // namespace

void add_families(VariantList& list) {
  add_like_llama(list);
  add_norms_of_heads(list);
  add_qwen_likes(list);
  add_layer_norms(list);
  add_alibi(list);
  add_softmax_experts(list);
  add_windowed_experts(list);
  add_shared_experts(list);
  add_sigmoid_experts(list);
}

}  // namespace rocmforge::golden_models
