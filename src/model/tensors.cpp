#include "model/tensors.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <charconv>
#include <initializer_list>
#include <string>

namespace rocmforge {
namespace {

using gguf::TensorInfo;
using Dims = std::initializer_list<uint64_t>;

// Norms, biases and factors are read as f32 by every backend.
constexpr bool is_vector_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

// The layer of a tensor's name "blk.N.rest".
std::optional<uint32_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  uint32_t layer = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [after, error] = std::from_chars(name.data() + kPrefix.size(), end, layer);
  return error == std::errc() && after != end && *after == '.' ? std::optional(layer) : std::nullopt;
}

// Tensors that no text depends on: angles of old files, which follow from keys; what an input was scaled by when a
// weight was made; and the towers and projectors of models that also see.
bool is_without_effect(std::string_view name) {
  return name.find(".attn_rot_embd") != name.npos || name.ends_with(".input_scale") || name.starts_with("v.") ||
         name.starts_with("mm.");
}

// Finds tensors by name and checks their shapes; the first error is kept and everything after it is skipped, so that a
// family's list of tensors reads as a list. Remembers what was found.
class Binder {
 public:
  explicit Binder(const gguf::GgufFile& file) : file_(file), is_bound_(file.tensors().size()) {}

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  bool has_rows(const std::string& name, uint64_t n_rows) const {
    const TensorInfo* tensor = file_.find_tensor(name);
    return tensor && tensor->dims[1] == n_rows;
  }

  TensorRef require(const std::string& name, Dims dims) {
    if (const auto found = find(name, dims)) return *found;
    fail(ErrorCode::model_tensor_missing, fmt::format("model: no tensor '{}'", name));
    return {};
  }

  std::optional<TensorRef> find(const std::string& name, Dims dims) {
    const TensorInfo* tensor = file_.find_tensor(name);
    if (!tensor) return std::nullopt;
    check(*tensor, dims);
    is_bound_[static_cast<size_t>(tensor - file_.tensors().data())] = true;
    return TensorRef{tensor, tensor->dims[0], tensor->dims[1], tensor->dims[2] * tensor->dims[3], 0,
                     {},     dims.size() == 3};
  }

  void fail(ErrorCode code, std::string message) {
    if (!error_) error_ = Error{code, std::move(message)};
  }
  std::optional<Error>& error() { return error_; }

  // The guard: a tensor that nothing has found would change what the model computes, and without it answers are wrong.
  void refuse_unbound(const ModelSpec& spec) {
    const auto tensors = file_.tensors();
    for (size_t i = 0; i < tensors.size(); i++) {
      const std::string_view name = tensors[i].name;
      const auto layer = layer_of(name);
      const bool is_behind = layer && *layer >= spec.n_layers && *layer < spec.n_blocks;
      if (is_bound_[i] || is_behind || is_without_effect(name)) continue;
      fail(ErrorCode::model_unsupported, why_unbound(name, layer, spec));
    }
  }

 private:
  static std::string why_unbound(std::string_view name, std::optional<uint32_t> layer, const ModelSpec& spec) {
    if (layer && *layer >= spec.n_blocks) {
      return fmt::format("model: tensor '{}': key '{}.block_count' says that there are {} layers", name,
                         spec.architecture, spec.n_blocks);
    }
    if (name.ends_with(".scale")) {
      return fmt::format("model: tensor '{}': weights with a separate scale are not supported", name);
    }
    return fmt::format(
        "model: tensor '{}': {} models with it are not supported; running the file without it would give "
        "wrong answers",
        name, spec.architecture);
  }

  void check(const TensorInfo& tensor, Dims dims) {
    size_t i = 0;
    bool same = true;
    for (const uint64_t dim : dims) same &= tensor.dims[i++] == dim;
    for (; i < tensor.dims.size(); i++) same &= tensor.dims[i] == 1;
    if (!same) {
      fail(ErrorCode::model_tensor_shape,
           fmt::format("model: tensor '{}': shape {}, expected {}", tensor.name,
                       fmt::join(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims, " x "),
                       fmt::join(dims, " x ")));
    }
    if (dtype_info(tensor.dtype).use != DTypeUse::weight) {
      fail(ErrorCode::model_unsupported,
           fmt::format("model: tensor '{}': type {} cannot hold weights", tensor.name, dtype_info(tensor.dtype).name));
    }
    if (tensor.n_dims == 1 && !is_vector_type(tensor.dtype)) {
      fail(ErrorCode::model_unsupported,
           fmt::format("model: tensor '{}': a vector of type {}, expected f32, f16 or bf16", tensor.name,
                       dtype_info(tensor.dtype).name));
    }
  }

