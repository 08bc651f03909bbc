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
  uint64_t matrix_bytes = 0;  // of a stack: from one matrix to the next
  std::string_view part;      // empty: the whole tensor
  bool is_stack = false;      // a matrix for each expert, n_matrices of them
};

// The weights of one layer. Handle is a TensorRef as read from a file, and a lazy handle in a plan. Which of them are
// there follows from the family and the file.
template <class Handle>
struct LayerWeights {
  using Weight = std::optional<Handle>;
  Weight attn_norm, attn_norm_bias;
  Weight q, k, v;
  Weight q_bias, k_bias, v_bias;
  Weight q_scale, k_scale, v_scale;  // one number each
  Weight q_norm, k_norm;
  Weight sinks;
  Weight attn_gate;      // of what was attended to: a number for each head, or for each element
  Weight attn_sub_norm;  // of the same
  Weight attn_output, attn_output_bias, attn_output_scale;
  Weight attn_post_norm;
  Weight ffn_norm, ffn_norm_bias;
  // A dense layer has up, down and, where it is gated, gate; a mixture of experts the router and the stacked matrices.
  Weight ffn_gate, ffn_up, ffn_down;
  Weight ffn_gate_bias, ffn_up_bias, ffn_down_bias;
  Weight ffn_gate_scale, ffn_up_scale, ffn_down_scale;
  Weight ffn_sub_norm;  // of the hidden layer
  Weight dense_post_norm;
  Weight experts_norm;
  Weight router, router_bias, router_choice_bias;
  Weight router_norm;  // of what the router reads
  Weight experts_gate, experts_up, experts_down;
  Weight experts_gate_bias, experts_up_bias, experts_down_bias;
  Weight experts_down_scale;  // a number for each expert
  Weight experts_post_norm;
  Weight shared_gate, shared_up, shared_down;
  Weight shared_router;  // a vector: how much of the shared expert
  Weight ffn_post_norm;
  Weight per_layer_gate, per_layer_projection, per_layer_norm;
  Weight layer_scale;

  // Calls f(field) for every field, in the order of use.
  template <class Self, class F>
  static void for_each(Self& w, F&& f) {
    f(w.attn_norm), f(w.attn_norm_bias), f(w.q), f(w.k), f(w.v), f(w.q_bias), f(w.k_bias), f(w.v_bias);
    f(w.q_scale), f(w.k_scale), f(w.v_scale), f(w.q_norm), f(w.k_norm), f(w.sinks), f(w.attn_gate);
    f(w.attn_sub_norm), f(w.attn_output), f(w.attn_output_bias), f(w.attn_output_scale), f(w.attn_post_norm);
    f(w.ffn_norm), f(w.ffn_norm_bias), f(w.ffn_gate), f(w.ffn_up), f(w.ffn_gate_bias), f(w.ffn_up_bias);
    f(w.ffn_gate_scale), f(w.ffn_up_scale), f(w.ffn_sub_norm), f(w.ffn_down), f(w.ffn_down_bias);
    f(w.ffn_down_scale), f(w.dense_post_norm), f(w.experts_norm), f(w.router_norm), f(w.router), f(w.router_bias);
    f(w.router_choice_bias), f(w.experts_gate), f(w.experts_up), f(w.experts_gate_bias), f(w.experts_up_bias);
    f(w.experts_down), f(w.experts_down_bias), f(w.experts_down_scale), f(w.experts_post_norm), f(w.shared_router);
    f(w.shared_gate), f(w.shared_up), f(w.shared_down), f(w.ffn_post_norm), f(w.per_layer_gate);
    f(w.per_layer_projection), f(w.per_layer_norm), f(w.layer_scale);
  }
};

template <class Handle>
struct ModelWeights {
  using Weight = std::optional<Handle>;
  Handle token_embedding{};
  Weight position_embedding;
  Weight embedding_norm, embedding_norm_bias;
  // Of each token a row for every layer, and what adds to them.
  Weight per_layer_embedding, per_layer_projection, per_layer_norm;
  std::vector<LayerWeights<Handle>> layers;
  Weight output_norm, output_norm_bias;
  Handle output{};  // the token embedding again when tied
  Weight output_bias;
  Weight rope_factors;  // one divisor per rotated pair
  bool tied = false;
};

using ModelTensors = ModelWeights<TensorRef>;

// Finds every tensor the spec needs, for contexts of n_context tokens (families with long and short rope factors choose
// by it). Errors: model_tensor_missing (with the names tried), model_tensor_shape (with both shapes), model_unsupported
// (a tensor that the spec has no use for, such as a separate .scale, or one of a layer that the keys do not count).
Result<ModelTensors> bind_tensors(const gguf::GgufFile& file, const ModelSpec& spec, uint32_t n_context);

}  // namespace rocmforge
