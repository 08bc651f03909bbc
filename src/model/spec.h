#pragma once
// What a model is, as plain numbers and enums read once from a file's metadata. Nothing downstream asks for the
// architecture's name again: differences between families are values of these fields (model/families.cpp).

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/metadata.h"

namespace rocmforge {

enum class NormKind : uint8_t { rms, layer };

// Which elements of a head turn together: neighbours (2i, 2i+1), or halves (i, i + n/2).
enum class RopePairs : uint8_t { neighbours, halves };

enum class RopeScaling : uint8_t { none, linear, yarn };

enum class Activation : uint8_t { silu, gelu };

struct RopeSpec {
  RopePairs pairs = RopePairs::neighbours;
  uint32_t n_dims = 0;  // of each head; the rest stays as it is
  float base = 10000.0f;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0f;            // context extension
  uint32_t original_context = 0;  // yarn: the context the model was trained with
  float attention_factor = 1.0f;  // yarn: rotated values grow by this times 1 + 0.1 ln(factor)
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

struct ExpertSpec {
  uint32_t n_experts = 0;  // 0: a dense model
  uint32_t n_used = 0;
  uint32_t width = 0;             // of each expert's hidden layer
  bool normalise_weights = true;  // the used experts' weights are made to sum to one
};

struct ModelSpec {
  std::string architecture;
  std::string name;
  uint32_t n_layers = 0;
  uint32_t n_vocab = 0;
  uint32_t n_context = 0;  // that the model was trained for
  uint32_t width = 0;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_size = 0;  // of keys, queries and values
  uint32_t ff_width = 0;
  NormKind norm = NormKind::rms;
  float norm_epsilon = 0;
  Activation activation = Activation::silu;
  RopeSpec rope;
  ExpertSpec experts;
  bool qkv_bias = false;  // biases are required; elsewhere they are used when present
  float attention_scale = 0;

  bool is_mixture() const { return experts.n_experts > 0; }
  uint32_t q_width() const { return n_heads * head_size; }
  uint32_t kv_width() const { return n_kv_heads * head_size; }
};

// Limits on what a file may claim, beyond those of the container.
inline constexpr uint32_t kMaxLayers = 1'024;
inline constexpr uint32_t kMaxVocab = 2'000'000;

// Reads and checks the hyper-parameters. Errors name the key: model_unsupported (with the architectures known),
// model_hyperparameter.
Result<ModelSpec> read_model_spec(const gguf::Metadata& metadata);

// The architectures this build runs, for messages and `--help`.
std::vector<std::string_view> supported_architectures();

}  // namespace rocmforge
