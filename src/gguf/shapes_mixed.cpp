// Shapes whose layers differ: recurrent layers, windows, layers of experts alone.

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "gguf/shapes.h"

namespace rocmforge::gguf {
namespace {

using Kind = ShapeTensor::Kind;

constexpr uint32_t kTaps = 4;

char kind_of(const Shape& s, uint32_t layer) {
  return s.mixed->layers[layer % s.mixed->layers.size()];
}

struct Sizes {
  uint64_t inner, keys;  // of a state layer: all heads' elements, all groups' states
  explicit Sizes(const MixedShape& m)
      : inner(uint64_t{m.n_state_heads} * m.state_head_size), keys(uint64_t{m.n_state_groups} * m.state_size) {}
};

class Tensors {
 public:
  explicit Tensors(const Shape& shape) : s_(shape), m_(*shape.mixed), sizes_(m_) {}

  std::vector<ShapeTensor> all() {
    const bool is_gemma = s_.architecture == "gemma4", has_blocks = s_.architecture == "nemotron_h_moe";
    matrix("token_embd", {s_.width, s_.n_vocabulary});
    if (!s_.tied) matrix("output", {s_.width, s_.n_vocabulary});
    norm("output_norm", s_.width);
    if (is_gemma) add("rope_freqs.weight", Kind::norm, {s_.head_size / 2});
    for (uint32_t i = 0; i < s_.n_layers; i++) {
      prefix_ = fmt::format("blk.{}.", i);
      const char kind = kind_of(s_, i);
      is_gemma ? gemma_layer(kind) : has_blocks ? block(kind) : qwen_layer(kind);
    }
    return std::move(out_);
  }

 private:
  void add(std::string_view name, Kind kind, std::vector<uint64_t> dims) {
    out_.push_back({prefix_ + std::string(name), kind, std::move(dims)});
  }
  void matrix(std::string_view name, std::vector<uint64_t> dims) {
    add(fmt::format("{}.weight", name), Kind::matrix, std::move(dims));
  }
  void norm(std::string_view name, uint64_t n) { add(fmt::format("{}.weight", name), Kind::norm, {n}); }

  void attention(uint64_t n_kv_heads, uint64_t head_size, uint64_t queries_per_head, bool has_values) {
    matrix("attn_q", {s_.width, s_.n_heads * head_size * queries_per_head});
    matrix("attn_k", {s_.width, n_kv_heads * head_size});
    if (has_values) matrix("attn_v", {s_.width, n_kv_heads * head_size});
    matrix("attn_output", {s_.n_heads * head_size, s_.width});
    if (!s_.qk_norm) return;
    norm("attn_q_norm", head_size);
    norm("attn_k_norm", head_size);
  }
  void feed_forward(std::string_view suffix, uint64_t n, bool is_gated = true) {
    if (is_gated) matrix(fmt::format("ffn_gate{}", suffix), {s_.width, n});
    matrix(fmt::format("ffn_up{}", suffix), {s_.width, n});
    matrix(fmt::format("ffn_down{}", suffix), {n, s_.width});
  }
  void router() { add("ffn_gate_inp.weight", Kind::router, {s_.width, s_.n_experts}); }

  void qwen_layer(char kind) {
    norm("attn_norm", s_.width);
    norm("post_attention_norm", s_.width);
    if (kind == 's') {
      matrix("attn_qkv", {s_.width, 2 * sizes_.keys + sizes_.inner});
      matrix("attn_gate", {s_.width, sizes_.inner});
      matrix("ssm_beta", {s_.width, m_.n_state_heads});
      matrix("ssm_alpha", {s_.width, m_.n_state_heads});
      add("ssm_conv1d.weight", Kind::bias, {kTaps, 2 * sizes_.keys + sizes_.inner});
      add("ssm_dt.bias", Kind::bias, {m_.n_state_heads});
      add("ssm_a", Kind::decay, {m_.n_state_heads});
      norm("ssm_norm", m_.state_head_size);
      matrix("ssm_out", {sizes_.inner, s_.width});
    } else {
      attention(s_.n_kv_heads, s_.head_size, 2, true);  // queries and their gates
    }
    if (s_.n_experts == 0) return feed_forward("", s_.ff_width);
    router();
    matrix("ffn_gate_exps", {s_.width, s_.ff_width, s_.n_experts});
    matrix("ffn_up_exps", {s_.width, s_.ff_width, s_.n_experts});
    matrix("ffn_down_exps", {s_.ff_width, s_.width, s_.n_experts});
    feed_forward("_shexp", m_.dense_ff_width);
    add("ffn_gate_inp_shexp.weight", Kind::router, {s_.width});
  }

  // A layer of Nemotron H: a state, attention or experts.
  void block(char kind) {
    norm("attn_norm", s_.width);
    if (kind == 'a') return attention(s_.n_kv_heads, s_.head_size, 1, true);
    if (kind == 's') {
      const uint64_t convolved = sizes_.inner + 2 * sizes_.keys;
      matrix("ssm_in", {s_.width, sizes_.inner + convolved + m_.n_state_heads});
      add("ssm_conv1d.weight", Kind::bias, {kTaps, convolved});
      add("ssm_conv1d.bias", Kind::bias, {convolved});
      add("ssm_dt.bias", Kind::bias, {m_.n_state_heads});
      add("ssm_a", Kind::decay, {1, m_.n_state_heads});
      add("ssm_d", Kind::norm, {1, m_.n_state_heads});
      add("ssm_norm.weight", Kind::norm, {sizes_.inner / m_.n_state_groups, m_.n_state_groups});
      return matrix("ssm_out", {sizes_.inner, s_.width});
    }
    router();
    add("exp_probs_b.bias", Kind::bias, {s_.n_experts});
    matrix("ffn_up_exps", {s_.width, s_.ff_width, s_.n_experts});
    matrix("ffn_down_exps", {s_.ff_width, s_.width, s_.n_experts});
    feed_forward("_shexp", m_.dense_ff_width, false);
  }

