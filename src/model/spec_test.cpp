#include "model/spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "gguf/reader.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::TempDir;
using testing::TinyModel;
using Change = std::function<void(gguf::HeaderBuilder&)>;

// The spec of a tiny model whose header was changed.
Result<ModelSpec> spec_of(const Change& change, const TinyModel& model = {}) {
  const TempDir dir;
  gguf::HeaderBuilder header = model.header();
  change(header);
  auto writer = gguf::GgufWriter::create(dir.file("m.gguf"), header, {.durable = false});
  EXPECT_TRUE(writer.ok());
  EXPECT_TRUE(writer->finish_sparse().ok());
  const auto file = gguf::GgufFile::open(dir.file("m.gguf"));
  EXPECT_TRUE(file.ok());
  return read_model_spec(file->metadata());
}

void expect_error(ErrorCode code, std::string_view names, const Change& change, const TinyModel& model = {}) {
  const auto spec = spec_of(change, model);
  ASSERT_FALSE(spec.ok()) << names;
  EXPECT_EQ(spec.error().code, code) << spec.error().message;
  EXPECT_NE(spec.error().message.find(names), std::string::npos) << spec.error().message;
}

TEST(ModelSpec, ReadsThePlainNumbers) {
  const auto spec = spec_of([](auto&) {});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->architecture, "llama");
  EXPECT_EQ(spec->n_layers, 3u);
  EXPECT_EQ(spec->n_vocab, 96u);
  ASSERT_EQ(spec->layers.size(), 3u);
  const LayerSpec& layer = spec->layers[0];
  EXPECT_EQ(layer.q_width(), 64u);
  EXPECT_EQ(layer.k_width(), 32u);
  EXPECT_EQ(layer.v_width(), 32u);
  EXPECT_EQ(layer.rope.pairs, RopePairs::neighbours);
  EXPECT_EQ(layer.rope.scaling, RopeScaling::none);
  EXPECT_FLOAT_EQ(spec->attention_scale, 0.25f);
  EXPECT_EQ(layer.feed_forward, FeedForward::dense);
}

TEST(ModelSpec, FamiliesDifferByTheirFields) {
  TinyModel qwen;
  qwen.architecture = "qwen2";
  const auto spec = spec_of([](auto&) {}, qwen);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->layers[0].rope.pairs, RopePairs::halves);
  EXPECT_TRUE(spec->qkv_bias);
  TinyModel mixture;
  mixture.n_experts = 4;
  mixture.n_experts_used = 2;
  EXPECT_EQ(spec_of([](auto&) {}, mixture)->layers[0].feed_forward, FeedForward::experts);
}

TEST(ModelSpec, ReadsRopeScaling) {
  const auto linear = spec_of([](auto& h) { h.set_f32("llama.rope.scaling.factor", 4.0f); });
  EXPECT_EQ(linear->layers[0].rope.scaling, RopeScaling::linear);
  const auto older = spec_of([](auto& h) { h.set_f32("llama.rope.scale_linear", 4.0f); });
  EXPECT_EQ(older->layers[0].rope, linear->layers[0].rope);
  const auto yarn = spec_of([](auto& h) {
    h.set_string("llama.rope.scaling.type", "yarn");
    h.set_f32("llama.rope.scaling.factor", 4.0f);
    h.set_u32("llama.rope.scaling.original_context_length", 64);
  });
  EXPECT_EQ(yarn->layers[0].rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(yarn->layers[0].rope.original_context, 64u);
  expect_error(ErrorCode::model_unsupported, "'mystery'",
               [](auto& h) { h.set_string("llama.rope.scaling.type", "mystery"); });
}

TEST(ModelSpec, AnUnknownArchitectureIsNamedWithTheKnownOnes) {
  expect_error(ErrorCode::model_unsupported, "'elephant' is not supported; known are llama",
               [](auto& h) { h.set_string("general.architecture", "elephant"); });
}

TEST(ModelSpec, CountsThatCannotBeAreRefusedByKey) {
  struct Case {
    const char* key;
    std::vector<uint32_t> bad;
  };
  const Case cases[] = {
      {"llama.block_count", {0, 1025, 1u << 31}},
      {"llama.context_length", {0, UINT32_MAX}},
      {"llama.embedding_length", {0, UINT32_MAX}},
      {"llama.feed_forward_length", {0, UINT32_MAX}},
      {"llama.attention.head_count", {0, 3, UINT32_MAX}},
      {"llama.attention.head_count_kv", {0, 3, 5}},
      {"llama.attention.key_length", {0, 4096}},
      {"llama.rope.dimension_count", {0, 15, 17}},
      {"llama.vocab_size", {0, 2'000'001}},
  };
  for (const Case& c : cases) {
    for (const uint32_t bad : c.bad) {
      const auto spec = spec_of([&](auto& h) { h.set_u32(c.key, bad); });
      ASSERT_FALSE(spec.ok()) << c.key << " = " << bad;
      EXPECT_TRUE(spec.error().code == ErrorCode::model_hyperparameter ||
                  spec.error().code == ErrorCode::model_unsupported)
          << spec.error().message;
    }
  }
}

TEST(ModelSpec, NumbersThatAreNotPositiveAndFiniteAreRefused) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const char* key :
       {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base", "llama.rope.scaling.factor"}) {
    for (const float bad : {0.0f, -1.0f, kNan, kInf, -kInf}) {
      expect_error(ErrorCode::model_hyperparameter, key, [&](auto& h) { h.set_f32(key, bad); });
    }
  }
}

