#pragma once
// A model's tensors by what they do. Every shape is verified here, once; whoever holds a ModelTensors may trust them.

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model/spec.h"

namespace rocmforge {

// A matrix or vector in a file: a whole tensor, or rows of one that holds several (a fused projection).
struct TensorRef {
  const gguf::TensorInfo* tensor = nullptr;
  uint64_t row_elements = 0;
  uint64_t n_rows = 1;
  uint64_t n_matrices = 1;
  uint64_t skip_bytes = 0;
  std::string_view part;  // empty: the whole tensor
  bool is_stack = false;  // a matrix for each expert, n_matrices of them
};

// The weights of one layer. Handle is a TensorRef as read from a file, and a lazy handle in a plan. Which of the
// optional ones are there follows from the family and the file.
template <class Handle>
struct LayerWeights {
  std::optional<Handle> attn_norm, attn_norm_bias;
  Handle q{}, k{}, v{};
  std::optional<Handle> q_bias, k_bias, v_bias;
  std::optional<Handle> q_norm, k_norm;
  std::optional<Handle> sinks;
  Handle attn_output{};
  std::optional<Handle> attn_output_bias;
  std::optional<Handle> attn_post_norm;
  std::optional<Handle> ffn_norm, ffn_norm_bias;
  // A dense layer has up, down and, where it is gated, gate; a mixture of experts the router and the stacked matrices.
  std::optional<Handle> ffn_gate, ffn_up, ffn_down;
  std::optional<Handle> ffn_gate_bias, ffn_up_bias, ffn_down_bias;
  std::optional<Handle> router, router_bias, router_choice_bias;
  std::optional<Handle> experts_gate, experts_up, experts_down;
  std::optional<Handle> experts_gate_bias, experts_up_bias, experts_down_bias;
  std::optional<Handle> shared_gate, shared_up, shared_down;
  std::optional<Handle> ffn_post_norm;

  // Calls f(field) for every field, in the order of use.
  template <class Self, class F>
  static void for_each(Self& w, F&& f) {
    f(w.attn_norm), f(w.attn_norm_bias), f(w.q), f(w.k), f(w.v), f(w.q_bias), f(w.k_bias), f(w.v_bias);
    f(w.q_norm), f(w.k_norm), f(w.sinks), f(w.attn_output), f(w.attn_output_bias), f(w.attn_post_norm);
    f(w.ffn_norm), f(w.ffn_norm_bias), f(w.ffn_gate), f(w.ffn_up), f(w.ffn_gate_bias), f(w.ffn_up_bias);
    f(w.ffn_down), f(w.ffn_down_bias), f(w.router), f(w.router_bias), f(w.router_choice_bias), f(w.experts_gate);
    f(w.experts_up), f(w.experts_gate_bias), f(w.experts_up_bias), f(w.experts_down), f(w.experts_down_bias);
    f(w.shared_gate), f(w.shared_up), f(w.shared_down), f(w.ffn_post_norm);
  }
};

template <class Handle>
struct ModelWeights {
  Handle token_embedding{};
  std::optional<Handle> position_embedding;
  std::vector<LayerWeights<Handle>> layers;
  Handle output_norm{};
  std::optional<Handle> output_norm_bias;
  Handle output{};                     // the token embedding again when tied
  std::optional<Handle> rope_factors;  // one divisor per rotated pair
  bool tied = false;
};

using ModelTensors = ModelWeights<TensorRef>;

// Finds every tensor the spec needs, for contexts of n_context tokens (families with long and short rope factors choose
// by it). Errors: model_tensor_missing (with the names tried), model_tensor_shape (with both shapes), model_unsupported
// (a tensor that the spec has no use for, such as a separate .scale, or one of a layer that the keys do not count).
Result<ModelTensors> bind_tensors(const gguf::GgufFile& file, const ModelSpec& spec, uint32_t n_context);

}  // namespace rocmforge
