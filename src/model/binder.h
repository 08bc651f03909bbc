#pragma once
// Finds a file's tensors by name and checks their shapes.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"
#include "model/tensors.h"

namespace rocmforge {

using Dims = std::initializer_list<uint64_t>;

// The first error is kept and every later call does nothing, so that a family's list of tensors reads as a list.
// Records which tensors were found.
class Binder {
 public:
  explicit Binder(const gguf::GgufFile& file) : file_(file), is_bound_(file.tensors().size()) {}

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  bool has_rows(const std::string& name, uint64_t n_rows) const;
  // Rows of a matrix, of which only the file knows how many there are; 0: no such tensor.
  uint64_t n_rows(const std::string& name) const;

  TensorRef require(const std::string& name, Dims dims);
  std::optional<TensorRef> find(const std::string& name, Dims dims);
  // The same tensor as one vector, whatever its dimensions. It must be f32, f16 or bf16.
  TensorRef require_vector(const std::string& name, Dims dims);
  // Marks a tensor that some files have and that has no effect.
  void ignore(const std::string& name);
  void ignore_layer(uint32_t layer);

  void fail(ErrorCode code, std::string message) {
    if (!error_) error_ = Error{code, std::move(message)};
  }
  std::optional<Error>& error() { return error_; }

  // The guard: fails if the file has a tensor that no call has found. Ignoring it would give wrong answers.
  void refuse_unbound(const ModelSpec& spec);

 private:
  void check(const gguf::TensorInfo& tensor, Dims dims);

  const gguf::GgufFile& file_;
  std::vector<bool> is_bound_;  // by tensor
  std::optional<Error> error_;
};

// Rows [first, first + n) of a matrix, or of each matrix of a stack; elements [first, first + n) of a vector.
TensorRef rows_of(const TensorRef& whole, uint64_t first, uint64_t n, std::string_view part);
// Binds pooling's dense layers and the classifier head.
void bind_head(Binder& bind, const ModelSpec& spec, ModelTensors& model);

// A matrix of floats as one vector.
TensorRef as_vector(const TensorRef& whole);

// The tensors of one layer.
LayerWeights<TensorRef> bind_layer(Binder& bind, const ModelSpec& spec, uint32_t layer);
// The tensors of the layer's recurrent mixer.
void bind_recurrent(Binder& bind, const ModelSpec& spec, uint32_t layer, LayerWeights<TensorRef>& to);

}  // namespace rocmforge