TEST(ModelSpec, AWrongTypeIsAnErrorNotADefault) {
  expect_error(ErrorCode::gguf_key_type, "llama.block_count",
               [](auto& h) { h.set_string("llama.block_count", "three"); });
  expect_error(ErrorCode::gguf_key_type, "llama.rope.freq_base",
               [](auto& h) { h.set_string("llama.rope.freq_base", "high"); });
}

TEST(ModelSpec, PerLayerValuesMustAgreeAndSuffice) {
  const auto with = [](std::vector<uint32_t> heads) {
    return [heads](gguf::HeaderBuilder& h) {
      h.set_array("llama.attention.head_count_kv", std::span<const uint32_t>(heads));
    };
  };
  EXPECT_EQ(spec_of(with({2, 2, 2}))->layers[0].n_kv_heads, 2u);
  expect_error(ErrorCode::model_unsupported, "layers differ", with({2, 2, 1}));
  expect_error(ErrorCode::model_hyperparameter, "2 values for 3 layers", with({2, 2}));
}

TinyModel tiny(std::string architecture) {
  return {.architecture = std::move(architecture)};
}

Change set(std::string key, float value) {
  return [=](gguf::HeaderBuilder& h) { h.set_f32(key, value); };
}
Change set(std::string key, uint32_t value) {
  return [=](gguf::HeaderBuilder& h) { h.set_u32(key, value); };
}
Change set(std::string key, bool value) {
  return [=](gguf::HeaderBuilder& h) { h.set_bool(key, value); };
}
Change set(std::string key, std::vector<uint32_t> values) {
  return [=](gguf::HeaderBuilder& h) { h.set_array(key, std::span<const uint32_t>(values)); };
}

TEST(ModelSpec, LayersThatPredictFurtherTokensAreNotRun) {
  for (const char* architecture : {"glm4", "glm4moe"}) {
    const std::string key = std::string(architecture) + ".nextn_predict_layers";
    const auto spec = spec_of(set(key, 1u), tiny(architecture));
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(spec->n_layers, 2u);
    EXPECT_EQ(spec->n_blocks, 3u);
    EXPECT_EQ(spec_of(set(key, 0u), tiny(architecture))->n_layers, 3u);
    expect_error(ErrorCode::model_hyperparameter, key, set(key, 3u), tiny(architecture));
  }
}

TEST(ModelSpec, Olmo3HasWindowsInThreeOfFourLayersAndPlainRopeThere) {
  TinyModel model = tiny("olmo2");
  model.n_layers = 5;
  const auto scaled = [](gguf::HeaderBuilder& h) {
    h.set_u32("olmo2.attention.sliding_window", 16);
    h.set_string("olmo2.rope.scaling.type", "yarn");
    h.set_f32("olmo2.rope.scaling.factor", 8.0f);
    h.set_f32("olmo2.rope.scaling.attn_factor", 1.5f);
  };
  const auto spec = spec_of(scaled, model);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (uint32_t i = 0; i < 5; i++) EXPECT_EQ(spec->layers[i].window, i != 3 ? 16u : 0u) << i;
  const RopeSpec &windowed = spec->layers[0].rope, &full = spec->layers[3].rope;
  EXPECT_EQ(full.scaling, RopeScaling::yarn);
  EXPECT_EQ(windowed.scaling, RopeScaling::none);
  EXPECT_EQ(windowed.base, full.base);
  EXPECT_EQ(windowed.attention_factor, 1.0f);
  EXPECT_EQ(spec_of([](auto&) {}, model)->layers[0].window, 0u);
}