  const gguf::GgufFile& file_;
  std::vector<bool> is_bound_;  // by tensor
  std::optional<Error> error_;
};

// Rows [first, first + n) of a matrix, or elements of a vector.
TensorRef rows_of(const TensorRef& whole, uint64_t first, uint64_t n, std::string_view part) {
  TensorRef ref = whole;
  ref.part = part;
  if (!whole.tensor) return ref;  // an error is on its way
  const DTypeInfo& dtype = dtype_info(whole.tensor->dtype);
  if (whole.tensor->n_dims == 1) {
    ref.row_elements = n;
    ref.skip_bytes = first / dtype.block_elements * dtype.block_bytes;
  } else {
    ref.n_rows = n;
    ref.skip_bytes = first * (whole.row_elements / dtype.block_elements * dtype.block_bytes);
  }
  return ref;
}

// The tensors of one layer: names in the file, shapes by the spec.
class LayerBinder {
 public:
  LayerBinder(Binder& bind, const ModelSpec& spec, uint32_t layer) : bind_(bind), spec_(spec), layer_(layer) {}

  LayerWeights<TensorRef> bind() {
    norms();
    attention();
    if (spec_.is_mixture(layer_)) {
      experts();
    } else {
      feed_forward();
    }
    return std::move(w_);
  }

 private:
  std::string name(std::string_view rest) const { return fmt::format("blk.{}.{}", layer_, rest); }
  TensorRef require(std::string_view rest, Dims dims) { return bind_.require(name(rest), dims); }
  std::optional<TensorRef> find(std::string_view rest, Dims dims) { return bind_.find(name(rest), dims); }

  void norms() {
    const uint64_t d = spec_.width;
    const bool before = spec_.norm_placement != NormPlacement::after;
    const bool after =
        spec_.norm_placement == NormPlacement::after || spec_.norm_placement == NormPlacement::before_and_after;
    if (before) {
      w_.attn_norm = require("attn_norm.weight", {d});
      w_.attn_norm_bias = find("attn_norm.bias", {d});
    }
    if (before && spec_.norm_placement != NormPlacement::shared) {
      const std::string ffn_norm = spec_.ffn_norm_is_post_attention ? "post_attention_norm" : "ffn_norm";
      w_.ffn_norm = require(ffn_norm + ".weight", {d});
      w_.ffn_norm_bias = find(ffn_norm + ".bias", {d});
    }
    if (after) {
      w_.attn_post_norm = require("post_attention_norm.weight", {d});
      w_.ffn_post_norm = require("post_ffw_norm.weight", {d});
    }
  }

  void attention() {
    const uint64_t d = spec_.width, q = spec_.q_width(), kv = spec_.kv_width();
    if (bind_.has(name("attn_qkv.weight"))) {
      const TensorRef qkv = require("attn_qkv.weight", {d, q + 2 * kv});
      w_.q = rows_of(qkv, 0, q, "q");
      w_.k = rows_of(qkv, q, kv, "k");
      w_.v = rows_of(qkv, q + kv, kv, "v");
      if (const auto bias = find("attn_qkv.bias", {q + 2 * kv})) {
        w_.q_bias = rows_of(*bias, 0, q, "q");
        w_.k_bias = rows_of(*bias, q, kv, "k");
        w_.v_bias = rows_of(*bias, q + kv, kv, "v");
      }
    } else {
      w_.q = require("attn_q.weight", {d, q});
      w_.k = require("attn_k.weight", {d, kv});
      w_.v = require("attn_v.weight", {d, kv});
      w_.q_bias = find("attn_q.bias", {q});
      w_.k_bias = find("attn_k.bias", {kv});
      w_.v_bias = find("attn_v.bias", {kv});
    }
    if (spec_.qkv_bias && !(w_.q_bias && w_.k_bias && w_.v_bias)) {
      bind_.fail(ErrorCode::model_tensor_missing,
                 fmt::format("model: no tensor '{}', '{}' or '{}': {} needs all three", name("attn_q.bias"),
                             name("attn_k.bias"), name("attn_v.bias"), spec_.architecture));
    }
    w_.attn_output = require("attn_output.weight", {q, d});
    w_.attn_output_bias = find("attn_output.bias", {d});
    if (spec_.has_sinks) w_.sinks = require("attn_sinks.weight", {spec_.n_heads});
    query_key_norms();
  }

