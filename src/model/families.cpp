#include "model/families.h"

#include <array>

namespace rocmforge {
namespace {

constexpr auto kHalves = RopePairs::halves;

constexpr std::array kFamilies = {
    Family{.architecture = "llama", .ignores_window = true},
    Family{.architecture = "qwen2", .rope_pairs = kHalves, .qkv_bias = true},
    Family{.architecture = "qwen3", .rope_pairs = kHalves, .qk_norm = QkNorm::heads},
    Family{.architecture = "qwen3moe", .rope_pairs = kHalves, .qk_norm = QkNorm::heads},
    Family{.architecture = "glm4",
           .norm_placement = NormPlacement::before_and_after,
           .has_sections = true,
           .has_next_token_layers = true},
    Family{.architecture = "glm4moe",
           .rope_pairs = kHalves,
           .ffn_norm_is_post_attention = true,
           .has_sections = true,
           .qk_norm = QkNorm::heads_if_present,
           .has_next_token_layers = true,
           .gating = Gating::sigmoid},
    Family{.architecture = "chatglm"},
    Family{.architecture = "gemma2",
           .rope_pairs = kHalves,
           .norm_placement = NormPlacement::before_and_after,
           .activation = Activation::gelu,
           .window_period = 2,
           .window = 4096,
           .scales = Scales::gemma},
    Family{.architecture = "gemma3",
           .rope_pairs = kHalves,
           .norm_placement = NormPlacement::before_and_after,
           .activation = Activation::gelu,
           .qk_norm = QkNorm::heads,
           .window_period = 6,
           .window_rope_base = 10000.0f,
           .window_rope_is_plain = true,
           .scales = Scales::gemma},
    Family{.architecture = "phi3", .rope_pairs = kHalves, .ignores_window = true},
    Family{.architecture = "gpt-oss",
           .rope_pairs = kHalves,
           .ffn_norm_is_post_attention = true,
           .activation = Activation::clamped_swish,
           .has_sinks = true,
           .window_period = 2,
           .gating = Gating::softmax_of_chosen},
    Family{.architecture = "granite", .rope_is_optional = true, .scales = Scales::granite},
    Family{.architecture = "olmo2",
           .rope_pairs = kHalves,
           .norm_placement = NormPlacement::after,
           .qk_norm = QkNorm::row,
           .window_period = 4,
           .window_rope_is_plain = true},
    Family{.architecture = "starcoder2",
           .rope_pairs = kHalves,
           .norm = NormKind::layer,
           .activation = Activation::gelu,
           .gated = false},
    Family{.architecture = "stablelm", .rope_pairs = kHalves, .norm = NormKind::layer},
    Family{.architecture = "command-r",
           .norm = NormKind::layer,
           .norm_placement = NormPlacement::shared,
           .scales = Scales::command_r},
    Family{.architecture = "gpt2",
           .norm = NormKind::layer,
           .activation = Activation::gelu,
           .gated = false,
           .learned_positions = true},
};

}  // namespace

std::span<const Family> all_families() {
  return kFamilies;
}

}  // namespace rocmforge
