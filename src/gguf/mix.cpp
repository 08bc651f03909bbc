#include "gguf/mix.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <tuple>

#include "base/check.h"

namespace rocmforge::gguf {
namespace {

using enum MixRole;
using enum MixLayers;
using enum MixWhen;

constexpr MixRule kQ2K[] = {
    {attn_v, all, grouped_heads, DType::q4_k},  //
    {attn_v, all, always, DType::q3_k},
    {ffn_down, all, always, DType::q3_k},
    {attn_output, all, eight_experts, DType::q5_k},
    {attn_output, all, always, DType::q3_k},
};
constexpr MixRule kQ3KS[] = {
    {attn_output, all, eight_experts, DType::q5_k},
};
constexpr MixRule kQ3KM[] = {
    {attn_v, first_2, always, DType::q5_k},  //
    {attn_v, all, always, DType::q4_k},      {ffn_down, first_sixteenth, always, DType::q5_k},
    {ffn_down, all, always, DType::q4_k},    {attn_output, all, eight_experts, DType::q5_k},
    {attn_output, all, always, DType::q4_k},
};
constexpr MixRule kQ3KL[] = {
    {attn_v, all, always, DType::q5_k},
    {ffn_down, all, always, DType::q5_k},
    {attn_output, all, eight_experts, DType::q3_k},
    {attn_output, all, always, DType::q5_k},
};
constexpr MixRule kQ4KS[] = {
    {attn_v, first_4, always, DType::q5_k},
    {ffn_down, first_eighth, always, DType::q5_k},
    {attn_output, all, eight_experts, DType::q5_k},
};
constexpr MixRule kQ4KM[] = {
    {attn_v, spread, always, DType::q6_k},
    {ffn_down, spread, always, DType::q6_k},
    {attn_output, all, eight_experts, DType::q5_k},
};
constexpr MixRule kQ5KM[] = {
    {attn_v, spread, always, DType::q6_k},
    {ffn_down, spread, always, DType::q6_k},
};
constexpr MixRule kIq4[] = {
    {attn_v, all, grouped_heads, DType::q5_k},
    {ffn_down, first_eighth, always, DType::q5_k},
    {attn_output, all, eight_experts, DType::q5_k},
};
constexpr MixRule kMxfp4Moe[] = {
    {ffn_up, all, expert_tensor, DType::mxfp4},
    {ffn_gate, all, expert_tensor, DType::mxfp4},
    {ffn_down, all, expert_tensor, DType::mxfp4},
};

// The last group has no encoder and serves synthetic models; those types need an importance matrix to be worth having.
constexpr Mix kMixes[] = {
    {"F32", DType::f32, 0, {}},          {"F16", DType::f16, 1, {}},
    {"BF16", DType::bf16, 32, {}},       {"Q4_0", DType::q4_0, 2, {}},
    {"Q4_1", DType::q4_1, 3, {}},        {"Q5_0", DType::q5_0, 8, {}},
    {"Q5_1", DType::q5_1, 9, {}},        {"Q8_0", DType::q8_0, 7, {}},
    {"Q2_K", DType::q2_k, 10, kQ2K},     {"Q3_K_S", DType::q3_k, 11, kQ3KS},
    {"Q3_K_M", DType::q3_k, 12, kQ3KM},  {"Q3_K_L", DType::q3_k, 13, kQ3KL},
    {"Q4_K_S", DType::q4_k, 14, kQ4KS},  {"Q4_K_M", DType::q4_k, 15, kQ4KM},
    {"Q5_K_S", DType::q5_k, 16, {}},     {"Q5_K_M", DType::q5_k, 17, kQ5KM},
    {"Q6_K", DType::q6_k, 18, {}},       {"IQ4_NL", DType::iq4_nl, 25, kIq4},
    {"IQ4_XS", DType::iq4_xs, 30, kIq4}, {"MXFP4_MOE", DType::q8_0, 38, kMxfp4Moe},
    {"MXFP4", DType::mxfp4, 38, {}},

    {"IQ1_S", DType::iq1_s, 24, {}},     {"IQ1_M", DType::iq1_m, 31, {}},
    {"IQ2_XXS", DType::iq2_xxs, 19, {}}, {"IQ2_XS", DType::iq2_xs, 20, {}},
    {"IQ2_S", DType::iq2_s, 28, {}},     {"IQ3_XXS", DType::iq3_xxs, 23, {}},
    {"IQ3_S", DType::iq3_s, 26, {}},     {"TQ1_0", DType::tq1_0, 36, {}},
    {"TQ2_0", DType::tq2_0, 37, {}},     {"NVFP4", DType::nvfp4, 39, {}},
    {"Q1_0", DType::q1_0, 40, {}},       {"Q2_0", DType::q2_0, 41, {}},
};

// A tensor with one of these in its name keeps its type: it is small, or its error spreads to every token.
// clang-format off
constexpr std::string_view kUntouched[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "attn_rel_b.weight",
    "altup", "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight",
    "indexer.k_proj.weight", "indexer.q_proj.weight",
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
    "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight",
    "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
    "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
    ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
    "a.rvq.codebook", "mm.a.code_embd",
};
// clang-format on

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_quantizable(const MixTensor& tensor) {
  if (tensor.dims[1] * tensor.dims[2] * tensor.dims[3] == 1)
    return false;  // a vector, however many dimensions it names
  if (!tensor.name.ends_with("weight")) return false;
  if (tensor.name == "position_embd.weight" || tensor.name == "token_types.weight") return false;
  return std::ranges::none_of(kUntouched, [&](std::string_view part) { return contains(tensor.name, part); });
}

// The number in "blk.N.", or nothing.
std::optional<uint32_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  uint32_t layer = 0;
  const char* digits = name.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), layer);
  return error == std::errc() && end != digits ? std::optional(layer) : std::nullopt;
}

