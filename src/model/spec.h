#pragma once
// What a model is, as plain numbers and enums read once from a file's metadata. Nothing downstream asks for the
// architecture's name again: differences between families are values of these fields (model/families.cpp).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/metadata.h"

namespace rocmforge {

enum class NormKind : uint8_t { rms, layer };

// Where a layer normalises: what goes into attention and feed-forward, what comes out of them, or both. Parallel
// residuals, where both read the same input and their outputs are added together: `shared` is one norm for both,
// `shared_unless_two` is `before` where the file has a second norm, `apart` has a norm for each, and so has
// `apart_if_two` where the file has attn_norm_2, which is attention's.
enum class NormPlacement : uint8_t { before, before_and_after, after, shared, shared_unless_two, apart, apart_if_two };

// Queries and keys normalised: each head by itself (in some families only in some sizes), each head with weights of its
// own (likewise), the whole row, or each head without weights.
enum class QkNorm : uint8_t { none, heads, heads_if_present, own_heads_if_present, row, plain_heads };

// Which elements of a head are rotated together: neighbours (2i, 2i+1), or halves (i, i + n/2).
enum class RopePairs : uint8_t { neighbours, halves };

enum class RopeScaling : uint8_t { none, linear, yarn };

// silu and gelu (by tanh) as usual; clamped_swish is gpt-oss's: x * sigmoid(1.702 x) of a gate clamped to at most 7,
// times 1 plus an up clamped to -7 .. 7. xielu has four numbers of each layer.
enum class Activation : uint8_t { silu, gelu, clamped_swish, relu, relu_squared, xielu };

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
  float log_multiplier = 0;  // 0: none; else yarn's growth is divided by 1 + 0.1 log_multiplier ln(factor)
  // How many pairs take their angle from each coordinate of a token, one range after the other or by turns. Of text the
  // first three coordinates are the position and the fourth is 0. All 0: every pair takes the position.
  std::array<uint32_t, 4> sections = {};
  bool sections_by_turns = false;
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

struct ExpertSpec {
  uint32_t n_experts = 0;  // 0: a dense model
  uint32_t n_used = 0;
  uint32_t width = 0;         // of each expert's hidden layer
  uint32_t shared_width = 0;  // of the expert that every row uses; 0: none
  Gating gating = Gating::softmax;
  bool normalise_weights = true;             // the used experts' weights are made to sum to one
  float scale = 1;                           // and multiplied by this
  float shared_scale = 1;                    // what the shared expert gives is multiplied by this
  uint32_t n_groups = 0, n_groups_used = 0;  // only experts of the best groups can be chosen; 0: no groups
  bool weighs_inputs = false;                // the weights multiply what experts read instead of what they give
  bool router_reads_input = false;           // of the layer, before attention and its norm
};

// What mixes positions: `matrix` is attn_output alone, of the normalised input.
enum class Mixer : uint8_t { none, attention, matrix };

// `by_router`: experts where the file has a router.
enum class FeedForward : uint8_t { none, dense, experts, dense_and_experts, by_router };

// x > 0: alpha_p x^2 + beta x; else alpha_n (expm1(min(x, epsilon)) - x) + beta x
struct Xielu {
  float alpha_n = 0, alpha_p = 0, beta = 0, epsilon = 0;
};

struct LayerSpec {
  Mixer mixer = Mixer::attention;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t key_size = 0;    // of a query's or key's head
  uint32_t value_size = 0;  // of a value's head
  uint32_t window = 0;      // positions it looks back, itself included; 0: all
  uint32_t chunk = 0;       // 0: none; else it sees the positions from the last multiple of this on
  bool has_rope = true;
  bool has_rope_factors = true;  // where the file has some
  RopeSpec rope;
  bool has_temperature = false;
  uint32_t cache = 0;  // the layer whose keys and values it reads: itself, or an earlier one
  FeedForward feed_forward = FeedForward::dense;
  uint32_t ff_width = 0;
  bool is_left_out = false;                 // it changes nothing, whatever tensors it has
  float expert_clamp = 0, dense_clamp = 0;  // of Activation::silu (plan/step.h); 0: none
  Xielu xielu;

  uint32_t q_width() const { return n_heads * key_size; }
  uint32_t k_width() const { return n_kv_heads * key_size; }
  uint32_t v_width() const { return n_kv_heads * value_size; }
  uint32_t attended_width() const { return n_heads * value_size; }
};

// Queries grow with their position p, after rope: by 1 + scale ln(floor((p + offset) / length) + 1).
struct Temperature {
  float scale = 0;
  uint32_t length = 0, offset = 0;
};

enum class SinkTensors : uint8_t { none, required, where_present };
enum class OutputGate : uint8_t { none, sigmoid, softplus };

struct ModelSpec {
  std::string architecture;
  std::string name;
  uint32_t n_layers = 0;
  uint32_t n_blocks = 0;  // in the file: n_layers, then those that predict further tokens, which are not run
  uint32_t n_vocab = 0;
  uint32_t n_context = 0;  // that the model was trained for
  uint32_t width = 0;
  std::vector<LayerSpec> layers;
  ExpertSpec experts;
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::before;
  bool norms_have_weights = true;
  float norm_epsilon = 0;
  Activation activation = Activation::silu;
  bool gated = true;  // feed-forward with gate and up, else with up alone

  bool learned_positions = false;
  bool has_output_bias = false;  // where present
  bool normalises_embeddings = false;
  QkNorm qk_norm = QkNorm::none;
  bool qk_norm_after_rope = false;
  bool normalises_values = false;   // each head, without weights
  bool values_may_be_keys = false;  // without attn_v values are the keys, before their norm and rope
  bool qkv_bias = false;            // biases are required; elsewhere they are used when present
  float qkv_clamp = 0;              // queries, keys and values lie within this; 0: anywhere
  SinkTensors sinks = SinkTensors::none;
  OutputGate output_gate = OutputGate::none;
  float attention_scale = 0;
  float attention_softcap = 0;       // 0: none
  float attention_output_scale = 1;  // of what attention gives
  float alibi_bias = 0;              // scores fall with distance, by slopes that follow from this; 0: they do not
  Temperature temperature;

  float embedding_scale = 1;
  float residual_scale = 1;
  float logit_scale = 1;
  float logit_softcap = 0;         // 0: none
  float dense_scale = 1;           // of a feed-forward beside experts
  uint32_t per_layer_width = 0;    // of a token's embedding for each layer; 0: none
  bool has_layer_scales = false;   // layer_output_scale, where present
  bool has_inner_norms = false;    // of what was attended to, and of the hidden layer
  bool has_shared_gate = false;    // what the shared expert gives is multiplied by a sigmoid
  bool has_weight_scales = false;  // a number beside each matrix, where present

  std::optional<Pooling> pooling;  // of embeddings, where the file says

  // How tensors are named that not all families name alike.
  std::string_view ffn_norm_name = "ffn_norm";
  std::string_view attention_post_norm_name = "post_attention_norm";
  std::string_view ffn_post_norm_name = "post_ffw_norm";
  std::string_view choice_bias_name = "exp_probs_b.bias";
  std::string_view experts_norm_name = {};  // of what experts read beside a dense feed-forward; none: the same norm
  bool experts_read_layer_input = false;    // through that norm
  bool has_branch_norms = false;            // of the feed-forward's and of the experts' outputs, and a scaled router
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
