#pragma once
// A model's tensors by role. Every shape is verified here, once; users of a ModelTensors need not check shapes.

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model/spec.h"

namespace rocmforge {

// A matrix or vector in a file: a whole tensor, or some rows of a fused projection.
struct TensorRef {
  const gguf::TensorInfo* tensor = nullptr;
  uint64_t row_elements = 0;
  uint64_t n_rows = 1;
  uint64_t n_matrices = 1;
  uint64_t skip_bytes = 0;
  uint64_t matrix_bytes = 0;  // stride of the matrices of a stack
  std::string_view part;      // empty: the whole tensor
  bool is_stack = false;      // n_matrices matrices, one per expert
};

// The weights of one layer. Handle is a TensorRef when read from a file, and a lazy handle in a plan. Family and file
// determine which weights are present.
template <class Handle>
struct LayerWeights {
  using Weight = std::optional<Handle>;
  Weight attn_norm, attn_norm_bias;
  Weight q, k, v;
  Weight q_bias, k_bias, v_bias;
  Weight q_scale, k_scale, v_scale;  // one number per matrix
  Weight q_norm, k_norm, q_norm_bias, k_norm_bias;
  Weight sinks;
  Weight attn_gate;      // gate of attention's output, before the output projection: per head, or per element
  Weight attn_sub_norm;  // norm at the same place
  Weight attn_output, attn_output_bias, attn_output_scale;
  // Recurrent mixers: the input projection (mix_in), gates of input and output, the convolution's taps as one vector.
  // Selective scans: the step projection (low-rank if there is scan_step_up), B (writes the state) and C (reads it),
  // the decay A, the skip D. Delta rules: beta (how much is written) and alpha (gives the decay), as two matrices or
  // one.
  Weight mix_in, mix_in_gate, mix_gate;
  Weight conv, conv_bias;
  Weight scan_step, scan_b, scan_c, scan_step_norm, scan_b_norm, scan_c_norm, scan_step_up, scan_step_bias;
  Weight scan_decay, scan_skip;
  Weight beta, alpha, beta_alpha;
  Weight mix_norm, mix_output;
  Weight attn_post_norm, attn_post_norm_bias;
  Weight attn_second_norm, attn_second_norm_bias;  // after attention's, of a sum with the layer's input once more
  Weight ffn_norm, ffn_norm_bias;
  // A dense layer has up and down, and a gate if it is gated; a mixture of experts has a router and stacked matrices.
  Weight ffn_gate, ffn_up, ffn_down;
  Weight ffn_gate_bias, ffn_up_bias, ffn_down_bias;
  Weight ffn_gate_scale, ffn_up_scale, ffn_down_scale;
  Weight ffn_sub_norm;  // norm of the hidden layer, before the down projection
  Weight dense_post_norm;
  Weight experts_norm;
  Weight router, router_bias, router_choice_bias;
  Weight router_norm;             // norm of the router's input
  Weight latent_down, latent_up;  // projections from and to the model's width, around narrower experts
  Weight experts_gate, experts_up, experts_down;
  Weight experts_gate_bias, experts_up_bias, experts_down_bias;
  Weight experts_down_scale;  // one number per expert
  Weight experts_post_norm;
  Weight shared_gate, shared_up, shared_down;
  Weight shared_router;  // a vector: its product with the input gates the shared expert
  Weight ffn_post_norm, ffn_post_norm_bias;
  Weight per_layer_gate, per_layer_projection, per_layer_norm;
  Weight layer_scale;
  // AltUp: the router of streams with its norm, what they are predicted and corrected by, the first stream's scale
  // behind the layer. Laurel: a low-rank product beside attention, with a norm.
  Weight stream_router_norm, stream_router, stream_predict, stream_correct, stream_scale;
  Weight laurel_down, laurel_up, laurel_norm;

