#pragma once
// Shapes of real models, for synthetic ones: the numbers, and the tensors that follow from them.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::gguf {

struct Shape {
  std::string_view name;
  std::string_view architecture;
  uint32_t width;
  uint32_t n_layers;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t head_size;
  uint32_t ff_width;  // of the feed-forward, or of one expert
  uint32_t n_experts;
  uint32_t n_experts_used;
  uint32_t n_vocabulary;
  uint32_t context_length;
  float rope_base;
  bool tied;      // the output is the token embedding
  bool qkv_bias;  // qwen2
  bool qk_norm;   // qwen3
};

std::span<const Shape> all_shapes();
const Shape* find_shape(std::string_view name);  // null when there is none

struct ShapeTensor {
  enum class Kind { matrix, norm, bias, router };
  std::string name;
  Kind kind;
  std::vector<uint64_t> dims;  // dims[0] is the row length
};

std::vector<ShapeTensor> shape_tensors(const Shape& shape);

}  // namespace rocmforge::gguf
