#include "gguf/shapes.h"

#include <algorithm>
#include <string>

namespace rocmforge::gguf {
namespace {

// clang-format off
// From the models' public configurations.
constexpr MixedShape kQwen35B{.layers = "sssa", .dense_ff_width = 512, .n_state_heads = 32, .n_state_groups = 16,
                              .state_head_size = 128, .state_size = 128};
constexpr MixedShape kQwen27B{.layers = "sssa", .n_state_heads = 48, .n_state_groups = 16, .state_head_size = 128,
                              .state_size = 128};
constexpr MixedShape kNemotron{.layers = "sesesaesesesaesesesaesesesaesesesaesesesesaesesesese",
                               .dense_ff_width = 3712, .n_state_heads = 64, .n_state_groups = 8,
                               .state_head_size = 64, .state_size = 128};
constexpr MixedShape kGemma{.layers = "wwwwwa", .dense_ff_width = 2112, .window = 1024, .n_window_kv_heads = 8,
                            .window_head_size = 256};

constexpr Shape kShapes[] = {
    // name           arch        width layers heads kv size  ff    exp used  vocab  context  rope   tied  bias   qk_norm
    {"tiny",          "llama",      256,  4,    8,   4,  32,   768,   0, 0,   2048,  2048, 1e4f, true,  false, false},
    {"qwen2-0.5b",    "qwen2",      896, 24,   14,   2,  64,  4864,   0, 0, 151936, 32768, 1e6f, true,  true,  false},
    {"llama-1b",      "llama",     2048, 16,   32,   8,  64,  8192,   0, 0, 128256,  8192, 5e5f, true,  false, false},
    {"llama-3b",      "llama",     3072, 28,   24,   8, 128,  8192,   0, 0, 128256,  8192, 5e5f, true,  false, false},
    {"llama-8b",      "llama",     4096, 32,   32,   8, 128, 14336,   0, 0, 128256,  8192, 5e5f, false, false, false},
    {"qwen2-7b",      "qwen2",     3584, 28,   28,   4, 128, 18944,   0, 0, 152064, 32768, 1e6f, false, true,  false},
    {"qwen3-30b-a3b", "qwen3moe",  2048, 48,   32,   4, 128,   768, 128, 8, 151936, 40960, 1e6f, false, false, true},
    {"bert-base",     "bert",       768, 12,   12,  12,  64,  3072,   0, 0,  30522,   512, 1e4f, true,  true,  false, nullptr, 1},
    {"qwen3-embedding-0.6b", "qwen3", 1024, 28, 16,  8, 128,  3072,   0, 0, 151669, 32768, 1e6f, true,  false, true, nullptr, 3},
    {"llama-70b",     "llama",     8192, 80,   64,   8, 128, 28672,   0, 0, 128256,  8192, 5e5f, false, false, false},
    {"qwen3.6-35b-a3b", "qwen35moe", 2048, 40, 16, 2, 256,  512, 256, 8, 248320, 262144, 1e7f, false, false, true, &kQwen35B},
    {"qwen3.6-27b",   "qwen35",     5120, 64,   24,   4, 256, 17408,   0, 0, 248320, 262144, 1e7f, false, false, true, &kQwen27B},
    {"nemotron-3-nano", "nemotron_h_moe", 2688, 52, 32, 2, 128, 1856, 128, 6, 131072, 262144, 1e4f, false, false, false, &kNemotron},
    {"gemma4-26b-a4b", "gemma4",    2816, 30,   16,   2, 512,   704, 128, 8, 262144, 262144, 1e6f, true,  false, true, &kGemma},
};
// clang-format on

}  // namespace

std::span<const Shape> all_shapes() {
  return kShapes;
}

const Shape* find_shape(std::string_view name) {
  const auto found = std::ranges::find(kShapes, name, &Shape::name);
  return found == std::end(kShapes) ? nullptr : &*found;
}

namespace {

using Kind = ShapeTensor::Kind;

// Post-norm layers with biases everywhere, learned positions, two types of tokens.
std::vector<ShapeTensor> bert_tensors(const Shape& s) {
  std::vector<ShapeTensor> out;
  std::string prefix;
  const auto norm = [&](const std::string& name) {
    out.push_back({prefix + name + ".weight", Kind::norm, {s.width}});
    out.push_back({prefix + name + ".bias", Kind::bias, {s.width}});
  };
  const auto linear = [&](const std::string& name, uint64_t from, uint64_t to) {
    out.push_back({prefix + name + ".weight", Kind::matrix, {from, to}});
    out.push_back({prefix + name + ".bias", Kind::bias, {to}});
  };
  out.push_back({"token_embd.weight", Kind::matrix, {s.width, s.n_vocabulary}});
  out.push_back({"token_types.weight", Kind::matrix, {s.width, 2}});
  out.push_back({"position_embd.weight", Kind::matrix, {s.width, s.context_length}});
  norm("token_embd_norm");
  for (uint32_t layer = 0; layer < s.n_layers; layer++) {
    prefix = "blk." + std::to_string(layer) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) linear(name, s.width, s.width);
    norm("attn_output_norm");
    linear("ffn_up", s.width, s.ff_width);
    linear("ffn_down", s.ff_width, s.width);
    norm("layer_output_norm");
  }
  return out;
}

}  // namespace

