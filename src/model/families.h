#pragma once
// What sets an architecture apart, one row each. A new family is a new row, and a new field where no row can say it.
// What follows from a model's size is a small function of the row (model/family_rules.h).

#include <span>
#include <string_view>

#include "model/keys.h"
#include "model/spec.h"

namespace rocmforge {

// Which scales a family's metadata holds.
enum class Scales : uint8_t {
  none,
  granite,     // embedding, residual, attention; logits are divided by theirs
  multiplied,  // logits are multiplied by theirs
  gemma,       // embeddings by the root of the width; caps on attention scores and logits
};

// Rope with sections (RopeSpec::sections): pairs are halves then.
enum class Sections : uint8_t { none, optional, ranges, by_turns };

// Which layers rotate queries and keys.
enum class RopeLayers : uint8_t {
  all,
  none,
  unless_not_finetuned,  // all, or none by rope.scaling.finetuned
  not_fourth,            // not the last of every four
  not_first_of_four,
  windowed,           // where the model has windows
  windowed_or_dense,  // and its leading dense layers
  listed,             // by attention.rope_pattern, where it is there
};

// Which layers have the window where a number tells how many make a period.
enum class WindowOrder : uint8_t { full_last, full_first };

// Whether the used experts' weights are made to sum to one: as expert_weights_norm says, and without it ...
enum class Normalise : uint8_t { if_softmax, no, always, never };

// The shared expert's width: expert_shared_feed_forward_length, else expert_shared_count times an expert's. Without
// either there is none, or one as wide as an expert, or as wide as a dense layer.
enum class SharedWidth : uint8_t { none, expert, dense };

struct Family {
  std::string_view architecture;
  RopePairs rope_pairs = RopePairs::neighbours;
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::before;
  bool norms_have_weights = true;
  std::string_view ffn_norm_name = "ffn_norm";
  std::string_view attention_post_norm_name = "post_attention_norm";
  Activation activation = Activation::silu;
  bool gated = true;
  bool learned_positions = false;  // instead of rope
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
  uint32_t window_period = 0;  // by default, where the file does not say; 0: no windows
  uint32_t window = 0;         // by default; 0: none unless the file says
  WindowOrder window_order = WindowOrder::full_last;
  bool windows_are_listed = false;    // the pattern must be there, one value for each layer
  float window_rope_base = 0;         // by default; 0: as in the other layers
  bool window_rope_is_plain = false;  // windowed layers rotate without scaling
  bool ignores_window = false;        // files say one that the model was not trained with; the reference ignores it too
  bool layers_differ = false;         // in heads or width
  bool has_next_token_layers = false;  // behind the others, in some sizes
  Scales scales = Scales::none;
  Gating gating = Gating::softmax;
  Normalise normalise = Normalise::if_softmax;
  SharedWidth shared_width = SharedWidth::none;
  FeedForward feed_forward = FeedForward::experts;  // of layers behind the leading dense ones, where there are experts
  bool has_groups = false;
  bool has_shared_gate = false;
  bool has_inner_norms = false;
  bool has_weight_scales = false;
  // What the file's numbers and the model's size make of the rest.
  Result<void> (*finish)(const Keys& keys, ModelSpec& spec) = nullptr;
};

std::span<const Family> all_families();

}  // namespace rocmforge
