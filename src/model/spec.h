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

// Where a layer normalises: the inputs of attention and feed-forward, their outputs, both, or the sum of the residual
// and an output (post-norm, as in BERT). The last four values are parallel residuals (both halves read the same input,
// and their outputs are added together). `shared`: one norm for both halves. `shared_unless_two`: `before` if the file
// has a second norm. `apart`: one norm for each half. `apart_if_two`: the same if the file has attn_norm_2, which is
// then attention's norm.
enum class NormPlacement : uint8_t {
  before,
  before_and_after,
  after,
  after_sum,
  shared,
  shared_unless_two,
  apart,
  apart_if_two
};

// How queries and keys are normalised: per head with shared weights (`_if_present`: only in some sizes of a family),
// per head with its own weights, per row, or per head without weights.
enum class QkNorm : uint8_t { none, heads, heads_if_present, own_heads_if_present, row, row_if_present, plain_heads };

// Which elements of a head are rotated together: neighbours (2i, 2i+1), or halves (i, i + n/2).
enum class RopePairs : uint8_t { neighbours, halves };

enum class RopeScaling : uint8_t { none, linear, yarn };

// gelu is the tanh approximation. clamped_swish (gpt-oss): g * sigmoid(1.702 g) * (1 + u), with the gate g clamped to
// at most 7 and the up projection u to -7 .. 7. xielu has four parameters per layer (Xielu).
enum class Activation : uint8_t { silu, gelu, clamped_swish, relu, relu_squared, xielu };

// How a router's logits become probabilities: softmax over all experts, sigmoid per expert, softmax over the chosen.
enum class Gating : uint8_t { softmax, sigmoid, softmax_of_chosen };

// How the rows of a text become one vector: the mean of all rows, the first row (BERT's CLS token), the last row; or
// the scores that a classifier head gives the text.
enum class Pooling : uint8_t { mean, first, last, rank };

// The head of a reranker or classifier: a hidden layer and an output layer, each optional, on a pooled row.
struct ClassifierSpec {
  Pooling pooling = Pooling::first;  // how its input is pooled
  bool has_gelu = false;             // activation of the hidden layer: gelu, else tanh
  bool has_softmax = false;          // the scores become probabilities
};

struct RopeSpec {
  RopePairs pairs = RopePairs::neighbours;
  uint32_t n_dims = 0;  // rotated elements per head; the rest of a head is not rotated
  float base = 10000.0f;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.0f;            // of context extension
  uint32_t original_context = 0;  // the context the model was trained with before it was extended
  float attention_factor = 1.0f;  // factor on rotated values; with yarn, times 1 + 0.1 ln(factor)
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  float log_multiplier = 0;  // 0: none; else yarn's factor is divided by 1 + 0.1 log_multiplier ln(factor)
  // M-RoPE: the number of pairs that use each of a token's four coordinates, in consecutive ranges or interleaved. In
  // text, coordinates 0 to 2 are the position and coordinate 3 is 0. All 0: every pair uses the position.
  std::array<uint32_t, 4> sections = {};
  bool sections_by_turns = false;
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

struct ExpertSpec {
  uint32_t n_experts = 0;  // 0: a dense model
  uint32_t n_used = 0;
  uint32_t width = 0;         // hidden width of each expert
  uint32_t shared_width = 0;  // hidden width of the shared expert, which every row uses; 0: no shared expert
  Gating gating = Gating::softmax;
  bool normalise_weights = true;             // the used experts' weights are scaled to sum to one
  float scale = 1;                           // factor on these weights
  float shared_scale = 1;                    // factor on the shared expert's output
  uint32_t n_groups = 0, n_groups_used = 0;  // experts are chosen from the n_groups_used best groups; 0: no groups
  bool weighs_inputs = false;                // the routing weights multiply the experts' inputs, not their outputs
  bool router_reads_input = false;           // the router reads the layer's input, before attention and its norm
  uint32_t latent_width = 0;  // width of the experts' inputs and outputs, by projections; 0: the model's width
};

// The sequence mixer of a layer. `matrix`: attn_output alone, applied to the normalised input. Recurrent mixers carry a
// state from row to row: a short convolution, a selective scan (Mamba), a gated delta rule; scan and delta rule follow
// a convolution. attention_and_scan: both read the same input, and their outputs are added.
enum class Mixer : uint8_t { none, attention, matrix, convolution, scan, attention_and_scan, delta };

constexpr bool has_attention(Mixer mixer) {
  return mixer == Mixer::attention || mixer == Mixer::attention_and_scan;
}
constexpr bool is_recurrent(Mixer mixer) {
  return mixer == Mixer::convolution || mixer == Mixer::scan || mixer == Mixer::attention_and_scan ||
         mixer == Mixer::delta;
}

// Sizes of the recurrent mixers; all recurrent layers of a model have the same.
struct RecurrentSpec {
  uint32_t n_taps = 0;      // of the convolution
  uint32_t conv_width = 0;  // channels of the convolution
  // Heads of the scan, or value heads of the delta rule; 0: the mixer is the convolution alone.
  uint32_t n_heads = 0, head_size = 0;
  uint32_t state_size = 0;    // scan: state elements per element of a head; delta rule: elements of a key
  uint32_t n_groups = 0;      // scan: groups of heads with common B and C; delta rule: key heads
  uint32_t step_rank = 0;     // rank of the step projection (Mamba's dt_rank); 0: steps come with the input
  bool by_element = false;    // steps and decays per element of a head (Mamba 1), else per head (Mamba 2)
  bool norms_plain = false;   // steps, B and C are normalised without weights
  bool alternates = false;    // value head j reads key head j mod n_groups, else j / (n_heads / n_groups)
  bool gate_by_head = false;  // gates and inputs are interleaved by head