std::vector<ShapeTensor> shape_tensors(const Shape& s) {
  if (s.mixed != nullptr) return mixed_tensors(s);
  if (s.is_bert()) return bert_tensors(s);
  const uint64_t q_width = uint64_t{s.n_heads} * s.head_size;
  const uint64_t kv_width = uint64_t{s.n_kv_heads} * s.head_size;
  std::vector<ShapeTensor> out;
  std::string prefix;
  const auto add = [&](const char* name, Kind kind, std::vector<uint64_t> dims) {
    out.push_back({prefix + name, kind, std::move(dims)});
  };

  add("token_embd.weight", Kind::matrix, {s.width, s.n_vocabulary});
  if (!s.tied) add("output.weight", Kind::matrix, {s.width, s.n_vocabulary});
  add("output_norm.weight", Kind::norm, {s.width});
  for (uint32_t layer = 0; layer < s.n_layers; layer++) {
    prefix = "blk." + std::to_string(layer) + ".";
    add("attn_norm.weight", Kind::norm, {s.width});
    add("attn_q.weight", Kind::matrix, {s.width, q_width});
    add("attn_k.weight", Kind::matrix, {s.width, kv_width});
    add("attn_v.weight", Kind::matrix, {s.width, kv_width});
    add("attn_output.weight", Kind::matrix, {q_width, s.width});
    if (s.qkv_bias) {
      add("attn_q.bias", Kind::bias, {q_width});
      add("attn_k.bias", Kind::bias, {kv_width});
      add("attn_v.bias", Kind::bias, {kv_width});
    }
    if (s.qk_norm) {
      add("attn_q_norm.weight", Kind::norm, {s.head_size});
      add("attn_k_norm.weight", Kind::norm, {s.head_size});
    }
    add("ffn_norm.weight", Kind::norm, {s.width});
    if (s.n_experts == 0) {
      add("ffn_gate.weight", Kind::matrix, {s.width, s.ff_width});
      add("ffn_up.weight", Kind::matrix, {s.width, s.ff_width});
      add("ffn_down.weight", Kind::matrix, {s.ff_width, s.width});
    } else {
      add("ffn_gate_inp.weight", Kind::router, {s.width, s.n_experts});
      add("ffn_gate_exps.weight", Kind::matrix, {s.width, s.ff_width, s.n_experts});
      add("ffn_up_exps.weight", Kind::matrix, {s.width, s.ff_width, s.n_experts});
      add("ffn_down_exps.weight", Kind::matrix, {s.ff_width, s.width, s.n_experts});
    }
  }
  return out;
}

}  // namespace rocmforge::gguf