struct Place {
  uint64_t i = 0;
  uint64_t n = 0;
};

// Where each tensor stands among those of its role. The order of a file says nothing: names do.
std::vector<Place> places(std::span<const MixTensor> tensors, const MixModel& model) {
  std::vector<size_t> by_layer(tensors.size());
  for (size_t t = 0; t < tensors.size(); t++) by_layer[t] = t;
  std::ranges::sort(by_layer, {}, [&](size_t t) { return std::tuple(layer_of(tensors[t].name), tensors[t].name); });

  std::vector<Place> out(tensors.size());
  uint64_t n_values = 0;
  uint64_t n_downs = 0;
  for (size_t t : by_layer) {
    if (!is_quantizable(tensors[t])) continue;
    const MixRole role = mix_role(tensors[t].name);
    if (role == attn_v) out[t].i = n_values++;
    if (role != ffn_down) continue;
    // A layer with experts may have several: all of them count as their layer.
    out[t] = {model.n_experts > 1 ? layer_of(tensors[t].name).value_or(0) : n_downs, model.n_layers};
    n_downs++;
  }
  for (size_t t = 0; t < tensors.size(); t++) {
    if (mix_role(tensors[t].name) == attn_v) out[t].n = n_values;
  }
  return out;
}

bool covers(MixLayers layers, Place at) {
  switch (layers) {
    case all:
      return true;
    case first_2:
      return at.i < 2;
    case first_4:
      return at.i < 4;
    case first_sixteenth:
      return at.i < at.n / 16;
    case first_eighth:
      return at.i < at.n / 8;
    case spread:
      return at.i < at.n / 8 || at.i >= 7 * at.n / 8 || (at.i - at.n / 8) % 3 == 2;
  }
  RF_UNREACHABLE("gguf: layers of a mix rule");
}

