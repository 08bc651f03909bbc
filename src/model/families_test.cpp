// Keys that single families need: missing or wrong ones are refused by name.

#include "model/families.h"

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <functional>
#include <set>

#include "gguf/reader.h"
#include "model/spec.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::TempDir;
using testing::TinyModel;
using Change = std::function<void(gguf::HeaderBuilder&)>;

// A model of the family whose keys are those below, changed.
Result<ModelSpec> spec_of(const std::string& architecture, const Change& change, uint32_t n_layers = 4,
                          uint32_t n_experts = 0) {
  const TempDir dir;
  TinyModel model{.architecture = architecture, .n_layers = n_layers};
  if (n_experts > 0) model.n_experts = n_experts, model.n_experts_used = 2;
  gguf::HeaderBuilder header = model.header();
  header.set_f32(architecture + ".attention.layer_norm_epsilon", 1e-5f);
  change(header);
  auto writer = gguf::GgufWriter::create(dir.file("m.gguf"), header, {.durable = false});
  EXPECT_TRUE(writer.ok());
  EXPECT_TRUE(writer->finish_sparse().ok());
  const auto file = gguf::GgufFile::open(dir.file("m.gguf"));
  EXPECT_TRUE(file.ok());
  return read_model_spec(file->metadata());
}

Change all(std::vector<Change> changes) {
  return [=](gguf::HeaderBuilder& h) {
    for (const Change& change : changes) change(h);
  };
}
Change set(std::string key, float value) {
  return [=](gguf::HeaderBuilder& h) { h.set_f32(key, value); };
}
Change set(std::string key, uint32_t value) {
  return [=](gguf::HeaderBuilder& h) { h.set_u32(key, value); };
}
Change set(std::string key, std::vector<uint32_t> values) {
  return [=](gguf::HeaderBuilder& h) { h.set_array(key, std::span<const uint32_t>(values)); };
}
Change set(std::string key, std::vector<float> values) {
  return [=](gguf::HeaderBuilder& h) { h.set_array(key, std::span<const float>(values)); };
}
const Change kNothing = [](gguf::HeaderBuilder&) {};

struct Case {
  const char* architecture;
  const char* names;  // what the message must say
  Change change;
  uint32_t n_layers = 4, n_experts = 0;
};

