#pragma once
// What sets an architecture apart, one row each. A new family is a new row, and a new field where no row can say it.

#include <span>
#include <string_view>

#include "model/spec.h"

namespace rocmforge {

// Which scales a family's metadata holds.
enum class Scales : uint8_t {
  none,
  granite,    // embedding, residual, attention; logits are divided by theirs
  command_r,  // logits are multiplied by theirs
  gemma,      // embeddings by the root of the width; caps on attention scores and logits
};

struct Family {
  std::string_view architecture;
  RopePairs rope_pairs = RopePairs::neighbours;
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::before;
  bool ffn_norm_is_post_attention = false;
  Activation activation = Activation::silu;
  bool gated = true;
  bool learned_positions = false;  // instead of rope
  bool rope_is_optional = false;   // rope.scaling.finetuned = false: none
  bool has_sections = false;       // with rope.dimension_sections pairs are halves
  bool qkv_bias = false;
  QkNorm qk_norm = QkNorm::none;
  bool has_sinks = false;
  uint32_t window_period = 0;         // by default, where the file does not say; 0: no windows
  uint32_t window = 0;                // by default; 0: none unless the file says
  float window_rope_base = 0;         // by default; 0: as in the other layers
  bool window_rope_is_plain = false;  // windowed layers turn without scaling
  bool ignores_window = false;        // files say one that the model was not trained with; the reference ignores it too
  bool has_next_token_layers = false;  // behind the others, in some sizes
  Scales scales = Scales::none;
  Gating gating = Gating::softmax;
};

std::span<const Family> all_families();

}  // namespace rocmforge
