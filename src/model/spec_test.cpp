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
  auto writer = gguf::GgufWriter::create(dir.file("m.gguf"), header);
  EXPECT_TRUE(writer.ok());
  EXPECT_TRUE(writer->finish_sparse().ok());
  const auto file = gguf::GgufFile::open(dir.file("m.gguf"));
  EXPECT_TRUE(file.ok());
  return read_model_spec(file->metadata());
}

void expect_error(ErrorCode code, std::string_view names, const Change& change) {
  const auto spec = spec_of(change);
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
  EXPECT_EQ(spec->q_width(), 64u);
  EXPECT_EQ(spec->kv_width(), 32u);
  EXPECT_EQ(spec->rope.pairs, RopePairs::neighbours);
  EXPECT_EQ(spec->rope.scaling, RopeScaling::none);
  EXPECT_FLOAT_EQ(spec->attention_scale, 0.25f);
  EXPECT_FALSE(spec->is_mixture(0));
}

TEST(ModelSpec, FamiliesDifferByTheirFields) {
  TinyModel qwen;
  qwen.architecture = "qwen2";
  const auto spec = spec_of([](auto&) {}, qwen);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->rope.pairs, RopePairs::halves);
  EXPECT_TRUE(spec->qkv_bias);
  TinyModel mixture;
  mixture.n_experts = 4;
  mixture.n_experts_used = 2;
  EXPECT_TRUE(spec_of([](auto&) {}, mixture)->is_mixture(0));
}

TEST(ModelSpec, ReadsRopeScaling) {
  const auto linear = spec_of([](auto& h) { h.set_f32("llama.rope.scaling.factor", 4.0f); });
  EXPECT_EQ(linear->rope.scaling, RopeScaling::linear);
  const auto older = spec_of([](auto& h) { h.set_f32("llama.rope.scale_linear", 4.0f); });
  EXPECT_EQ(older->rope, linear->rope);
  const auto yarn = spec_of([](auto& h) {
    h.set_string("llama.rope.scaling.type", "yarn");
    h.set_f32("llama.rope.scaling.factor", 4.0f);
    h.set_u32("llama.rope.scaling.original_context_length", 64);
  });
  EXPECT_EQ(yarn->rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(yarn->rope.original_context, 64u);
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
  EXPECT_EQ(spec_of(with({2, 2, 2}))->n_kv_heads, 2u);
  expect_error(ErrorCode::model_unsupported, "layers differ", with({2, 2, 1}));
  expect_error(ErrorCode::model_hyperparameter, "2 values for 3 layers", with({2, 2}));
}

TEST(ModelSpec, TheVocabularyMustBeTheTokenList) {
  const std::vector<std::string> tokens(95, "t");
  expect_error(ErrorCode::model_hyperparameter, "vocab_size",
               [&](auto& h) { h.set_strings("tokenizer.ggml.tokens", tokens); });
}

}  // namespace
}  // namespace rocmforge