  uint32_t inner() const { return n_heads * head_size; }
  uint32_t group_width() const { return n_groups * state_size; }
  // Layout of a layer's state: the convolution's last inputs, then the state of the scan or delta rule.
  uint32_t conv_state() const { return (n_taps - 1) * conv_width; }
  uint32_t state_width() const { return conv_state() + inner() * state_size; }
};

// `by_router`: experts if the file has a router for the layer, else dense.
enum class FeedForward : uint8_t { none, dense, experts, dense_and_experts, by_router };

// x > 0: alpha_p x^2 + beta x; else alpha_n (expm1(min(x, epsilon)) - x) + beta x
struct Xielu {
  float alpha_n = 0, alpha_p = 0, beta = 0, epsilon = 0;
};

struct LayerSpec {
  Mixer mixer = Mixer::attention;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t key_size = 0;           // elements of a query or key head
  uint32_t value_size = 0;         // elements of a value head
  uint32_t window = 0;             // sliding window: positions attended to, the row's own included; 0: all
  uint32_t chunk = 0;              // chunked attention: positions from the last multiple of this on; 0: all
  bool has_attention_norm = true;  // false: attention reads the layer's input as it is
  bool has_rope = true;
  bool has_rope_factors = true;  // applies only if the file has rope factors
  RopeSpec rope;
  bool has_temperature = false;
  uint32_t cache = 0;  // the layer whose keys and values this one reads: itself, or an earlier one
  FeedForward feed_forward = FeedForward::dense;
  uint32_t ff_width = 0;
  bool is_left_out = false;                 // the layer is skipped, although the file has tensors for it
  float sparse_cut = 0;                     // CutRow::factor of the dense feed-forward's gates; 0: they are not cut
  float expert_clamp = 0, dense_clamp = 0;  // Activate::clamp (plan/step.h); 0: none
  Xielu xielu;

  uint32_t q_width() const { return n_heads * key_size; }
  uint32_t k_width() const { return n_kv_heads * key_size; }
  uint32_t v_width() const { return n_kv_heads * value_size; }
  uint32_t attended_width() const { return n_heads * value_size; }
};

// After rope, a query at position p is multiplied by 1 + scale ln(floor((p + offset) / length) + 1).
struct Temperature {
  float scale = 0;
  uint32_t length = 0, offset = 0;
};

enum class SinkTensors : uint8_t { none, required, where_present };
enum class OutputGate : uint8_t { none, sigmoid, softplus, plain };

struct ModelSpec {
  std::string architecture;
  std::string name;
  uint32_t n_layers = 0;
  uint32_t n_blocks = 0;  // layers in the file: n_layers, then next-token-prediction (MTP) layers, which are not run
  uint32_t n_vocab = 0;
  uint32_t n_context = 0;  // the trained context
  uint32_t width = 0;
  std::vector<LayerSpec> layers;
  ExpertSpec experts;
  RecurrentSpec recurrent;
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::before;
  bool norms_have_weights = true;
  float norm_epsilon = 0;
  Activation activation = Activation::silu;
  bool gated = true;  // the feed-forward has gate and up projections, else up alone
  // Of a gated family's files without gates: the activation of up alone.
  std::optional<Activation> ungated_activation;

