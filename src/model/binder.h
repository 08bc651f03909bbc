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

// The first error is kept and everything after it is skipped, so that a family's list of tensors reads as a list.
// Remembers what was found.
class Binder {
 public:
  explicit Binder(const gguf::GgufFile& file) : file_(file), is_bound_(file.tensors().size()) {}

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  bool has_rows(const std::string& name, uint64_t n_rows) const;

  TensorRef require(const std::string& name, Dims dims);
  std::optional<TensorRef> find(const std::string& name, Dims dims);
  // A tensor that is there in some files and has no effect.
  void ignore(const std::string& name);
  void ignore_layer(uint32_t layer);

  void fail(ErrorCode code, std::string message) {
    if (!error_) error_ = Error{code, std::move(message)};
  }
  std::optional<Error>& error() { return error_; }

  // The guard: a tensor that nothing has found would change what the model computes, and without it answers are wrong.
  void refuse_unbound(const ModelSpec& spec);

 private:
  void check(const gguf::TensorInfo& tensor, Dims dims);

  const gguf::GgufFile& file_;
  std::vector<bool> is_bound_;  // by tensor
  std::optional<Error> error_;
};

// Rows [first, first + n) of a matrix, of each matrix of a stack, or elements of a vector.
TensorRef rows_of(const TensorRef& whole, uint64_t first, uint64_t n, std::string_view part);
// A matrix of floats as one vector.
TensorRef as_vector(const TensorRef& whole);

// The tensors of one layer.
LayerWeights<TensorRef> bind_layer(Binder& bind, const ModelSpec& spec, uint32_t layer);

}  // namespace rocmforge
