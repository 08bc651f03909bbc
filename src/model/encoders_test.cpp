// Keys and tensors of encoders, embedding models and rerankers: what they mean, and what is refused by name.

#include <gtest/gtest.h>

#include <functional>

#include "gguf/reader.h"
#include "model/spec.h"
#include "model/tensors.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::TempDir;
using testing::TinyModel;
using Change = std::function<void(gguf::HeaderBuilder&)>;

constexpr uint64_t kWidth = 64;

std::unique_ptr<gguf::GgufFile> file_of(const std::string& architecture, const Change& change) {
  const TempDir dir;
  gguf::HeaderBuilder header = TinyModel{.architecture = architecture}.header();
  header.set_f32(architecture + ".attention.layer_norm_epsilon", 1e-5f);
  change(header);
  auto writer = gguf::GgufWriter::create(dir.file("m.gguf"), header, {.durable = false});
  EXPECT_TRUE(writer.ok());
  EXPECT_TRUE(writer->finish_sparse().ok());
  auto file = gguf::GgufFile::open(dir.file("m.gguf"));
  EXPECT_TRUE(file.ok());
  return std::make_unique<gguf::GgufFile>(std::move(*file));
}

Result<ModelSpec> spec_of(const std::string& architecture, const Change& change = [](auto&) {}) {
  return read_model_spec(file_of(architecture, change)->metadata());
}

void expect_refused(const Error& error, ErrorCode code, std::string_view names) {
  EXPECT_EQ(error.code, code) << error.message;
  EXPECT_NE(error.message.find(names), std::string::npos) << error.message;
}

TEST(Encoders, AttendBothWaysWhateverTheFileSays) {
  for (const bool causal : {false, true}) {
    const auto spec = spec_of("bert", [&](auto& h) { h.set_bool("bert.attention.causal", causal); });
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_TRUE(spec->attends_both_ways);
    EXPECT_FALSE(spec->layers[0].has_rope);
    EXPECT_EQ(spec->norm_placement, NormPlacement::after_sum);
    EXPECT_EQ(spec->classifier.pooling, Pooling::first);
  }
  EXPECT_FALSE(spec_of("llama")->attends_both_ways);
  EXPECT_EQ(spec_of("llama")->classifier.pooling, Pooling::last);
}

TEST(Encoders, LlamaEmbedFollowsItsFile) {
  const auto spec = [](bool causal) {
    return spec_of("llama-embed", [=](auto& h) { h.set_bool("llama-embed.attention.causal", causal); });
  };
  EXPECT_TRUE(spec(false)->attends_both_ways);
  EXPECT_FALSE(spec(true)->attends_both_ways);
  EXPECT_FALSE(spec_of("llama-embed")->attends_both_ways);
}

TEST(Encoders, ModernBertNamesItsActivation) {
  const auto with = [](const char* name) {
    return spec_of("modern-bert", [=](auto& h) { h.set_string("modern-bert.hidden_activation", name); });
  };
  EXPECT_EQ(spec_of("modern-bert")->activation, Activation::gelu);
  EXPECT_EQ(with("silu")->activation, Activation::silu);
  expect_refused(with("mish").error(), ErrorCode::model_unsupported, "'modern-bert.hidden_activation'");
  EXPECT_FALSE(spec_of("modern-bert")->layers[0].has_attention_norm);
  EXPECT_TRUE(spec_of("modern-bert")->layers[1].has_attention_norm);
}

TEST(Encoders, T5NeedsUsableBuckets) {
  const auto with = [](uint32_t n) {
    return spec_of("t5encoder", [=](auto& h) { h.set_u32("t5encoder.attention.relative_buckets_count", n); });
  };
  EXPECT_EQ(with(32)->n_distance_buckets, 32u);
  EXPECT_EQ(with(32)->attention_scale, 1);
  for (const uint32_t n : {0u, 30u, 260u, 4'000'000'000u}) {
    expect_refused(with(n).error(), ErrorCode::model_hyperparameter, "'t5encoder.attention.relative_buckets_count'");
  }
  expect_refused(spec_of("t5encoder").error(), ErrorCode::model_hyperparameter, "is missing");
  const auto other = spec_of("llama", [](auto& h) { h.set_u32("llama.attention.relative_buckets_count", 32); });
  expect_refused(other.error(), ErrorCode::model_unsupported, "'llama.attention.relative_buckets_count'");
}

Result<ModelTensors> tensors_of(const Change& change) {
  const auto file = file_of("eurobert", change);
  const auto spec = read_model_spec(file->metadata());
  EXPECT_TRUE(spec.ok()) << spec.error().message;
  return bind_tensors(*file, *spec, 16);
}

TEST(Classifiers, AreBoundByTheirShapes) {
  const auto tensors = tensors_of([](auto& h) {
    h.set_u32("eurobert.pooling_type", 4);
    h.add_tensor("cls.weight", DType::f32, {kWidth, 48});
    h.add_tensor("cls.bias", DType::f32, {48});
    h.add_tensor("cls.output.weight", DType::f32, {48, 3});
  });
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  EXPECT_EQ(tensors->classifier->n_rows, 48u);
  EXPECT_EQ(tensors->scores->n_rows, 3u);
  EXPECT_FALSE(tensors->scores_bias.has_value());
}

TEST(Classifiers, AreRefusedByNameWhereTheyAreMissingOrOdd) {
  const auto rank = [](auto& h) { h.set_u32("eurobert.pooling_type", 4); };
  expect_refused(tensors_of(rank).error(), ErrorCode::model_tensor_missing, "'eurobert.pooling_type'");
  const auto narrow = tensors_of([&](auto& h) {
    rank(h);
    h.add_tensor("cls.output.weight", DType::f32, {kWidth - 32, 2});
  });
  expect_refused(narrow.error(), ErrorCode::model_tensor_shape, "'cls.output.weight'");
  const auto vast = tensors_of([&](auto& h) {
    rank(h);
    h.add_tensor("cls.output.weight", DType::f32, {kWidth, 70'000});
  });
  expect_refused(vast.error(), ErrorCode::model_tensor_shape, "70000 outputs");
  const auto unused = tensors_of([](auto& h) { h.add_tensor("dense_2.weight", DType::f32, {kWidth, 8}); });
  expect_refused(unused.error(), ErrorCode::model_unsupported, "'dense_2.weight'");
}

}  // namespace
}  // namespace rocmforge