TEST(ModelSpec, WindowsMayBeListedByLayer) {
  TinyModel model = tiny("olmo2");
  model.n_layers = 5;
  const auto listed = [](std::vector<uint32_t> has_window) {
    return [=](gguf::HeaderBuilder& h) {
      h.set_u32("olmo2.attention.sliding_window", 16);
      h.set_array("olmo2.attention.sliding_window_pattern", std::span<const uint32_t>(has_window));
    };
  };
  for (const auto& pattern :
       std::vector<std::vector<uint32_t>>{{1, 1, 1, 0, 1}, {1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}, {0, 1, 1, 0, 0}}) {
    const auto spec = spec_of(listed(pattern), model);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    for (uint32_t i = 0; i < 5; i++) EXPECT_EQ(spec->layers[i].window, pattern[i] * 16) << i;
  }
  expect_error(ErrorCode::model_hyperparameter, "sliding_window_pattern", listed({1, 1, 2, 0, 1}), model);
  expect_error(ErrorCode::model_hyperparameter, "4 values for 5 layers", listed({1, 1, 1, 0}), model);
}

TEST(ModelSpec, SectionsOfTextArePlainRopeOfHalves) {
  const auto sections = [](std::vector<uint32_t> values) { return set("glm4.rope.dimension_sections", values); };
  EXPECT_EQ(spec_of([](auto&) {}, tiny("glm4"))->layers[0].rope.pairs, RopePairs::neighbours);
  EXPECT_EQ(spec_of(sections({0, 0, 0, 0}), tiny("glm4"))->layers[0].rope.pairs, RopePairs::neighbours);
  EXPECT_EQ(spec_of(sections({2, 3, 3, 0}), tiny("glm4"))->layers[0].rope.pairs, RopePairs::halves);
  expect_error(ErrorCode::model_unsupported, "'glm4.rope.dimension_sections'", sections({2, 0, 2, 2}), tiny("glm4"));
  expect_error(ErrorCode::model_unsupported, "'glm4.rope.dimension_sections'", sections({2, 2}), tiny("glm4"));
}

TEST(ModelSpec, GraniteMayDoWithoutRope) {
  const auto with = [](bool value) {
    return [=](gguf::HeaderBuilder& h) {
      h.set_f32("granite.logit_scale", 8.0f);
      h.set_bool("granite.rope.scaling.finetuned", value);
    };
  };
  EXPECT_FALSE(spec_of(with(false), tiny("granite"))->layers[0].has_rope);
  EXPECT_TRUE(spec_of(with(true), tiny("granite"))->layers[0].has_rope);
  EXPECT_TRUE(spec_of([](auto&) {})->layers[0].has_rope);
}

TEST(ModelSpec, ReadsHowEmbeddingsArePooled) {
  EXPECT_FALSE(spec_of([](auto&) {}, tiny("qwen3"))->pooling.has_value());
  EXPECT_FALSE(spec_of(set("qwen3.pooling_type", 0u), tiny("qwen3"))->pooling.has_value());
  EXPECT_EQ(spec_of(set("qwen3.pooling_type", 1u), tiny("qwen3"))->pooling, Pooling::mean);
  EXPECT_EQ(spec_of(set("qwen3.pooling_type", 3u), tiny("qwen3"))->pooling, Pooling::last);
  EXPECT_EQ(spec_of(set("qwen3.pooling_type", 2u), tiny("qwen3"))->pooling, Pooling::first);
  EXPECT_EQ(spec_of(set("qwen3.pooling_type", 4u), tiny("qwen3"))->pooling, Pooling::rank);
  expect_error(ErrorCode::model_hyperparameter, "'qwen3.pooling_type'", set("qwen3.pooling_type", 5u), tiny("qwen3"));
}

