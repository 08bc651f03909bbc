// The first set of reference models: one for each family, and more sizes of eight of them. Weights are drawn by gauss.

#include <optional>

#include "builder.h"

namespace rocmforge::golden_models {
namespace {

Builder plain(const std::string& architecture, const Dims& d, bool tied = false) {
  Builder b(architecture, d, d.layers);
  b.head(tied).layers([](Builder& l, uint32_t) { l.norms({"attn_norm", "ffn_norm"}).attention().feed_forward(); });
  return b;
}

// phi3 and its long form: one weight for queries, keys and values, one for gate and up.
void fused_layers(Builder& b) {
  b.layers([](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.fused = true}).feed_forward({.gate = false, .up_times = 2});
  });
}

void norms_all_around(Builder& b, const AttentionParts& attention) {
  b.layers([&](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}).attention(attention).feed_forward();
  });
}

Builder llamas(const std::string& name, const Dims& d) {
  if (name == "llama-tied-ropefreqs") {
    Builder b("llama", d, d.layers);
    b.set("rope.freq_base", 500000.0f).head(true).tensor("rope_freqs.weight", {d.head_size / 2});
    b.layers([](Builder& l, uint32_t) { l.norms({"attn_norm", "ffn_norm"}).attention().feed_forward(); });
    return b;
  }
  if (name == "mixtral") {
    Builder b("llama", d, d.layers);
    b.set("expert_count", 4u).set("expert_used_count", 2u).head().layers([&](Builder& l, uint32_t) {
      l.norms({"attn_norm", "ffn_norm"}).attention().experts({.n = 4, .ff = d.ff});
    });
    return b;
  }
  Builder b = plain("llama", d);
  if (name == "llama-yarn") b.yarn(128);
  if (name == "llama-linear") b.set("rope.scaling.type", "linear").set("rope.scaling.factor", 4.0f);
  return b;
}

Builder qwens(const std::string& name, const Dims& d) {
  Builder b(name, d, d.layers);
  b.set("rope.freq_base", 1e6f);
  if (name == "qwen2") {
    return b.head().layers(
        [](Builder& l, uint32_t) { l.norms({"attn_norm", "ffn_norm"}).attention({.bias = true}).feed_forward(); });
  }
  b.keys();
  if (name == "qwen3moe") {
    b.set("expert_count", 8u).set("expert_used_count", 2u).set("expert_feed_forward_length", 256u);
  }
  return b.head(name == "qwen3").layers([&](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}).attention({.qk_norm = QkNorm::per_head});
    name == "qwen3" ? l.feed_forward() : l.experts();
  });
}