TEST(Families, MissingAndWrongKeysAreRefusedByName) {
  const Change windows = all({set("mimo2.attention.sliding_window", 16u), set("step35.attention.sliding_window", 16u),
                              set("gemma4.attention.sliding_window", 16u)});
  const auto pattern = [](const char* architecture, std::vector<uint32_t> values) {
    return set(std::string(architecture) + ".attention.sliding_window_pattern", std::move(values));
  };
  const Change xielu = all({set("xielu.alpha_n", 0.5f), set("xielu.alpha_p", 0.5f), set("xielu.beta", 0.5f)});
  const Case cases[] = {
      {"qwen2vl", "'qwen2vl.rope.dimension_sections': is missing", kNothing},
      {"qwen3vl", "'qwen3vl.rope.dimension_sections': is missing", kNothing},
      {"qwen3vl", "'qwen3vl.rope.dimension_sections'",
       set("qwen3vl.rope.dimension_sections", std::vector<uint32_t>{4})},
      {"hunyuan_vl", "'hunyuan_vl.rope.dimension_sections': is missing", kNothing},
      {"hunyuan-dense", "'hunyuan-dense.rope.scaling.alpha'", set("hunyuan-dense.rope.scaling.alpha", -2.0f)},
      {"gptneox", "'gptneox.use_parallel_residual': is missing", kNothing},
      {"mpt", "'mpt.attention.max_alibi_bias': is missing", kNothing},
      {"mpt", "'mpt.attention.max_alibi_bias'", set("mpt.attention.max_alibi_bias", 0.0f)},
      {"jais", "'jais.attention.max_alibi_bias'", set("jais.attention.max_alibi_bias", 1000.0f)},
      {"olmo", "'olmo.attention.clamp_kqv'", set("olmo.attention.clamp_kqv", -1.0f)},
      {"apertus", "'xielu.alpha_n': is missing", kNothing},
      {"apertus", "'xielu.eps': is missing", xielu},
      {"apertus", "'xielu.beta': 2 values for 4 layers", all({xielu, set("xielu.beta", std::vector<float>{1, 1})})},
      {"baichuan", "'baichuan.block_count': 33 layers", kNothing, 33},
      {"mistral3", "'mistral3.attention.temperature_scale'", set("mistral3.attention.temperature_scale", -0.1f)},
      {"mistral3", "'mistral3.rope.scaling.original_context_length': is missing",
       set("mistral3.attention.temperature_scale", 0.1f)},
      {"mistral3", "'mistral3.rope.scaling.yarn_log_multiplier'",
       set("mistral3.rope.scaling.yarn_log_multiplier", -1.0f)},
      {"exaone4", "'exaone4.attention.sliding_window': is missing", kNothing, 64},
      {"gemma4", "'gemma4.attention.sliding_window': is missing", kNothing},
      {"gemma4", "'gemma4.attention.sliding_window_pattern': is missing", windows},
      {"gemma4", "'gemma4.attention.shared_kv_layers': 4 of 4 layers",
       all({windows, pattern("gemma4", {1, 0, 1, 0}), set("gemma4.attention.shared_kv_layers", 4u)})},
      {"gemma4", "'gemma4.attention.shared_kv_layers': layer 2",
       all({windows, pattern("gemma4", {1, 1, 0, 0}), set("gemma4.attention.shared_kv_layers", 2u)})},
      {"gemma3n", "'gemma3n.block_count': 20, expected more than 20", kNothing, 20},
      {"gemma3n", "'gemma3n.altup.num_inputs': 3, expected 4", set("gemma3n.altup.num_inputs", 3u), 22},
      {"gemma3n", "'gemma3n.altup.active_idx': 1, expected 0", set("gemma3n.altup.active_idx", 1u), 22},
      {"gemma3n", "'gemma3n.embedding_length_per_layer_input': 128, expected 256",
       set("gemma3n.embedding_length_per_layer_input", 128u), 22},
      {"gemma3n", "'gemma3n.attention.shared_kv_layers': 3, expected 2", set("gemma3n.attention.shared_kv_layers", 3u),
       22},
      {"gemma3n", "'gemma3n.attention.sliding_window_pattern': layer 20 cannot read the cache of layer 19",
       all({set("gemma3n.attention.sliding_window", 16u),
            pattern("gemma3n", {1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1})}),
       22},
      {"step35", "'step35.attention.sliding_window_pattern': 3 values for 4 layers",
       all({windows, pattern("step35", {1, 1, 0})})},
      {"step35", "'step35.swiglu_clamp_exp'",
       all({windows, pattern("step35", {1, 1, 1, 0}),
            set("step35.swiglu_clamp_exp", std::vector<float>{0, 0, 0, -7})})},
      {"step35", "'step35.swiglu_clamp_shexp': 2 values",
       all({windows, pattern("step35", {1, 1, 1, 0}), set("step35.swiglu_clamp_shexp", std::vector<float>{0, 0})})},
      {"mimo2", "'mimo2.attention.value_scale'",
       all({windows, pattern("mimo2", {1, 1, 1, 0}), set("mimo2.attention.value_scale", -1.0f)})},
      {"mimo2", "'mimo2.attention.head_count_kv'",
       all({windows, pattern("mimo2", {1, 1, 1, 0}),
            set("mimo2.attention.head_count_kv", std::vector<uint32_t>{2, 2, 0, 2})})},
      {"granite_swa", "'granite_swa.attention.rope_pattern': 2 in layer 0",
       all({set("granite_swa.attention.sliding_window", 16u), pattern("granite_swa", {1, 0, 1, 0}),
            set("granite_swa.attention.rope_pattern", std::vector<uint32_t>{2, 1, 1, 1})})},
      {"llama4", "'llama4.interleave_moe_layer_step': is missing", kNothing, 4, 4},
      {"ernie4_5-moe", "'ernie4_5-moe.interleave_moe_layer_step'", set("ernie4_5-moe.interleave_moe_layer_step", 0u), 4,
       4},
      {"bailingmoe2", "'bailingmoe2.expert_group_used_count': is missing", set("bailingmoe2.expert_group_count", 2u), 4,
       8},
      {"bailingmoe2", "'bailingmoe2.expert_group_count': 3 groups of 8 experts",
       all({set("bailingmoe2.expert_group_count", 3u), set("bailingmoe2.expert_group_used_count", 2u)}), 4, 8},
      {"bailingmoe2", "'bailingmoe2.expert_group_used_count'",
       all({set("bailingmoe2.expert_group_count", 4u), set("bailingmoe2.expert_group_used_count", 5u)}), 4, 8},
      {"deci", "'deci.attention.head_count_kv'",
       all({set("deci.attention.head_count", std::vector<uint32_t>{4, 4, 3, 4}),
            set("deci.attention.head_count_kv", std::vector<uint32_t>{2, 2, 2, 2})})},
      {"grok", "'grok.attention.output_scale'", set("grok.attention.output_scale", 0.0f), 4, 4},
      // What one family heeds another one refuses.
      {"llama", "'llama.embedding_length_per_layer_input'", set("llama.embedding_length_per_layer_input", 32u)},
      {"llama", "'llama.interleave_moe_layer_step'", set("llama.interleave_moe_layer_step", 2u)},
      {"llama", "'llama.rope.scaling.yarn_log_multiplier'", set("llama.rope.scaling.yarn_log_multiplier", 0.5f)},
      {"llama", "'llama.attention.clamp_kqv'", set("llama.attention.clamp_kqv", 2.0f)},
      {"llama", "'llama.attention.rope_pattern'",
       set("llama.attention.rope_pattern", std::vector<uint32_t>{1, 0, 1, 0})},
  };
  for (const Case& c : cases) {
    const std::string said = fmt::format("{}: {}", c.architecture, c.names);
    const auto spec = spec_of(c.architecture, c.change, c.n_layers, c.n_experts);
    ASSERT_FALSE(spec.ok()) << said;
    EXPECT_TRUE(spec.error().code == ErrorCode::model_hyperparameter ||
                spec.error().code == ErrorCode::model_unsupported)
        << spec.error().message;
    EXPECT_NE(spec.error().message.find(c.names), std::string::npos) << said << "\n" << spec.error().message;
  }
}