  // Calls f(field) for every field, in the order of use.
  template <class Self, class F>
  static void for_each(Self& w, F&& f) {
    f(w.attn_norm), f(w.attn_norm_bias), f(w.q), f(w.k), f(w.v), f(w.q_bias), f(w.k_bias), f(w.v_bias);
    f(w.q_scale), f(w.k_scale), f(w.v_scale), f(w.q_norm), f(w.k_norm), f(w.q_norm_bias), f(w.k_norm_bias), f(w.sinks),
        f(w.attn_gate);
    f(w.attn_sub_norm), f(w.attn_output), f(w.attn_output_bias), f(w.attn_output_scale);
    f(w.mix_in), f(w.mix_in_gate), f(w.mix_gate), f(w.conv), f(w.conv_bias), f(w.scan_step), f(w.scan_b), f(w.scan_c);
    f(w.scan_step_norm), f(w.scan_b_norm), f(w.scan_c_norm), f(w.scan_step_up), f(w.scan_step_bias), f(w.scan_decay);
    f(w.scan_skip), f(w.beta), f(w.alpha), f(w.beta_alpha), f(w.mix_norm), f(w.mix_output), f(w.attn_post_norm);
    f(w.attn_post_norm_bias), f(w.attn_second_norm), f(w.attn_second_norm_bias);
    f(w.ffn_norm), f(w.ffn_norm_bias), f(w.ffn_gate), f(w.ffn_up), f(w.ffn_gate_bias), f(w.ffn_up_bias);
    f(w.ffn_gate_scale), f(w.ffn_up_scale), f(w.ffn_sub_norm), f(w.ffn_down), f(w.ffn_down_bias);
    f(w.ffn_down_scale), f(w.dense_post_norm), f(w.experts_norm), f(w.router_norm), f(w.router), f(w.router_bias);
    f(w.router_choice_bias), f(w.latent_down), f(w.latent_up), f(w.experts_gate), f(w.experts_up),
        f(w.experts_gate_bias), f(w.experts_up_bias);
    f(w.experts_down), f(w.experts_down_bias), f(w.experts_down_scale), f(w.experts_post_norm), f(w.shared_router);
    f(w.shared_gate), f(w.shared_up), f(w.shared_down), f(w.ffn_post_norm), f(w.ffn_post_norm_bias),
        f(w.per_layer_gate);
    f(w.per_layer_projection), f(w.per_layer_norm), f(w.layer_scale);
    f(w.stream_router_norm), f(w.stream_router), f(w.stream_predict), f(w.stream_correct), f(w.stream_scale);
    f(w.laurel_down), f(w.laurel_up), f(w.laurel_norm);
  }
};

template <class Handle>
struct ModelWeights {
  using Weight = std::optional<Handle>;
  Handle token_embedding{};
  Weight position_embedding;
  Weight token_type;       // a vector: the type of every token
  Weight distance_biases;  // a row per bucket, a number per head
  Weight embedding_norm, embedding_norm_bias;
  // Per-layer embeddings: a row per token and layer, and a projection of the embedding that is added to it.
  Weight per_layer_embedding, per_layer_projection, per_layer_norm;
  // AltUp: matrices from the embedding to each of the streams behind the first, and from these before the output.
  std::vector<Handle> to_streams, from_streams;
  std::vector<LayerWeights<Handle>> layers;
  Weight output_norm, output_norm_bias;
  Weight embedding_layers[2];  // dense layers on the pooled row, in this order
  // A classifier: hidden layer, norm, output layer.
  Weight classifier, classifier_bias, classifier_norm, scores, scores_bias;
  Handle output{};  // the token embedding again when tied
  Weight output_bias;
  Weight rope_factors;  // one divisor per rotated pair
  bool tied = false;
};

using ModelTensors = ModelWeights<TensorRef>;

// Finds every tensor the spec needs. n_context selects between long and short rope factors, in families that have both.
// Errors: model_tensor_missing (with the names tried), model_tensor_shape (with both shapes), model_unsupported (a
// tensor that the spec does not use, such as a separate .scale, or a tensor of a layer beyond the file's block_count).
Result<ModelTensors> bind_tensors(const gguf::GgufFile& file, const ModelSpec& spec, uint32_t n_context);

}  // namespace rocmforge
