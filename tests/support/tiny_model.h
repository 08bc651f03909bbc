#pragma once
// A small random model as a file: the shapes of a real family, weights that keep activations finite.
// Header only: for tests of rooms above gguf.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gguf/writer.h"

namespace rocmforge::testing {

struct TinyModel {
  std::string architecture = "llama";
  uint32_t n_vocab = 96, width = 64, ff_width = 96, n_heads = 4, n_kv_heads = 2, head_size = 16, n_layers = 3;
  uint32_t n_context = 256;
  uint32_t n_experts = 0, n_experts_used = 0;
  bool tied = false;
  bool qkv_bias = false;
  uint64_t seed = 1;

  gguf::HeaderBuilder header() const {
    gguf::HeaderBuilder h;
    const auto key = [&](const char* rest) { return architecture + "." + rest; };
    h.set_string("general.architecture", architecture);
    h.set_string("general.name", "tiny");
    h.set_u32(key("block_count"), n_layers);
    h.set_u32(key("context_length"), n_context);
    h.set_u32(key("embedding_length"), width);
    h.set_u32(key("feed_forward_length"), ff_width);
    h.set_u32(key("attention.head_count"), n_heads);
    h.set_u32(key("attention.head_count_kv"), n_kv_heads);
    h.set_u32(key("attention.key_length"), head_size);
    h.set_u32(key("attention.value_length"), head_size);
    h.set_f32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
    h.set_u32(key("rope.dimension_count"), head_size);
    h.set_f32(key("rope.freq_base"), 10000.0f);
    h.set_u32(key("vocab_size"), n_vocab);
    if (n_experts) {
      h.set_u32(key("expert_count"), n_experts);
      h.set_u32(key("expert_used_count"), n_experts_used);
    }
    add_tensors(h);
    return h;
  }

  // Adds this model's tensors to a header. `skip` leaves one out.
  void add_tensors(gguf::HeaderBuilder& h, std::string_view skip = {}) const {
    const auto add = [&](const std::string& name, std::initializer_list<uint64_t> dims) {
      if (name != skip) h.add_tensor(name, DType::f32, dims);
    };
    const uint64_t q = uint64_t{n_heads} * head_size, kv = uint64_t{n_kv_heads} * head_size;
    add("token_embd.weight", {width, n_vocab});
    add("output_norm.weight", {width});
    if (!tied) add("output.weight", {width, n_vocab});
    for (uint32_t i = 0; i < n_layers; i++) {
      const std::string b = "blk." + std::to_string(i) + ".";
      add(b + "attn_norm.weight", {width});
      add(b + "attn_q.weight", {width, q});
      add(b + "attn_k.weight", {width, kv});
      add(b + "attn_v.weight", {width, kv});
      if (qkv_bias) {
        add(b + "attn_q.bias", {q});
        add(b + "attn_k.bias", {kv});
        add(b + "attn_v.bias", {kv});
      }
      add(b + "attn_output.weight", {q, width});
      add(b + "ffn_norm.weight", {width});
      if (n_experts) {
        add(b + "ffn_gate_inp.weight", {width, n_experts});
        add(b + "ffn_gate_exps.weight", {width, ff_width, n_experts});
        add(b + "ffn_up_exps.weight", {width, ff_width, n_experts});
        add(b + "ffn_down_exps.weight", {ff_width, width, n_experts});
      } else {
        add(b + "ffn_gate.weight", {width, ff_width});
        add(b + "ffn_up.weight", {width, ff_width});
        add(b + "ffn_down.weight", {ff_width, width});
      }
    }
  }

  // Writes the header and random F32 weights for whatever tensors it names.
  void write(const std::string& path, const gguf::HeaderBuilder& h) const {
    auto writer = gguf::GgufWriter::create(path, h, {.durable = false});
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    std::mt19937_64 rng(seed);
    for (const gguf::TensorInfo& tensor : writer->tensors()) {
      std::normal_distribution<float> noise(0, 1.5f / std::sqrt(static_cast<float>(tensor.dims[0])));
      std::vector<float> values(tensor.n_elements);
      for (float& v : values) v = tensor.n_dims == 1 ? 1 + noise(rng) : noise(rng);
      ASSERT_TRUE(writer->write(std::as_bytes(std::span(values))).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }
  void write(const std::string& path) const { write(path, header()); }
};

}  // namespace rocmforge::testing
