#pragma once
// Models of the second generator of reference material, by name; NAME+200 is a longer text for the same model. Header
// only: for tests that cross rooms.

#include <string>
#include <vector>

#include "support/golden_check.h"

namespace rocmforge::testing {

// The file of a variant; empty when absent.
inline std::string variant_file(std::string name) {
  if (const size_t at = name.find('+'); at != name.npos) name.resize(at);
  return model_file("variants/" + name);
}

// One or two for each thing that some family computes and the first ones do not.
inline const std::vector<std::string> kNewFamilies = {
    "mistral3+200",   // temperature, YaRN with a multiplier
    "qwen3vl",        // sections
    "gemma4+200",     // heads of two sizes, values out of keys, norms of values, scales of layers
    "gemma4-e2b",     // embeddings for each layer, shared caches
    "gemma3n+200",    // four residual streams, Laurel, sparse gates
    "gemma4-moe",     // dense beside experts, scales of experts, gate and up in one stack
    "llama4",         // weighed inputs of experts, norms without weights
    "exaone4",        // norms after alone
    "cohere2+200",    // windows, layers without rope
    "olmo",           // no weights in norms, clamped queries, keys and values
    "phi2",           // bias of the output
    "falcon-40b",     // parallel residual with two norms
    "bloom+200",      // ALiBi, norm of embeddings
    "stablelm-12b",   // a norm for each head, shared norm
    "qwen2moe",       // gated shared expert
    "hunyuan-dense",  // norms behind rope
    "bailingmoe2",    // groups of experts
    "nemotron",       // relu squared
    "apertus",        // xielu
    "mimo2+200",      // keys and values of different size
    "step35+200",     // gates, clamped silu, heads by layer
    "afmoe",          // gates by element
    "laguna",         // softplus
    "smallthinker",   // the router reads the layer's input, gated relu
    "grok",           // dense beside experts, caps
    "arctic",         // experts read the layer's input
    "bitnet",         // inner norms, scales of matrices
    "deci",           // layers without mixer
    "openelm",        // widths by layer
};
inline const std::vector<std::string> kMoreOfNewFamilies = {
    "mistral3",
    "qwen3vl+200",
    "qwen3vlmoe",
    "qwen2vl",
    "gemma",
    "gemma3n",
    "gemma4",
    "gemma4-e2b+200",
    "gemma4-moe+200",
    "llama4-maverick",
    "smollm3",
    "exaone4-32b",
    "exaone4-32b+200",
    "exaone4-nextn",
    "cohere2",
    "olmoe",
    "granitemoe",
    "granitemoe-shared",
    "internlm2",
    "phimoe",
    "falcon",
    "gptneox",
    "gptneox-serial",
    "bloom",
    "mpt",
    "baichuan",
    "baichuan-13b",
    "starcoder",
    "minicpm",
    "minicpm-old",
    "minicpm-longrope",
    "qwen",
    "deepseek",
    "ernie4_5",
    "ernie4_5-moe",
    "hunyuan-moe",
    "seed_oss",
    "bailingmoe",
    "dots1",
    "arcee",
    "minimax-m2",
    "mimo2",
    "step35",
    "step35-nextn",
    "step35-nextn+200",
    "exaone-moe",
    "exaone-moe+200",
    "afmoe+200",
    "pangu-embedded",
    "dbrx",
    "orion",
    "xverse",
    "command-r-plus",
    "jais2",
    "plamo3",
    "plamo3+200",
    "exaone",
    "codeshell",
    "plamo",
    "refact",
    "refact+200",
    "jais",
    "laguna+200",
    "laguna-m1",
    "cohere2moe",
    "cohere2moe+200",
    "paddleocr",
    "hunyuan_vl",
    "granite_swa",
    "granite_swa+200",
    "granite_swa-moe",
    "granite_swa-moe+200",
    "mellum",
    "mellum+200",
    "maincoder",
    "hy_v3",
};
// With recurrent layers. The first few exercise every step.
inline const std::vector<std::string> kRecurrentFamilies = {
    "lfm2+200",               // short convolutions
    "qwen35+200",             // the delta rule, gates in queries
    "mamba2+200",             // scans by head
    "mamba-falcon+200",       // scans by element, norms without weights
    "nemotron_h_moe-latent",  // layers of one block, ungated experts of another width
    "falcon-h1+200",          // attention beside a scan
};
inline const std::vector<std::string> kMoreOfRecurrentFamilies = {
    "lfm2",
    "lfm2moe",
    "lfm2moe+200",
    "qwen35",
    "qwen35-nextn",
    "qwen35-nextn+200",
    "qwen35moe",
    "qwen35moe+200",
    "qwen3next",
    "qwen3next+200",
    "qwen3next-old",
    "qwen3next-old+200",
    "nemotron_h",
    "nemotron_h+200",
    "nemotron_h_moe",
    "nemotron_h_moe+200",
    "nemotron_h_moe-latent+200",
    "nemotron_h_moe-nextn",
    "nemotron_h_moe-nextn+200",
    "granitehybrid",
    "granitehybrid+200",
    "granitehybrid-moe",
    "granitehybrid-moe+200",
    "falcon-h1",
    "mamba2",
    "mamba",
    "mamba+200",
    "mamba-falcon",
    "jamba",
    "jamba+200",
    "plamo2",
    "plamo2+200",
};

}  // namespace rocmforge::testing