  void query_key_norms() {
    const uint64_t q = spec_.q_width(), kv = spec_.kv_width(), head = spec_.head_size;
    switch (spec_.qk_norm) {
      case QkNorm::none:
        break;
      case QkNorm::heads:
        w_.q_norm = require("attn_q_norm.weight", {head});
        w_.k_norm = require("attn_k_norm.weight", {head});
        break;
      case QkNorm::heads_if_present:
        w_.q_norm = find("attn_q_norm.weight", {head});
        w_.k_norm = find("attn_k_norm.weight", {head});
        break;
      case QkNorm::row:
        w_.q_norm = require("attn_q_norm.weight", {q});
        w_.k_norm = require("attn_k_norm.weight", {kv});
        break;
    }
  }

  void feed_forward() {
    const uint64_t d = spec_.width, ff = spec_.ff_width;
    if (spec_.gated && !bind_.has(name("ffn_gate.weight")) && bind_.has_rows(name("ffn_up.weight"), 2 * ff)) {
      const TensorRef both = require("ffn_up.weight", {d, 2 * ff});
      w_.ffn_gate = rows_of(both, 0, ff, "gate");
      w_.ffn_up = rows_of(both, ff, ff, "up");
    } else {
      if (spec_.gated) w_.ffn_gate = require("ffn_gate.weight", {d, ff});
      w_.ffn_up = require("ffn_up.weight", {d, ff});
      w_.ffn_gate_bias = find("ffn_gate.bias", {ff});
      w_.ffn_up_bias = find("ffn_up.bias", {ff});
    }
    w_.ffn_down = require("ffn_down.weight", {ff, d});
    w_.ffn_down_bias = find("ffn_down.bias", {d});
  }

  void experts() {
    const uint64_t d = spec_.width, n = spec_.experts.n_experts, ff = spec_.experts.width;
    w_.router = require("ffn_gate_inp.weight", {d, n});
    w_.router_bias = find("ffn_gate_inp.bias", {n});
    w_.router_choice_bias = find("exp_probs_b.bias", {n});
    w_.experts_gate = require("ffn_gate_exps.weight", {d, ff, n});
    w_.experts_up = require("ffn_up_exps.weight", {d, ff, n});
    w_.experts_down = require("ffn_down_exps.weight", {ff, d, n});
    w_.experts_gate_bias = find("ffn_gate_exps.bias", {ff, n});
    w_.experts_up_bias = find("ffn_up_exps.bias", {ff, n});
    w_.experts_down_bias = find("ffn_down_exps.bias", {d, n});
    if (const uint64_t shared = spec_.experts.shared_width; shared > 0) {
      w_.shared_gate = require("ffn_gate_shexp.weight", {d, shared});
      w_.shared_up = require("ffn_up_shexp.weight", {d, shared});
      w_.shared_down = require("ffn_down_shexp.weight", {shared, d});
    }
  }

  Binder& bind_;
  const ModelSpec& spec_;
  uint32_t layer_;
  LayerWeights<TensorRef> w_;
};

std::optional<TensorRef> bind_rope_factors(Binder& bind, const ModelSpec& spec, uint32_t n_context) {
  const Dims dims = {spec.rope.n_dims / 2};
  const auto all = bind.find("rope_freqs.weight", dims);
  const auto of_long = bind.find("rope_factors_long.weight", dims);
  const auto of_short = bind.find("rope_factors_short.weight", dims);
  if (all) return all;
  return n_context > spec.rope.original_context ? of_long : of_short;
}

}  // namespace

Result<ModelTensors> bind_tensors(const gguf::GgufFile& file, const ModelSpec& spec, uint32_t n_context) {
  Binder bind(file);
  ModelTensors model;
  model.token_embedding = bind.require("token_embd.weight", {spec.width, spec.n_vocab});
  if (spec.learned_positions)
    model.position_embedding = bind.require("position_embd.weight", {spec.width, spec.n_context});
  model.output_norm = bind.require("output_norm.weight", {spec.width});
  model.output_norm_bias = bind.find("output_norm.bias", {spec.width});
  const auto output = bind.find("output.weight", {spec.width, spec.n_vocab});
  model.tied = !output;
  model.output = output.value_or(model.token_embedding);
  model.rope_factors = bind_rope_factors(bind, spec, n_context);
  for (uint32_t layer = 0; layer < spec.n_layers && !bind.error(); layer++) {
    model.layers.push_back(LayerBinder(bind, spec, layer).bind());
  }
  if (!bind.error()) bind.refuse_unbound(spec);
  if (bind.error()) return *std::move(bind.error());
  return model;
}

}  // namespace rocmforge