bool holds(MixWhen when, const MixModel& model, const MixTensor& tensor) {
  switch (when) {
    case always:
      return true;
    case grouped_heads:
      return model.heads_per_kv_head >= 4;
    case eight_experts:
      return model.n_experts == 8;
    case expert_tensor:
      return tensor.dims[2] > 1;
  }
  RF_UNREACHABLE("gguf: condition of a mix rule");
}

DType choose(const Mix& mix, const MixModel& model, const MixTensor& tensor, Place at, bool tied) {
  const MixRole role = mix_role(tensor.name);
  if (role == output || (tied && role == token_embd)) return mix.base == DType::q8_0 ? DType::q8_0 : DType::q6_k;
  if (model.n_experts == 8 && (role == attn_v || role == attn_k)) return DType::q8_0;
  DType type = mix.base;
  for (const MixRule& rule : mix.rules) {
    if (rule.role == role && covers(rule.layers, at) && holds(rule.when, model, tensor)) {
      type = rule.type;
      break;
    }
  }
  // In a 70B, eight heads share one value matrix: more bits for it cost next to nothing.
  const bool is_70b = model.n_layers == 80 && model.heads_per_kv_head > 1;
  if (is_70b && role == attn_v && (type == DType::q3_k || type == DType::q4_k)) return DType::q5_k;
  return type;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

MixRole mix_role(std::string_view name) {
  struct Part {
    std::string_view text;
    MixRole role;
  };
  // Fused projections hold the values, and the compressed key-value of latent attention is as sensitive.
  static constexpr Part kParts[] = {
      {"attn_qkv.weight", attn_v}, {"attn_kv_b.weight", attn_v}, {"attn_v.weight", attn_v},
      {"attn_k.weight", attn_k},   {"attn_q.weight", attn_q},    {"attn_output.weight", attn_output},
      {"ffn_up", ffn_up},          {"ffn_gate", ffn_gate},       {"ffn_down", ffn_down},
  };
  if (name == "output.weight") return output;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return token_embd;
  for (const Part& part : kParts) {
    if (contains(name, part.text)) return part.role;
  }
  return other;
}

std::span<const Mix> all_mixes() {
  return kMixes;
}

const Mix* find_mix(std::string_view name) {
  std::string wanted = upper(name);
  if (wanted == "Q3_K" || wanted == "Q4_K" || wanted == "Q5_K") wanted += "_M";
  const auto found = std::ranges::find(kMixes, std::string_view(wanted), &Mix::name);
  return found == std::end(kMixes) ? nullptr : &*found;
}

std::vector<std::optional<DType>> plan_mix(const Mix& mix, const MixModel& model, std::span<const MixTensor> tensors,
                                           bool pure) {
  const bool tied = std::ranges::none_of(tensors, [](const MixTensor& t) { return mix_role(t.name) == output; });
  const bool is_float = dtype_info(mix.base).block_elements == 1;
  const std::vector<Place> place = places(tensors, model);
  std::vector<std::optional<DType>> types(tensors.size());
  for (size_t t = 0; t < tensors.size(); t++) {
    if (!is_quantizable(tensors[t])) continue;
    const DType type = pure || is_float ? mix.base : choose(mix, model, tensors[t], place[t], tied);
    types[t] = fallback_type(type, tensors[t].dims[0]);
  }
  return types;
}

DType fallback_type(DType type, uint64_t n_per_row) {
  const auto divides = [&](DType t) { return n_per_row % dtype_info(t).block_elements == 0; };
  if (divides(type)) return type;
  DType smaller = DType::q4_0;
  if (type == DType::q4_k) smaller = DType::q5_0;
  if (type == DType::q5_k) smaller = DType::q5_1;
  if (type == DType::q6_k) smaller = DType::q8_0;
  if (dtype_info(type).name.starts_with("iq")) smaller = DType::iq4_nl;
  return divides(smaller) ? smaller : DType::f16;
}

}  // namespace rocmforge::gguf
