#pragma once
// The differences between architectures, one table row per architecture. A new family is a new row, plus a new field if
// the existing ones cannot express it. Rules that depend on a model's size are functions (model/family_rules.h).

#include <span>
#include <string_view>

#include "model/keys.h"
#include "model/spec.h"

namespace rocmforge {

// Which scales a family's metadata holds.
enum class Scales : uint8_t {
  none,
  granite,     // of embedding, residual and attention; logits are divided by their scale
  multiplied,  // as granite, but logits are multiplied by their scale
  gemma,       // embeddings are multiplied by sqrt(width); soft caps on attention scores and logits
};

// M-RoPE (RopeSpec::sections); it implies RopePairs::halves.
enum class Sections : uint8_t { none, optional, ranges, by_turns };

// Which layers rotate queries and keys.
enum class RopeLayers : uint8_t {
  all,
  none,
  unless_not_finetuned,  // all, or none by rope.scaling.finetuned
  not_fourth,            // not the last of every four
  not_first_of_four,
  windowed,           // the layers with a sliding window
  windowed_or_dense,  // those, and the leading dense layers
  listed,             // as attention.rope_pattern lists, if the file has it
};

// Which layers of a period have full attention, if the file gives the pattern of windows as a period.
enum class WindowOrder : uint8_t { full_last, full_first };

// Whether the used experts' weights are scaled to sum to one: a default for files without expert_weights_norm, or
// fixed.
enum class Normalise : uint8_t { if_softmax, no, always, never };

// The shared expert's width is expert_shared_feed_forward_length, else expert_shared_count times an expert's width. For
// a file with neither: no shared expert, one as wide as an expert, or one as wide as a dense layer.
enum class SharedWidth : uint8_t { none, expert, dense };

// Which layers of a family are recurrent.
enum class RecurrentLayers : uint8_t {
  none,
  all,
  without_kv_heads,
  single_blocks,  // a layer is a mixer or a feed-forward: recurrent if it has neither key-value heads nor feed-forward
  interval,       // all but the last of every full_attention_interval
};

// The steps of a selective scan: per head, part of the input projection; per head, from a low-rank projection; per
// element, from a low-rank projection.
enum class ScanSteps : uint8_t { by_head, by_head_from_few, by_element };

struct Family {
  std::string_view architecture;
  bool is_encoder = false;  // ModelSpec::attends_both_ways, whatever attention.causal says
  RopePairs rope_pairs = RopePairs::neighbours;
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::before;
  bool norms_have_weights = true;
  std::string_view ffn_norm_name = "ffn_norm";
  std::string_view attention_post_norm_name = "post_attention_norm";
  std::string_view ffn_post_norm_name = "post_ffw_norm";
  std::string_view output_norm_name = "output_norm";
  Activation activation = Activation::silu;
  bool gated = true;
  Mixer recurrent = Mixer::none;  // the mixer of recurrent layers
  RecurrentLayers recurrent_layers = RecurrentLayers::none;
  ScanSteps scan_steps = ScanSteps::by_head;
  bool groups_alternate = false;  // RecurrentSpec::alternates
  bool queries_hold_gates = false;
  bool learned_positions = false;  // instead of rope
  bool has_token_types = false;
  bool has_output_bias = false;
  bool normalises_embeddings = false;
  RopeLayers rope_layers = RopeLayers::all;
  Sections sections = Sections::none;
  bool qkv_bias = false;
  QkNorm qk_norm = QkNorm::none;
  bool qk_norm_after_rope = false;
  SinkTensors sinks = SinkTensors::none;
  OutputGate output_gate = OutputGate::none;
  float alibi_bias = 0;
  bool has_clamp = false;      // attention.clamp_kqv
  uint32_t window_period = 0;  // default for files without the key; 0: no windows
  uint32_t window = 0;         // default for files without the key; 0: no window
  WindowOrder window_order = WindowOrder::full_last;
  bool windows_are_listed = false;     // the file must list the pattern, one value per layer
  float window_rope_base = 0;          // default rope base of windowed layers; 0: that of the other layers
  bool window_rope_is_plain = false;   // windowed layers use rope without scaling
  bool ignores_window = false;         // files have the key, but the model has no window; the reference ignores it too
  bool layers_differ = false;          // in heads or feed-forward width
  bool has_next_token_layers = false;  // next-token-prediction (MTP) layers follow the others, in some sizes
  Scales scales = Scales::none;
  Gating gating = Gating::softmax;
  Normalise normalise = Normalise::if_softmax;
  SharedWidth shared_width = SharedWidth::none;
  FeedForward feed_forward = FeedForward::experts;  // of layers after the leading dense ones, in models with experts
  bool has_latent_experts = false;
  bool has_groups = false;
  bool has_shared_gate = false;
  bool has_inner_norms = false;
  bool has_weight_scales = false;
  // Sets the fields that depend on the file's numbers or the model's size (family_rules.h); null: there are none.
  Result<void> (*finish)(const Keys& keys, ModelSpec& spec) = nullptr;
};

std::span<const Family> all_families();

// The parts of the table with recurrent layers and with encoders.
std::span<const Family> recurrent_families();
std::span<const Family> encoder_families();

}  // namespace rocmforge