Builder glms(const std::string& name, const Dims& d) {
  Builder b(name, d, d.layers);
  b.set("rope.dimension_count", d.head_size / 2);
  if (name == "chatglm") {
    return b.head().layers([&](Builder& l, uint32_t) {
      l.norms({"attn_norm", "ffn_norm"}).attention({.fused = true});
      l.part("attn_qkv.bias", {(d.heads + 2 * d.kv_heads) * d.head_size});
      l.feed_forward({.gate = false, .up_times = 2});
    });
  }
  if (name == "glm4") {
    return b.head().layers([](Builder& l, uint32_t) {
      l.norms({"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}).attention({.bias = true});
      l.feed_forward({.gate = false, .up_times = 2});
    });
  }
  b.keys().set("expert_count", 8u).set("expert_used_count", 2u).set("expert_feed_forward_length", 256u);
  b.set("expert_shared_count", 1u).set("leading_dense_block_count", 1u).set("expert_weights_scale", 1.5f);
  b.set("expert_weights_norm", true).set("expert_gating_func", 2u);
  return b.head().layers([](Builder& l, uint32_t i) {
    l.norms({"attn_norm", "post_attention_norm"}).attention({.bias = true, .qk_norm = QkNorm::per_head});
    i == 0 ? l.feed_forward() : l.experts({.choice_bias = true, .shared = true});
  });
}

Builder gemmas(const std::string& name, const Dims& d) {
  Builder b(name, d, d.layers);
  b.keys();
  if (name == "gemma2") {
    b.set("attn_logit_softcapping", 50.0f).set("final_logit_softcapping", 30.0f);
    b.set("attention.sliding_window", 16u).head(true);
    norms_all_around(b, {});
  } else {
    b.set("attention.sliding_window", 16u).set("rope.freq_base", 1e6f);
    b.set("attention.sliding_window_pattern", 2u).head(true);
    norms_all_around(b, {.qk_norm = QkNorm::per_head});
  }
  return b;
}

Builder phis(const std::string& name, const Dims& d) {
  Builder b("phi3", d, d.layers);
  if (name == "phi3") {
    b.set("rope.scaling.original_context_length", 512u).head();
  } else {
    b.set("rope.scaling.original_context_length", 64u).set("rope.scaling.attn_factor", 1.19f).head();
    b.tensor("rope_factors_long.weight", {d.head_size / 2}).tensor("rope_factors_short.weight", {d.head_size / 2});
  }
  fused_layers(b);
  return b;
}

Builder gpt_oss(const Dims& d) {
  Builder b("gpt-oss", d, d.layers);
  b.keys().set("attention.sliding_window", 16u).set("expert_count", 4u).set("expert_used_count", 2u);
  b.set("expert_feed_forward_length", 256u).yarn(128).head();
  return b.layers([&](Builder& l, uint32_t) {
    l.norms({"attn_norm", "post_attention_norm"}).attention({.bias = true, .output_bias = true});
    l.part("attn_sinks.weight", {d.heads}).experts({.n = 4, .bias = true});
  });
}

Builder granite(const Dims& d) {
  Builder b = plain("granite", d, true);
  b.set("attention.scale", 0.0125f).set("embedding_scale", 6.0f).set("residual_scale", 0.3f);
  return b.set("logit_scale", 4.0f);
}

Builder olmo2(const Dims& d) {
  Builder b("olmo2", d, d.layers);
  return b.head().layers([&](Builder& l, uint32_t) {
    l.norms({"post_attention_norm", "post_ffw_norm"}).attention();
    l.part("attn_q_norm.weight", {d.heads * d.head_size}).part("attn_k_norm.weight", {d.kv_heads * d.head_size});
    l.feed_forward();
  });
}

Builder with_layer_norms(const std::string& name, const Dims& d) {
  Builder b(name, d, d.layers);
  b.layer_norm();
  if (name == "starcoder2") {
    return b.head(true, true).layers([](Builder& l, uint32_t) {
      l.norms({"attn_norm", "ffn_norm"}, true).attention({.bias = true, .output_bias = true});
      l.feed_forward({.gate = false, .bias = true});
    });
  }
  if (name == "command-r") {
    return b.set("logit_scale", 0.0625f).head(true).layers([](Builder& l, uint32_t) {
      l.norms({"attn_norm"}).attention().feed_forward();
    });
  }
  b.drop("attention.head_count_kv").drop("rope.freq_base").drop("rope.dimension_count").head(false, true);
  return b.tensor("position_embd.weight", {d.width, 512}).layers([&](Builder& l, uint32_t) {
    l.norms({"attn_norm", "ffn_norm"}, true).attention({.fused = true, .kv_heads = d.heads});
    l.part("attn_qkv.bias", {3 * d.heads * d.head_size}).part("attn_output.bias", {d.width});
    l.feed_forward({.gate = false, .bias = true});
  });
}

Builder make(const std::string& name, const Dims& d) {
  if (name.starts_with("llama") || name == "mixtral") return llamas(name, d);
  if (name.starts_with("qwen")) return qwens(name, d);
  if (name.starts_with("glm") || name == "chatglm") return glms(name, d);
  if (name.starts_with("gemma")) return gemmas(name, d);
  if (name.starts_with("phi3")) return phis(name, d);
  if (name == "gpt-oss") return gpt_oss(d);
  if (name == "granite") return granite(d);
  if (name == "olmo2") return olmo2(d);
  return with_layer_norms(name, d);
}

Recipe recipe_of(const std::string& name, const std::string& file, const Dims& d) {
  Recipe out = make(name, d).recipe;
  out.name = file;
  out.seed = name;
  const bool is_tied = std::ranges::none_of(out.tensors, [](const auto& t) { return t.name == "output.weight"; });
  // Tied: small, or each token would predict itself.
  if (is_tied) out.embedding = name.starts_with("gemma") || name.starts_with("granite") ? 0.003 : 0.05;
  return out;
}

}  // namespace

std::vector<Recipe> first_recipes() {
  std::vector<Recipe> out;
  for (const char* name : {"llama",      "llama-tied-ropefreqs",
                           "llama-yarn", "llama-linear",
                           "mixtral",    "qwen2",
                           "qwen3",      "qwen3moe",
                           "glm4",       "chatglm",
                           "gemma2",     "gemma3",
                           "phi3",       "phi3-longrope",
                           "glm4moe",    "gpt-oss",
                           "granite",    "olmo2",
                           "starcoder2", "command-r",
                           "gpt2"}) {
    out.push_back(recipe_of(name, name, {}));
  }
  struct Size {
    const char* suffix;
    Dims dims;
  };
  const Size sizes[] = {{"@1003-384-800-4-2-96-2", {1003, 384, 800, 4, 2, 96, 2}},
                        {"@1003-512-544-2-1-256-2", {1003, 512, 544, 2, 1, 256, 2}},
                        {"@1003-512-800-4-1-128-2", {1003, 512, 800, 4, 1, 128, 2}}};
  for (const char* name : {"gemma3", "glm4moe", "gpt-oss", "llama", "phi3", "qwen3", "qwen3moe", "starcoder2"}) {
    for (const Size& size : sizes) out.push_back(recipe_of(name, name + std::string(size.suffix), size.dims));
  }
  return out;
}

}  // namespace rocmforge::golden_models
