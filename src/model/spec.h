#pragma once
// What a model is, as plain numbers and enums read once from a file's metadata. Nothing downstream asks for the
// architecture's name again: differences between families are values of these fields (model/families.cpp).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/metadata.h"

namespace rocmforge {

enum class NormKind : uint8_t { rms, layer };

// Where a layer normalises: what goes into attention and feed-forward, what comes out of them, or both. `shared` is one
// norm for both of them: they read the same input and their outputs are added together (parallel residual).
enum class NormPlacement : uint8_t { before, before_and_after, after, shared };

// Queries and keys normalised before they are rotated: each head by itself (in some families only in some sizes), or
// the whole row.
enum class QkNorm : uint8_t { none, heads, heads_if_present, row };

// Which elements of a head turn together: neighbours (2i, 2i+1), or halves (i, i + n/2).
enum class RopePairs : uint8_t { neighbours, halves };

enum class RopeScaling : uint8_t { none, linear, yarn };

// silu and gelu (by tanh) as usual; clamped_swish is gpt-oss's: x * sigmoid(1.702 x) of a gate clamped to at most 7,
// times 1 plus an up clamped to -7 .. 7.
enum class Activation : uint8_t { silu, gelu, clamped_swish };

// How a router's logits become probabilities: over all experts, each by itself, or over the chosen ones.
enum class Gating : uint8_t { softmax, sigmoid, softmax_of_chosen };

// How the rows of a text become one embedding: their mean, or the last one.
enum class Pooling : uint8_t { mean, last };

struct RopeSpec {
  RopePairs pairs = RopePairs::neighbours;
  uint32_t n_dims = 0;  // of each head; the rest stays as it is
  float base = 10000.0f;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0f;            // context extension
  uint32_t original_context = 0;  // the context the model was trained with before it was extended
  float attention_factor = 1.0f;  // rotated values grow by this; with yarn, times 1 + 0.1 ln(factor)
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

struct ExpertSpec {
  uint32_t n_experts = 0;  // 0: a dense model
  uint32_t n_used = 0;
  uint32_t width = 0;           // of each expert's hidden layer
  uint32_t shared_width = 0;    // of the expert that every row uses; 0: none
  uint32_t n_dense_layers = 0;  // layers before the first with experts
  Gating gating = Gating::softmax;
  bool normalise_weights = true;  // the used experts' weights are made to sum to one
  float scale = 1;                // and multiplied by this
};

struct ModelSpec {
  std::string architecture;
  std::string name;
  uint32_t n_layers = 0;
  uint32_t n_blocks = 0;  // in the file: n_layers, then those that predict further tokens, which are not run
  uint32_t n_vocab = 0;
  uint32_t n_context = 0;  // that the model was trained for
  uint32_t width = 0;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_size = 0;  // of keys, queries and values
  uint32_t ff_width = 0;
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::before;
  float norm_epsilon = 0;
  Activation activation = Activation::silu;
  bool gated = true;  // feed-forward with gate and up, else with up alone
  ExpertSpec experts;

  bool learned_positions = false;
  bool has_rope = true;
  RopeSpec rope;
  RopeSpec window_rope;  // in layers with a window
  uint32_t window = 0;   // positions that a windowed layer looks back, itself included; 0: no such layers
  uint32_t window_period =
      0;  // the last layer of every `window_period` looks at everything, the others have the window
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false;  // biases are required; elsewhere they are used when present
  bool has_sinks = false;
  float attention_scale = 0;
  float attention_softcap = 0;  // 0: none

  float embedding_scale = 1;
  float residual_scale = 1;
  float logit_scale = 1;
  float logit_softcap = 0;  // 0: none

  std::optional<Pooling> pooling;  // of embeddings, where the file says

  // The norm before feed-forward is called post_attention_norm in the file.
  bool ffn_norm_is_post_attention = false;

  bool is_mixture(uint32_t layer) const { return experts.n_experts > 0 && layer >= experts.n_dense_layers; }
  bool has_window(uint32_t layer) const { return window > 0 && layer % window_period + 1 < window_period; }
  uint32_t q_width() const { return n_heads * head_size; }
  uint32_t kv_width() const { return n_kv_heads * head_size; }
};

// Limits on what a file may claim, beyond those of the container.
inline constexpr uint32_t kMaxLayers = 1'024;
inline constexpr uint32_t kMaxVocab = 2'000'000;

// Reads and checks the hyper-parameters. Errors name the key: model_unsupported (with the architectures known, or with
// a key that changes what the model computes and is not heeded), model_hyperparameter.
Result<ModelSpec> read_model_spec(const gguf::Metadata& metadata);

// The architectures this build runs, for messages and `--help`.
std::vector<std::string_view> supported_architectures();

}  // namespace rocmforge
