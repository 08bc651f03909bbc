#pragma once
// Shapes of real models, for synthetic ones: the numbers, and the tensors that follow from them.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/writer.h"

namespace rocmforge::gguf {

// What a shape has besides where its layers differ (shapes_mixed.cpp).
struct MixedShape {
  std::string_view layers;      // kinds, repeated: s has a state, a attends, w attends in a window, e has experts alone
  uint32_t dense_ff_width = 0;  // of what runs beside the experts
  uint32_t n_state_heads = 0, n_state_groups = 0, state_head_size = 0, state_size = 0;
  uint32_t window = 0, n_window_kv_heads = 0, window_head_size = 0;
};

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
  const MixedShape* mixed = nullptr;
  uint32_t pooling_type = 0;  // of a model for embeddings, as files number them; 0: none

  bool is_bert() const { return architecture == "bert"; }
};

std::span<const Shape> all_shapes();
const Shape* find_shape(std::string_view name);  // null when there is none

struct ShapeTensor {
  enum class Kind { matrix, norm, bias, router, decay };
  std::string name;
  Kind kind;
  std::vector<uint64_t> dims;  // dims[0] is the row length
};

std::vector<ShapeTensor> shape_tensors(const Shape& shape);

// For shapes whose layers differ: their tensors, and their keys beside those of all shapes.
std::vector<ShapeTensor> mixed_tensors(const Shape& shape);
void set_mixed_keys(HeaderBuilder& header, const Shape& shape);

}  // namespace rocmforge::gguf
