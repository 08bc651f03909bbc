#include "gguf/mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tensor/codec.h"

namespace rocmforge::gguf {
namespace {

struct Model {
  std::vector<std::string> names;
  std::vector<MixTensor> tensors;
  MixModel facts;
};

// A llama of n layers, width 512; with experts when n_experts > 0.
Model llama(uint32_t n_layers, bool tied, uint32_t heads_per_kv_head = 1, uint32_t n_experts = 0) {
  Model m;
  m.facts = {n_layers, n_experts, heads_per_kv_head};
  std::vector<std::array<uint64_t, 4>> dims;
  const auto add = [&](std::string name, std::array<uint64_t, 4> d) {
    m.names.push_back(std::move(name));
    dims.push_back(d);
  };
  add("token_embd.weight", {512, 1000, 1, 1});
  if (!tied) add("output.weight", {512, 1000, 1, 1});
  add("output_norm.weight", {512, 1, 1, 1});
  for (uint32_t i = 0; i < n_layers; i++) {
    const std::string b = "blk." + std::to_string(i) + ".";
    add(b + "attn_norm.weight", {512, 1, 1, 1});
    add(b + "attn_q.weight", {512, 512, 1, 1});
    add(b + "attn_k.weight", {512, 128, 1, 1});
    add(b + "attn_v.weight", {512, 128, 1, 1});
    add(b + "attn_output.weight", {512, 512, 1, 1});
    if (n_experts == 0) {
      add(b + "ffn_down.weight", {1024, 512, 1, 1});
    } else {
      add(b + "ffn_gate_inp.weight", {512, n_experts, 1, 1});
      add(b + "ffn_down_exps.weight", {1024, 512, n_experts, 1});
    }
  }
  for (size_t i = 0; i < m.names.size(); i++) m.tensors.push_back({m.names[i], dims[i]});
  return m;
}

std::map<std::string, std::optional<DType>> plan(const char* mix, const Model& m, bool pure = false) {
  const auto types = plan_mix(*find_mix(mix), m.facts, m.tensors, pure);
  std::map<std::string, std::optional<DType>> out;
  for (size_t i = 0; i < types.size(); i++) out[std::string(m.tensors[i].name)] = types[i];
  return out;
}

std::set<uint32_t> layers_with(DType type, const char* tensor,
                               const std::map<std::string, std::optional<DType>>& types) {
  std::set<uint32_t> out;
  for (uint32_t i = 0; i < 1000; i++) {
    const auto found = types.find("blk." + std::to_string(i) + "." + tensor);
    if (found != types.end() && found->second == type) out.insert(i);
  }
  return out;
}

TEST(Mix, KnowsTheLayoutOfQ4KM) {
  const auto types = plan("Q4_K_M", llama(32, false));
  const std::set<uint32_t> more_bits = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31};
  EXPECT_EQ(types.at("output.weight"), DType::q6_k);
  EXPECT_EQ(types.at("token_embd.weight"), DType::q4_k);
  EXPECT_EQ(types.at("output_norm.weight"), std::nullopt);
  EXPECT_EQ(layers_with(DType::q6_k, "attn_v.weight", types), more_bits);
  EXPECT_EQ(layers_with(DType::q6_k, "ffn_down.weight", types), more_bits);
  EXPECT_EQ(layers_with(DType::q4_k, "attn_v.weight", types).size(), 32 - more_bits.size());
  EXPECT_EQ(layers_with(DType::q4_k, "attn_output.weight", types).size(), 32u);
  EXPECT_EQ(layers_with(DType::q4_k, "attn_q.weight", types).size(), 32u);
}

TEST(Mix, ChoosesByRoleAndLayer) {
  struct Case {
    const char* mix;
    const char* tensor;
    uint32_t layer;
    DType expected;
  };
  const Case cases[] = {
      {"Q2_K", "attn_v", 5, DType::q3_k},        {"Q2_K", "ffn_down", 5, DType::q3_k},
      {"Q2_K", "attn_q", 5, DType::q2_k},        {"Q2_K", "attn_output", 5, DType::q3_k},
      {"Q3_K_S", "ffn_down", 0, DType::q3_k},    {"Q3_K_S", "attn_v", 0, DType::q3_k},
      {"Q3_K_M", "attn_v", 1, DType::q5_k},      {"Q3_K_M", "attn_v", 2, DType::q4_k},
      {"Q3_K_M", "ffn_down", 1, DType::q5_k},    {"Q3_K_M", "ffn_down", 2, DType::q4_k},
      {"Q3_K_M", "attn_output", 9, DType::q4_k}, {"Q3_K_L", "attn_v", 9, DType::q5_k},
      {"Q3_K_L", "ffn_down", 9, DType::q5_k},    {"Q3_K_L", "attn_output", 9, DType::q5_k},
      {"Q4_K_S", "attn_v", 3, DType::q5_k},      {"Q4_K_S", "attn_v", 4, DType::q4_k},
      {"Q4_K_S", "ffn_down", 3, DType::q5_k},    {"Q4_K_S", "ffn_down", 4, DType::q4_k},
      {"Q5_K_S", "attn_v", 0, DType::q5_k},      {"Q5_K_M", "attn_v", 0, DType::q6_k},
      {"Q5_K_M", "attn_v", 4, DType::q5_k},      {"Q6_K", "attn_v", 0, DType::q6_k},
      {"IQ4_XS", "ffn_down", 3, DType::q5_k},    {"IQ4_XS", "ffn_down", 4, DType::iq4_xs},
      {"IQ4_XS", "attn_v", 0, DType::iq4_xs},    {"IQ4_NL", "ffn_down", 0, DType::q5_k},
      {"Q4_0", "ffn_down", 0, DType::q4_0},      {"F16", "attn_v", 0, DType::f16},
  };
  const Model model = llama(32, false);
  for (const Case& c : cases) {
    const std::string name = "blk." + std::to_string(c.layer) + "." + c.tensor + ".weight";
    EXPECT_EQ(plan(c.mix, model).at(name), c.expected) << c.mix << " " << name;
  }
}

TEST(Mix, SharedHeadsAndExpertsChangeTheChoice) {
  EXPECT_EQ(plan("Q2_K", llama(32, false, 4)).at("blk.5.attn_v.weight"), DType::q4_k);
  EXPECT_EQ(plan("IQ4_XS", llama(32, false, 4)).at("blk.5.attn_v.weight"), DType::q5_k);
  const auto eight = plan("Q4_K_M", llama(32, false, 4, 8));
  EXPECT_EQ(eight.at("blk.5.attn_v.weight"), DType::q8_0);
  EXPECT_EQ(eight.at("blk.5.attn_k.weight"), DType::q8_0);
  EXPECT_EQ(eight.at("blk.5.attn_output.weight"), DType::q5_k);
  EXPECT_EQ(eight.at("blk.5.attn_q.weight"), DType::q4_k);
  EXPECT_EQ(eight.at("blk.0.ffn_down_exps.weight"), DType::q6_k);
  EXPECT_EQ(eight.at("blk.5.ffn_gate_inp.weight"), std::nullopt);
  const auto seventy = plan("Q4_K_M", llama(80, false, 8));
  EXPECT_EQ(seventy.at("blk.10.attn_v.weight"), DType::q5_k);
  EXPECT_EQ(seventy.at("blk.0.attn_v.weight"), DType::q6_k);
  EXPECT_EQ(seventy.at("blk.10.ffn_down.weight"), DType::q4_k);
}

TEST(Mix, Mxfp4MoeTouchesExpertsOnly) {
  const auto types = plan("MXFP4_MOE", llama(4, true, 4, 32));
  EXPECT_EQ(types.at("blk.0.ffn_down_exps.weight"), DType::mxfp4);
  EXPECT_EQ(types.at("blk.0.attn_v.weight"), DType::q8_0);
  EXPECT_EQ(types.at("token_embd.weight"), DType::q8_0);
}

TEST(Mix, TiedEmbeddingTakesTheOutputsType) {
  EXPECT_EQ(plan("Q4_K_M", llama(4, true)).at("token_embd.weight"), DType::q6_k);
  EXPECT_EQ(plan("Q4_0", llama(4, true)).at("token_embd.weight"), DType::q6_k);
  EXPECT_EQ(plan("Q8_0", llama(4, true)).at("token_embd.weight"), DType::q8_0);
  EXPECT_EQ(plan("BF16", llama(4, true)).at("token_embd.weight"), DType::bf16);
}

TEST(Mix, PureIsTheBaseTypeEverywhere) {
  for (const auto& [name, type] : plan("Q4_K_M", llama(32, false), true)) {
    EXPECT_TRUE(!type || *type == DType::q4_k) << name;
  }
}

TEST(Mix, OrderOfTheFileDoesNotMatter) {
  Model model = llama(32, false);
  const auto expected = plan("Q4_K_M", model);
  std::ranges::reverse(model.tensors);
  EXPECT_EQ(plan("Q4_K_M", model), expected);
}

TEST(Mix, LeavesSmallAndSensitiveTensorsAlone) {
  for (const char* name : {"position_embd.weight", "token_types.weight", "blk.0.attn_q_norm.weight",
                           "blk.0.ffn_gate_inp.weight", "blk.0.ssm_conv1d.weight", "blk.0.attn_q.bias", "rope_freqs",
                           "v.patch_embd.weight", "blk.0.time_mix_w1.weight"}) {
    const MixTensor tensor{name, {512, 512, 1, 1}};
    EXPECT_EQ(plan_mix(*find_mix("Q8_0"), {}, {&tensor, 1})[0], std::nullopt) << name;
  }
  const MixTensor vector{"blk.0.thing.weight", {512, 1, 1, 1}};
  EXPECT_EQ(plan_mix(*find_mix("Q8_0"), {}, {&vector, 1})[0], std::nullopt);
}

TEST(Mix, RaggedRowsFallBack) {
  struct Case {
    DType type;
    uint64_t n_per_row;
    DType expected;
  };
  const Case cases[] = {
      {DType::q4_k, 256, DType::q4_k},     {DType::q4_k, 896, DType::q5_0},     {DType::q5_k, 896, DType::q5_1},
      {DType::q6_k, 896, DType::q8_0},     {DType::q2_k, 896, DType::q4_0},     {DType::q3_k, 896, DType::q4_0},
      {DType::iq4_xs, 896, DType::iq4_nl}, {DType::iq2_xxs, 32, DType::iq4_nl}, {DType::tq1_0, 32, DType::q4_0},
      {DType::q4_k, 100, DType::f16},      {DType::q8_0, 100, DType::f16},      {DType::iq4_nl, 31, DType::f16},
      {DType::mxfp4, 16, DType::f16},      {DType::f16, 7, DType::f16},         {DType::bf16, 7, DType::bf16},
      {DType::nvfp4, 96, DType::q4_0},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(fallback_type(c.type, c.n_per_row), c.expected) << dtype_info(c.type).name << " " << c.n_per_row;
  }
}

TEST(Mix, EveryWeightTypeHasOneAndNamesAreFound) {
  std::set<std::string_view> names;
  std::set<DType> bases;
  for (const Mix& mix : all_mixes()) {
    EXPECT_TRUE(names.insert(mix.name).second) << mix.name;
    EXPECT_EQ(find_mix(mix.name), &mix);
    bases.insert(mix.base);
  }
  for (const DTypeInfo& info : all_dtypes()) {
    EXPECT_EQ(bases.contains(info.dtype), info.use == DTypeUse::weight) << info.name;
    EXPECT_EQ(find_mix(info.name) != nullptr, info.use == DTypeUse::weight) << info.name;
  }
  EXPECT_EQ(find_mix("q4_k"), find_mix("Q4_K_M"));
  EXPECT_EQ(find_mix("q9_z"), nullptr);
  EXPECT_EQ(find_mix(""), nullptr);
}

}  // namespace
}  // namespace rocmforge::gguf
