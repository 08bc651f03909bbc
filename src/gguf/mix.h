#pragma once
// Quantization mixes: which tensor gets which type when a model is quantized as "Q4_K_M".
//
// A mix is a base type and a few exceptions for the weights most sensitive to quantization: the output, attention's
// values, the down projection. The names, exceptions and file type ids are llama.cpp's, so that a file called Q4_K_M
// holds what users expect (except for llama.cpp's special cases for Falcon).

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace rocmforge::gguf {

// A weight's role in the model, as far as mixes distinguish roles; derived from its name.
enum class MixRole : uint8_t {
  output,
  token_embd,
  attn_v,
  attn_k,
  attn_q,
  attn_output,
  ffn_up,
  ffn_gate,
  ffn_down,
  other
};

MixRole mix_role(std::string_view tensor_name);

// The tensors of a role to which a rule applies. i is the tensor's index among the n of its role, in layer order.
enum class MixLayers : uint8_t {
  all,
  first_2,          // i < 2
  first_4,          // i < 4
  first_sixteenth,  // i < n / 16
  first_eighth,     // i < n / 8
  spread,           // the first and the last eighth, and every third between
};

enum class MixWhen : uint8_t {
  always,
  grouped_heads,  // four or more heads share one key and value
  eight_experts,  // the Mixtral shape: attention is small beside the experts
  expert_tensor,  // three dimensions: one matrix per expert
};

struct MixRule {
  MixRole role;
  MixLayers layers;
  MixWhen when;
  DType type;
};

struct Mix {
  std::string_view name;  // "Q4_K_M"
  DType base;
  uint32_t file_type;              // general.file_type
  std::span<const MixRule> rules;  // the first that applies wins; none: the base type
};

std::span<const Mix> all_mixes();

// By name, upper or lower case; "Q3_K", "Q4_K" and "Q5_K" mean their _M. Null when there is none.
const Mix* find_mix(std::string_view name);

// The facts about a model that rules test.
struct MixModel {
  uint32_t n_layers = 0;
  uint32_t n_experts = 0;
  uint32_t heads_per_kv_head = 1;
};

struct MixTensor {
  std::string_view name;
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  // dims[0] is the row length
};

// The type of each tensor, in the order of `tensors`; none for a tensor that is copied (vectors, norms, routers,
// positions...). In a model without output.weight the token embedding serves as output and gets the output's type.
// `pure`: the base type everywhere. Where the block size does not divide the row length, the type falls back
// (fallback_type).
std::vector<std::optional<DType>> plan_mix(const Mix& mix, const MixModel& model, std::span<const MixTensor> tensors,
                                           bool pure = false);

// `type`, or the nearest type whose block size divides n_per_row; in the last resort f16.
DType fallback_type(DType type, uint64_t n_per_row);

}  // namespace rocmforge::gguf