  // An encoder: every row attends to its whole text, nothing is cached, and the rows are pooled; there are no logits.
  bool attends_both_ways = false;
  bool has_token_types = false;     // the first row of token_types is added to embeddings, if the file has them
  uint32_t n_distance_buckets = 0;  // T5: of distances, each with a bias per head on attention scores; 0: none
  bool learned_positions = false;
  bool has_output_bias = false;  // if the file has one
  bool normalises_embeddings = false;
  QkNorm qk_norm = QkNorm::none;
  bool qk_norm_after_rope = false;
  bool normalises_values = false;   // per head, without weights
  bool values_may_be_keys = false;  // without attn_v, the values are the keys before norm and rope
  bool qkv_bias = false;            // biases are required; elsewhere they are used when present
  float qkv_clamp = 0;              // queries, keys and values are clamped to +- this; 0: no clamp
  SinkTensors sinks = SinkTensors::none;
  OutputGate output_gate = OutputGate::none;
  bool queries_hold_gates = false;  // attn_q holds each head's sigmoid output gate after its query
  float attention_scale = 0;
  float attention_softcap = 0;       // 0: none
  float attention_output_scale = 1;  // factor on attention's output
  float alibi_bias = 0;              // ALiBi's maximum bias, which gives the slopes (alibi_slope, plan/step.h); 0: none
  Temperature temperature;

  float embedding_scale = 1;
  float residual_scale = 1;
  float logit_scale = 1;
  float logit_softcap = 0;         // 0: none
  float dense_scale = 1;           // factor on a dense feed-forward beside experts
  uint32_t per_layer_width = 0;    // width of per-layer token embeddings (Gemma 3n, 4); 0: none
  uint32_t n_streams = 1;          // residual streams (AltUp, Gemma 3n); a layer computes the first, and corrects all
  bool has_layer_scales = false;   // layer_output_scale, if present
  bool has_inner_norms = false;    // norms before attention's output projection and before the down projection
  bool has_shared_gate = false;    // a sigmoid gate on the shared expert's output
  bool has_weight_scales = false;  // one scale per matrix, if present

  std::optional<Pooling> pooling;  // for embeddings, if the file names one
  ClassifierSpec classifier;
  bool has_embedding_layers = false;  // dense layers on the pooled row, if the file has them

  // Names of tensors that differ between families.
  std::string_view layer_prefix = "blk";
  std::string_view attention_output_name = "attn_output";
  std::string_view output_norm_name = "output_norm";  // empty: no norm after the last layer
  std::string_view ffn_norm_name = "ffn_norm";
  std::string_view attention_post_norm_name = "post_attention_norm";
  std::string_view ffn_post_norm_name = "post_ffw_norm";
  std::string_view choice_bias_name = "exp_probs_b.bias";
  std::string_view experts_norm_name = {};  // the experts' own norm beside a dense feed-forward; empty: a common norm
  bool experts_read_layer_input = false;    // the experts' norm reads the layer's input
  bool has_branch_norms = false;            // norms on the outputs of dense and experts, and a scaled router input
};

// Limits on a file's numbers, beyond those of the container.
inline constexpr uint32_t kMaxLayers = 1'024;
inline constexpr uint32_t kMaxVocab = 2'000'000;
inline constexpr uint32_t kMaxDistanceBuckets = 256;

// Reads and checks the hyper-parameters. Errors name the key: model_unsupported (an unknown architecture, with the list
// of known ones; or a key that changes the computation and that nothing has read), model_hyperparameter.
Result<ModelSpec> read_model_spec(const gguf::Metadata& metadata);

// The architectures this build runs, for messages and `--help`.
std::vector<std::string_view> supported_architectures();

}  // namespace rocmforge
