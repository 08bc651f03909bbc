// Families whose rows attend both ways: embedding models, rerankers and classifiers.

#include <array>

#include "model/families.h"
#include "model/family_rules.h"

namespace rocmforge {
namespace {

constexpr auto kHalves = RopePairs::halves;
constexpr auto kLayerNorm = NormKind::layer;
constexpr auto kAfterSum = NormPlacement::after_sum;
constexpr auto kGelu = Activation::gelu;
constexpr std::string_view kNone = "", kAttentionOutput = "attn_output_norm", kLayerOutput = "layer_output_norm";

constexpr std::array kFamilies = {
    Family{.architecture = "bert",
           .is_encoder = true,
           .norm = kLayerNorm,
           .norm_placement = kAfterSum,
           .attention_post_norm_name = kAttentionOutput,
           .ffn_post_norm_name = kLayerOutput,
           .output_norm_name = kNone,
           .activation = kGelu,
           .gated = false,
           .learned_positions = true,
           .has_token_types = true,
           .normalises_embeddings = true},
    Family{.architecture = "nomic-bert",
           .is_encoder = true,
           .rope_pairs = kHalves,
           .norm = kLayerNorm,
           .norm_placement = kAfterSum,
           .attention_post_norm_name = kAttentionOutput,
           .ffn_post_norm_name = kLayerOutput,
           .output_norm_name = kNone,
           .has_token_types = true,
           .normalises_embeddings = true},
    Family{.architecture = "nomic-bert-moe",
           .is_encoder = true,
           .rope_pairs = kHalves,
           .norm = kLayerNorm,
           .norm_placement = kAfterSum,
           .attention_post_norm_name = kAttentionOutput,
           .ffn_post_norm_name = kLayerOutput,
           .output_norm_name = kNone,
           .activation = kGelu,
           .gated = false,
           .has_token_types = true,
           .normalises_embeddings = true,
           .normalise = Normalise::never,
           .finish = finish_nomic_bert_moe},
    Family{.architecture = "jina-bert-v2",
           .is_encoder = true,
           .norm = kLayerNorm,
           .norm_placement = kAfterSum,
           .attention_post_norm_name = kAttentionOutput,
           .ffn_post_norm_name = kLayerOutput,
           .output_norm_name = kNone,
           .activation = kGelu,
           .has_token_types = true,
           .normalises_embeddings = true,
           .rope_layers = RopeLayers::none,
           .qk_norm = QkNorm::row_if_present,
           .alibi_bias = 8},
    Family{.architecture = "jina-bert-v3",
           .is_encoder = true,
           .rope_pairs = kHalves,
           .norm = kLayerNorm,
           .norm_placement = kAfterSum,
           .attention_post_norm_name = kAttentionOutput,
           .ffn_post_norm_name = kLayerOutput,
           .output_norm_name = kNone,
           .activation = kGelu,
           .gated = false,
           .has_token_types = true,
           .normalises_embeddings = true},
    Family{.architecture = "modern-bert",
           .is_encoder = true,
           .rope_pairs = kHalves,
           .norm = kLayerNorm,
           .activation = kGelu,
           .normalises_embeddings = true,
           .window_period = 3,
           .window_order = WindowOrder::full_first,
           .window_rope_base = 10000.0f,
           .window_rope_is_plain = true,
           .finish = finish_modern_bert},
    Family{.architecture = "gemma-embedding",
           .is_encoder = true,
           .rope_pairs = kHalves,
           .norm_placement = NormPlacement::before_and_after,
           .activation = kGelu,
           .qk_norm = QkNorm::heads,
           .window_period = 6,
           .window_rope_base = 10000.0f,
           .window_rope_is_plain = true,
           .scales = Scales::gemma,
           .finish = finish_gemma_embedding},
    Family{.architecture = "eurobert", .is_encoder = true, .rope_pairs = kHalves},
    Family{.architecture = "neo-bert", .is_encoder = true, .output_norm_name = "enc.output_norm"},
    Family{.architecture = "llama-embed", .finish = finish_llama_embed},
    Family{.architecture = "t5encoder",
           .is_encoder = true,
           .output_norm_name = "enc.output_norm",
           .activation = kGelu,
           .rope_layers = RopeLayers::none,
           .finish = finish_t5encoder},
};

}  // namespace

std::span<const Family> encoder_families() {
  return kFamilies;
}

}  // namespace rocmforge
