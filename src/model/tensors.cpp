#include "model/tensors.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <initializer_list>
#include <string>

namespace rocmforge {
namespace {

using gguf::TensorInfo;
using Dims = std::initializer_list<uint64_t>;

// Finds tensors by name and checks their shapes; the first error is kept and everything after it is skipped, so that a
// family's list of tensors reads as a list.
class Binder {
 public:
  explicit Binder(const gguf::GgufFile& file) : file_(file) {}

  const TensorInfo* require(const std::string& name, Dims dims) {
    if (const TensorInfo* tensor = file_.find_tensor(name)) return checked(tensor, dims);
    fail(ErrorCode::model_tensor_missing, fmt::format("model: no tensor '{}'", name));
    return nullptr;
  }

  std::optional<const TensorInfo*> find(const std::string& name, Dims dims) {
    const TensorInfo* tensor = file_.find_tensor(name);
    if (!tensor) return std::nullopt;
    return checked(tensor, dims);
  }

  void fail(ErrorCode code, std::string message) {
    if (!error_) error_ = Error{code, std::move(message)};
  }
  std::optional<Error>& error() { return error_; }

 private:
  const TensorInfo* checked(const TensorInfo* tensor, Dims dims) {
    size_t i = 0;
    bool same = tensor->n_dims >= 1;
    for (const uint64_t dim : dims) same &= tensor->dims[i++] == dim;
    for (; i < tensor->dims.size(); i++) same &= tensor->dims[i] == 1;
    if (!same) {
      fail(ErrorCode::model_tensor_shape,
           fmt::format("model: tensor '{}': shape {}, expected {}", tensor->name,
                       fmt::join(tensor->dims.begin(), tensor->dims.begin() + tensor->n_dims, " x "),
                       fmt::join(dims, " x ")));
    }
    if (dtype_info(tensor->dtype).use != DTypeUse::weight) {
      fail(ErrorCode::model_unsupported, fmt::format("model: tensor '{}': type {} cannot hold weights", tensor->name,
                                                     dtype_info(tensor->dtype).name));
    }
    return tensor;
  }

  const gguf::GgufFile& file_;
  std::optional<Error> error_;
};

// Norms, biases and factors are read as f32 by every backend.
constexpr bool is_vector_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

LayerWeights<const TensorInfo*> bind_layer(Binder& bind, const ModelSpec& spec, uint32_t layer) {
  const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); };
  const uint64_t d = spec.width, q = spec.q_width(), kv = spec.kv_width(), ff = spec.ff_width;
  LayerWeights<const TensorInfo*> w;
  w.attn_norm = bind.require(name("attn_norm.weight"), {d});
  w.q = bind.require(name("attn_q.weight"), {d, q});
  w.k = bind.require(name("attn_k.weight"), {d, kv});
  w.v = bind.require(name("attn_v.weight"), {d, kv});
  w.q_bias = bind.find(name("attn_q.bias"), {q});
  w.k_bias = bind.find(name("attn_k.bias"), {kv});
  w.v_bias = bind.find(name("attn_v.bias"), {kv});
  if (spec.qkv_bias && !(w.q_bias && w.k_bias && w.v_bias)) {
    bind.fail(ErrorCode::model_tensor_missing,
              fmt::format("model: no tensor '{}', '{}' or '{}': {} needs all three", name("attn_q.bias"),
                          name("attn_k.bias"), name("attn_v.bias"), spec.architecture));
  }
  w.attn_output = bind.require(name("attn_output.weight"), {q, d});
  w.attn_output_bias = bind.find(name("attn_output.bias"), {d});
  w.ffn_norm = bind.require(name("ffn_norm.weight"), {d});
  if (spec.is_mixture()) {
    const uint64_t n = spec.experts.n_experts, width = spec.experts.width;
    w.router = bind.require(name("ffn_gate_inp.weight"), {d, n});
    w.experts_gate = bind.require(name("ffn_gate_exps.weight"), {d, width, n});
    w.experts_up = bind.require(name("ffn_up_exps.weight"), {d, width, n});
    w.experts_down = bind.require(name("ffn_down_exps.weight"), {width, d, n});
  } else {
    w.ffn_gate = bind.require(name("ffn_gate.weight"), {d, ff});
    w.ffn_up = bind.require(name("ffn_up.weight"), {d, ff});
    w.ffn_down = bind.require(name("ffn_down.weight"), {ff, d});
    w.ffn_gate_bias = bind.find(name("ffn_gate.bias"), {ff});
    w.ffn_up_bias = bind.find(name("ffn_up.bias"), {ff});
    w.ffn_down_bias = bind.find(name("ffn_down.bias"), {d});
  }
  return w;
}

}  // namespace

Result<ModelTensors> bind_tensors(const gguf::GgufFile& file, const ModelSpec& spec) {
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name.ends_with(".scale") || tensor.name.ends_with(".input_scale")) {
      return Error{ErrorCode::model_unsupported,
                   fmt::format("model: tensor '{}': weights with a separate scale are not supported", tensor.name)};
    }
    if (tensor.n_dims == 1 && dtype_info(tensor.dtype).use == DTypeUse::weight && !is_vector_type(tensor.dtype)) {
      return Error{ErrorCode::model_unsupported,
                   fmt::format("model: tensor '{}': a vector of type {}, expected f32, f16 or bf16", tensor.name,
                               dtype_info(tensor.dtype).name)};
    }
  }
  Binder bind(file);
  ModelTensors model;
  model.token_embedding = bind.require("token_embd.weight", {spec.width, spec.n_vocab});
  model.output_norm = bind.require("output_norm.weight", {spec.width});
  const auto output = bind.find("output.weight", {spec.width, spec.n_vocab});
  model.tied = !output;
  model.output = output.value_or(model.token_embedding);
  model.rope_factors = bind.find("rope_freqs.weight", {spec.rope.n_dims / 2});
  for (uint32_t layer = 0; layer < spec.n_layers && !bind.error(); layer++) {
    model.layers.push_back(bind_layer(bind, spec, layer));
  }
  if (bind.error()) return *std::move(bind.error());
  return model;
}

}  // namespace rocmforge
