#pragma once
// A model's tensors by what they do. Every shape is verified here, once; whoever holds a ModelTensors may trust them.

#include <optional>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model/spec.h"

namespace rocmforge {

// The weights of one layer. Handle is `const gguf::TensorInfo*` as read from a file, and a lazy handle in a plan.
// Which of the optional ones are there follows from the family.
template <class Handle>
struct LayerWeights {
  Handle attn_norm{};
  Handle q{}, k{}, v{};
  std::optional<Handle> q_bias, k_bias, v_bias;
  Handle attn_output{};
  std::optional<Handle> attn_output_bias;
  Handle ffn_norm{};
  // A dense layer has gate, up and down; a mixture of experts the router and the stacked matrices.
  std::optional<Handle> ffn_gate, ffn_up, ffn_down;
  std::optional<Handle> ffn_gate_bias, ffn_up_bias, ffn_down_bias;
  std::optional<Handle> router, experts_gate, experts_up, experts_down;
};

template <class Handle>
struct ModelWeights {
  Handle token_embedding{};
  std::vector<LayerWeights<Handle>> layers;
  Handle output_norm{};
  Handle output{};                     // the token embedding again when tied
  std::optional<Handle> rope_factors;  // one divisor per rotated pair
  bool tied = false;
};

using ModelTensors = ModelWeights<const gguf::TensorInfo*>;

// Finds every tensor the spec needs. Errors: model_tensor_missing (with the names tried), model_tensor_shape (with both
// shapes), model_unsupported (a tensor that changes the meaning of others, such as a separate .scale).
Result<ModelTensors> bind_tensors(const gguf::GgufFile& file, const ModelSpec& spec);

}  // namespace rocmforge