  // Experts beside a dense feed-forward; layers without a window have values out of keys.
  void gemma_layer(char kind) {
    for (const char* name : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "pre_ffw_norm_2",
                             "post_ffw_norm_1", "post_ffw_norm_2"}) {
      norm(name, s_.width);
    }
    add("layer_output_scale.weight", Kind::norm, {1});
    if (kind == 'w') {
      attention(m_.n_window_kv_heads, m_.window_head_size, 1, true);
    } else {
      attention(s_.n_kv_heads, s_.head_size, 1, false);
    }
    feed_forward("", m_.dense_ff_width);
    router();
    add("ffn_gate_inp.scale", Kind::norm, {s_.width});
    matrix("ffn_gate_up_exps", {s_.width, uint64_t{2} * s_.ff_width, s_.n_experts});
    matrix("ffn_down_exps", {s_.ff_width, s_.width, s_.n_experts});
    add("ffn_down_exps.scale", Kind::norm, {s_.n_experts});
  }

  const Shape& s_;
  const MixedShape& m_;
  const Sizes sizes_;
  std::string prefix_;
  std::vector<ShapeTensor> out_;
};

}  // namespace

std::vector<ShapeTensor> mixed_tensors(const Shape& shape) {
  return Tensors(shape).all();
}

void set_mixed_keys(HeaderBuilder& header, const Shape& s) {
  CHECK(s.mixed != nullptr);
  const MixedShape& m = *s.mixed;
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", s.architecture, name); };
  const auto by_layer = [&](std::string_view name, auto&& number) {
    std::vector<int32_t> numbers;
    for (uint32_t i = 0; i < s.n_layers; i++) numbers.push_back(static_cast<int32_t>(number(kind_of(s, i))));
    header.set_array<int32_t>(key(name), numbers);
  };
  if (m.n_state_heads > 0) {
    header.set_u32(key("ssm.conv_kernel"), kTaps);
    header.set_u32(key("ssm.inner_size"), m.n_state_heads * m.state_head_size);
    header.set_u32(key("ssm.state_size"), m.state_size);
    header.set_u32(key("ssm.time_step_rank"), m.n_state_heads);
    header.set_u32(key("ssm.group_count"), m.n_state_groups);
  }
  if (s.architecture == "nemotron_h_moe") {
    header.set_f32(key("attention.layer_norm_epsilon"), 1e-5f);
    by_layer("attention.head_count_kv", [&](char kind) { return kind == 'a' ? s.n_kv_heads : 0; });
    by_layer("feed_forward_length", [&](char kind) { return kind == 'e' ? s.ff_width : 0; });
    header.set_u32(key("rope.dimension_count"), s.head_size);
    header.set_u32(key("expert_shared_count"), 1);
    header.set_u32(key("expert_shared_feed_forward_length"), m.dense_ff_width);
    header.set_bool(key("expert_weights_norm"), true);
    header.set_f32(key("expert_weights_scale"), 2.5f);
  } else if (s.architecture == "gemma4") {
    by_layer("attention.head_count_kv", [&](char kind) { return kind == 'w' ? m.n_window_kv_heads : s.n_kv_heads; });
    header.set_u32(key("feed_forward_length"), m.dense_ff_width);
    header.set_u32(key("rope.dimension_count"), s.head_size);
    header.set_u32(key("rope.dimension_count_swa"), m.window_head_size);
    header.set_f32(key("rope.freq_base_swa"), 1e4f);
    header.set_u32(key("attention.key_length_swa"), m.window_head_size);
    header.set_u32(key("attention.value_length_swa"), m.window_head_size);
    header.set_u32(key("attention.sliding_window"), m.window);
    header.set_u32(key("attention.shared_kv_layers"), 0);
    header.set_u32(key("embedding_length_per_layer_input"), 0);
    header.set_f32(key("final_logit_softcapping"), 30.0f);
    const auto windowed = std::make_unique<bool[]>(s.n_layers);
    for (uint32_t i = 0; i < s.n_layers; i++) windowed[i] = kind_of(s, i) == 'w';
    header.set_array<bool>(key("attention.sliding_window_pattern"), std::span(windowed.get(), s.n_layers));
  } else {
    header.set_u32(key("attention.head_count_kv"), s.n_kv_heads);
    header.set_u32(key("feed_forward_length"), s.ff_width);
    header.set_u32(key("rope.dimension_count"), s.head_size / 4);
    header.set_array<int32_t>(key("rope.dimension_sections"), std::array<int32_t, 4>{11, 11, 10, 0});
    header.set_u32(key("full_attention_interval"), static_cast<uint32_t>(m.layers.size()));
    if (m.dense_ff_width > 0) header.set_u32(key("expert_shared_feed_forward_length"), m.dense_ff_width);
  }
}

}  // namespace rocmforge::gguf