TEST(Families, EachHasOneRow) {
  std::set<std::string_view> names;
  for (const Family& family : all_families()) EXPECT_TRUE(names.insert(family.architecture).second);
  EXPECT_GE(names.size(), 80u);
}

TEST(Families, LayersReadTheCachesOfTheirKind) {
  const auto spec =
      spec_of("gemma4",
              all({set("gemma4.attention.sliding_window", 16u),
                   set("gemma4.attention.sliding_window_pattern", std::vector<uint32_t>{1, 0, 1, 0, 1, 0}),
                   set("gemma4.attention.shared_kv_layers", 2u)}),
              6);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const uint32_t expected[] = {0, 1, 2, 3, 2, 3};
  for (uint32_t i = 0; i < 6; i++) EXPECT_EQ(spec->layers[i].cache, expected[i]) << i;
}

TEST(Families, Gemma3nReadsCachesOfTheLastTwoLayersThatHaveSome) {
  const auto spec = spec_of("gemma3n", set("gemma3n.attention.sliding_window", 16u), 25);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (uint32_t i = 0; i < 25; i++) {
    EXPECT_EQ(spec->layers[i].window, (i + 1) % 5 == 0 ? 0u : 16u) << i;
    EXPECT_EQ(spec->layers[i].cache, i < 20 ? i : i == 24 ? 19u : 18u) << i;
    EXPECT_EQ(spec->layers[i].sparse_cut > 0, i < 10) << i;
  }
  EXPECT_EQ(spec->n_streams, 4u);
  EXPECT_EQ(spec->logit_softcap, 30.0f);
}

TEST(Families, WindowsComeInPeriods) {
  const auto windows_of = [](const std::string& architecture) {
    const auto spec = spec_of(architecture, set(architecture + ".attention.sliding_window", 16u), 5);
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    std::string out;
    for (const LayerSpec& layer : spec->layers) {
      out += layer.window > 0 ? 'w' : 'f';
      out += layer.has_rope ? 'r' : '-';
    }
    return out;
  };
  EXPECT_EQ(windows_of("cohere2"), "wrwrwrf-wr");
  EXPECT_EQ(windows_of("plamo3"), "wrwrwrwrwr");
  EXPECT_EQ(windows_of("laguna"), "frwrwrwrfr");
  EXPECT_EQ(windows_of("smallthinker"), "f-wrwrwrf-");
  EXPECT_EQ(windows_of("afmoe"), "wrwrwrf-wr");
  EXPECT_EQ(windows_of("exaone4"), "frfrfrfrfr");
}

}  // namespace
}  // namespace rocmforge
