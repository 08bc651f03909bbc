#include "model/binder.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <charconv>

namespace rocmforge {
namespace {

using gguf::TensorInfo;

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

std::string why_unbound(std::string_view name, std::optional<uint32_t> layer, const ModelSpec& spec) {
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

}  // namespace

bool Binder::has_rows(const std::string& name, uint64_t n_rows) const {
  const TensorInfo* tensor = file_.find_tensor(name);
  return tensor && tensor->dims[1] == n_rows;
}

uint64_t Binder::n_rows(const std::string& name) const {
  const TensorInfo* tensor = file_.find_tensor(name);
  return tensor ? tensor->dims[1] : 0;
}

TensorRef Binder::require(const std::string& name, Dims dims) {
  if (const auto found = find(name, dims)) return *found;
  fail(ErrorCode::model_tensor_missing, fmt::format("model: no tensor '{}'", name));
  return {};
}

std::optional<TensorRef> Binder::find(const std::string& name, Dims dims) {
  const TensorInfo* tensor = file_.find_tensor(name);
  if (!tensor) return std::nullopt;
  check(*tensor, dims);
  is_bound_[static_cast<size_t>(tensor - file_.tensors().data())] = true;
  const TensorInfo& t = *tensor;
  const DTypeInfo& dtype = dtype_info(t.dtype);
  const uint64_t matrix_bytes = t.dims[0] / dtype.block_elements * dtype.block_bytes * t.dims[1];
  return TensorRef{tensor, t.dims[0], t.dims[1], t.dims[2] * t.dims[3], 0, matrix_bytes, {}, dims.size() == 3};
}

TensorRef Binder::require_vector(const std::string& name, Dims dims) {
  const TensorRef whole = require(name, dims);
  if (whole.tensor && !is_vector_type(whole.tensor->dtype)) {
    fail(ErrorCode::model_unsupported, fmt::format("model: tensor '{}': a vector of type {}, expected f32, f16 or bf16",
                                                   name, dtype_info(whole.tensor->dtype).name));
  }
  return as_vector(whole);
}

void Binder::ignore(const std::string& name) {
  if (const TensorInfo* tensor = file_.find_tensor(name)) {
    is_bound_[static_cast<size_t>(tensor - file_.tensors().data())] = true;
  }
}

void Binder::ignore_layer(uint32_t layer) {
  for (size_t i = 0; i < is_bound_.size(); i++) {
    if (layer_of(file_.tensors()[i].name) == layer) is_bound_[i] = true;
  }
}

void Binder::refuse_unbound(const ModelSpec& spec) {
  const auto tensors = file_.tensors();
  for (size_t i = 0; i < tensors.size(); i++) {
    const std::string_view name = tensors[i].name;
    const auto layer = layer_of(name);
    const bool is_behind = layer && *layer >= spec.n_layers && *layer < spec.n_blocks;
    if (is_bound_[i] || is_behind || is_without_effect(name)) continue;
    fail(ErrorCode::model_unsupported, why_unbound(name, layer, spec));
  }
}

void Binder::check(const TensorInfo& tensor, Dims dims) {
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
    fail(ErrorCode::model_unsupported, fmt::format("model: tensor '{}': a vector of type {}, expected f32, f16 or bf16",
                                                   tensor.name, dtype_info(tensor.dtype).name));
  }
}

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

TensorRef as_vector(const TensorRef& whole) {
  TensorRef ref = whole;
  ref.row_elements *= ref.n_rows;
  ref.n_rows = 1;
  return ref;
}

}  // namespace rocmforge