TEST(ModelSpec, AKeyThatIsNotHeededIsRefusedByName) {
  const std::pair<std::string, Change> cases[] = {
      {"attention.sliding_window", set("qwen2.attention.sliding_window", 16u)},
      {"attention.causal", set("qwen2.attention.causal", false)},
      {"attention.scale", set("qwen2.attention.scale", 0.5f)},
      {"attention.output_scale", set("qwen2.attention.output_scale", 0.5f)},
      {"attention.temperature_scale", set("qwen2.attention.temperature_scale", 0.1f)},
      {"attention.temperature_length", set("qwen2.attention.temperature_length", 64u)},
      {"attn_logit_softcapping", set("qwen2.attn_logit_softcapping", 50.0f)},
      {"final_logit_softcapping", set("qwen2.final_logit_softcapping", 30.0f)},
      {"embedding_scale", set("qwen2.embedding_scale", 12.0f)},
      {"residual_scale", set("qwen2.residual_scale", 0.2f)},
      {"logit_scale", set("qwen2.logit_scale", 0.06f)},
      {"expert_group_count", set("qwen2.expert_group_count", 4u)},
      {"swiglu_clamp_exp", set("qwen2.swiglu_clamp_exp", std::vector<uint32_t>{0, 0, 7})},
      {"nextn_predict_layers", set("qwen2.nextn_predict_layers", 1u)},
      {"rope.dimension_sections", set("qwen2.rope.dimension_sections", std::vector<uint32_t>{2, 3, 3, 0})},
      {"rope.scaling.finetuned", set("qwen2.rope.scaling.finetuned", false)},
      {"attention.causal", [](auto& h) { h.set_string("qwen2.attention.causal", "no"); }},
  };
  for (const auto& [key, change] : cases) {
    expect_error(ErrorCode::model_unsupported, "'qwen2." + key + "'", change, tiny("qwen2"));
  }
}

TEST(ModelSpec, AKeyWithoutEffectIsNoObstacle) {
  const auto spec = spec_of(
      [](gguf::HeaderBuilder& h) {
        h.set_u32("qwen2.attention.sliding_window", 256);  // the whole context
        h.set_bool("qwen2.attention.causal", true);
        h.set_f32("qwen2.attention.scale", 0.25f);  // one over the root of 16
        h.set_f32("qwen2.attn_logit_softcapping", 0.0f);
        h.set_f32("qwen2.embedding_scale", 1.0f);
        h.set_f32("qwen2.residual_scale", 0.0f);
        h.set_f32("qwen2.logit_scale", 1.0f);
        h.set_u32("qwen2.expert_group_count", 1);
        h.set_u32("qwen2.nextn_predict_layers", 0);
        h.set_u32("qwen2.pooling_type", 0);
        h.set_bool("qwen2.rope.scaling.finetuned", true);
        const std::vector<uint32_t> none = {0, 0, 0, 0};
        h.set_array("qwen2.rope.dimension_sections", std::span<const uint32_t>(none));
        h.set_array("qwen2.swiglu_clamp_exp", std::span<const uint32_t>(none));
      },
      tiny("qwen2"));
  EXPECT_TRUE(spec.ok()) << spec.error().message;
  // Files of these say windows that their models were not trained with.
  for (const char* architecture : {"llama", "phi3"}) {
    const auto ignored = spec_of(set(std::string(architecture) + ".attention.sliding_window", 16u), tiny(architecture));
    ASSERT_TRUE(ignored.ok()) << ignored.error().message;
    EXPECT_EQ(ignored->layers[0].window, 0u);
  }
}

TEST(ModelSpec, ASoftcapOfZeroIsNone) {
  const auto spec = spec_of(set("gemma3.final_logit_softcapping", 0.0f), tiny("gemma3"));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->logit_softcap, 0.0f);
}

TEST(ModelSpec, TheVocabularyMustBeTheTokenList) {
  const std::vector<std::string> tokens(95, "t");
  expect_error(ErrorCode::model_hyperparameter, "vocab_size",
               [&](auto& h) { h.set_strings("tokenizer.ggml.tokens", tokens); });
}

}  // namespace
}  // namespace rocmforge
