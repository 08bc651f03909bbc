#include "model/tensors.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::TempDir;
using testing::TinyModel;

struct Opened {
  TempDir dir;
  std::unique_ptr<gguf::GgufFile> file;
  Result<ModelTensors> tensors = ModelTensors{};
};

// Binds the tensors of a header, against the spec the header itself gives.
std::unique_ptr<Opened> bind(const gguf::HeaderBuilder& header) {
  auto opened = std::make_unique<Opened>();
  auto writer = gguf::GgufWriter::create(opened->dir.file("m.gguf"), header, {.durable = false});
  EXPECT_TRUE(writer.ok());
  EXPECT_TRUE(writer->finish_sparse().ok());
  auto file = gguf::GgufFile::open(opened->dir.file("m.gguf"));
  EXPECT_TRUE(file.ok()) << file.error().message;
  opened->file = std::make_unique<gguf::GgufFile>(std::move(*file));
  const auto spec = read_model_spec(opened->file->metadata());
  EXPECT_TRUE(spec.ok()) << spec.error().message;
  opened->tensors = bind_tensors(*opened->file, *spec, spec->n_context);
  return opened;
}

// The header of a tiny model with one tensor left out and possibly another put in.
gguf::HeaderBuilder without(const TinyModel& model, std::string_view name) {
  gguf::HeaderBuilder header;
  const TempDir dir;
  // Keys come from a full header, tensors are added anew.
  auto writer = gguf::GgufWriter::create(dir.file("keys.gguf"), model.header(), {.durable = false});
  EXPECT_TRUE(writer.ok() && writer->finish_sparse().ok());
  header.copy(gguf::GgufFile::open(dir.file("keys.gguf"))->metadata());
  model.add_tensors(header, name);
  return header;
}

void expect_error(const gguf::HeaderBuilder& header, ErrorCode code, std::string_view words) {
  const auto opened = bind(header);
  ASSERT_FALSE(opened->tensors.ok()) << words;
  EXPECT_EQ(opened->tensors.error().code, code) << opened->tensors.error().message;
  EXPECT_NE(opened->tensors.error().message.find(words), std::string::npos) << opened->tensors.error().message;
}

TEST(BindTensors, FindsEveryRole) {
  const auto opened = bind(TinyModel().header());
  ASSERT_TRUE(opened->tensors.ok()) << opened->tensors.error().message;
  const ModelTensors& t = *opened->tensors;
  EXPECT_EQ(t.layers.size(), 3u);
  EXPECT_EQ(t.layers[1].q->tensor->name, "blk.1.attn_q.weight");
  EXPECT_FALSE(t.tied);
  EXPECT_EQ(t.output.tensor->name, "output.weight");
  EXPECT_FALSE(t.layers[0].router.has_value());
}

TEST(BindTensors, TiedModelsShareTheEmbedding) {
  const auto opened = bind(TinyModel{.tied = true}.header());
  ASSERT_TRUE(opened->tensors.ok());
  EXPECT_TRUE(opened->tensors->tied);
  EXPECT_EQ(opened->tensors->output.tensor, opened->tensors->token_embedding.tensor);
}

TEST(BindTensors, EveryMissingTensorIsNamed) {
  const TinyModel dense;
  for (const char* name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.1.attn_q.weight",
        "blk.2.attn_k.weight", "blk.0.attn_v.weight", "blk.1.attn_output.weight", "blk.2.ffn_norm.weight",
        "blk.0.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.2.ffn_down.weight"}) {
    expect_error(without(dense, name), ErrorCode::model_tensor_missing, name);
  }
  const TinyModel mixture{.n_experts = 4, .n_experts_used = 2};
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.1.ffn_gate_exps.weight", "blk.2.ffn_up_exps.weight",
                           "blk.0.ffn_down_exps.weight"}) {
    expect_error(without(mixture, name), ErrorCode::model_tensor_missing, name);
  }
  const TinyModel biased{.architecture = "qwen2", .qkv_bias = true};
  expect_error(without(biased, "blk.1.attn_k.bias"), ErrorCode::model_tensor_missing, "blk.1.attn_k.bias");
}

TEST(BindTensors, AWrongShapeIsShownWithTheRightOne) {
  const TinyModel model;
  gguf::HeaderBuilder transposed = without(model, "blk.0.ffn_up.weight");
  transposed.add_tensor("blk.0.ffn_up.weight", DType::f32, {96, 64});
  expect_error(transposed, ErrorCode::model_tensor_shape, "'blk.0.ffn_up.weight': shape 96 x 64, expected 64 x 96");
  // V10: the embedding and the output must have one row per token.
  for (const uint64_t rows : {95, 97, 192}) {
    for (const char* name : {"token_embd.weight", "output.weight"}) {
      gguf::HeaderBuilder header = without(model, name);
      header.add_tensor(name, DType::f32, {64, rows});
      expect_error(header, ErrorCode::model_tensor_shape, name);
    }
  }
  gguf::HeaderBuilder deep = without(model, "output_norm.weight");
  deep.add_tensor("output_norm.weight", DType::f32, {64, 1, 1, 2});
  expect_error(deep, ErrorCode::model_tensor_shape, "output_norm.weight");
}

TEST(BindTensors, WeightsWithASeparateScaleAreRefused) {
  gguf::HeaderBuilder header = TinyModel().header();
  header.add_tensor("blk.0.attn_q.scale", DType::f32, {1});
  expect_error(header, ErrorCode::model_unsupported, "blk.0.attn_q.scale");
}

TEST(BindTensors, ATensorThatNothingUsesIsRefusedByName) {
  for (const char* name :
       {"blk.0.attn_q_norm.weight", "blk.1.ffn_gate_inp_shexp.weight", "blk.2.attn_gate.weight",
        "blk.0.ffn_up_exps.weight", "output.bias", "token_embd_norm.weight", "cls.output.weight", "dense_2.weight",
        "position_embd.weight", "blk.x.attn_q.weight", "blk.99999999999.attn_q.weight", "odd"}) {
    gguf::HeaderBuilder header = TinyModel().header();
    header.add_tensor(name, DType::f32, {64});
    expect_error(header, ErrorCode::model_unsupported, fmt::format("'{}'", name));
  }
}

TEST(BindTensors, MoreLayersThanTheKeysCountAreRefused) {
  gguf::HeaderBuilder header = TinyModel().header();
  header.set_u32("llama.block_count", 2);
  expect_error(header, ErrorCode::model_unsupported,
               "'blk.2.attn_norm.weight': key 'llama.block_count' says that there are 2 layers");
}

TEST(BindTensors, TensorsWithoutEffectAreLeftAlone) {
  gguf::HeaderBuilder header = TinyModel().header();
  for (const char* name : {"blk.0.attn_rot_embd.weight", "blk.1.attn_q.input_scale", "v.patch_embd.weight",
                           "mm.0.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
    header.add_tensor(name, DType::f32, {8});
  }
  const auto opened = bind(header);
  ASSERT_TRUE(opened->tensors.ok()) << opened->tensors.error().message;
  ASSERT_TRUE(opened->tensors->rope_factors.has_value());
  EXPECT_EQ(opened->tensors->rope_factors->tensor->name, "rope_factors_short.weight");
}

TEST(BindTensors, LayersBehindTheTrunkAreNotRead) {
  gguf::HeaderBuilder header = TinyModel{.architecture = "glm4"}.header();
  header.set_u32("glm4.nextn_predict_layers", 1);
  for (uint32_t i = 0; i < 2; i++) {
    header.add_tensor(fmt::format("blk.{}.post_attention_norm.weight", i), DType::f32, {64});
    header.add_tensor(fmt::format("blk.{}.post_ffw_norm.weight", i), DType::f32, {64});
  }
  header.add_tensor("blk.2.nextn.eh_proj.weight", DType::q4_0, {128, 64});
  const auto opened = bind(header);
  ASSERT_TRUE(opened->tensors.ok()) << opened->tensors.error().message;
  EXPECT_EQ(opened->tensors->layers.size(), 2u);
  header.add_tensor("blk.3.attn_norm.weight", DType::f32, {64});
  expect_error(header, ErrorCode::model_unsupported, "'blk.3.attn_norm.weight'");
}

TEST(BindTensors, TypesThatHoldNoWeightsAreRefused) {
  const TinyModel model;
  gguf::HeaderBuilder integers = without(model, "blk.0.attn_q.weight");
  integers.add_tensor("blk.0.attn_q.weight", DType::i32, {64, 64});
  expect_error(integers, ErrorCode::model_unsupported, "type i32 cannot hold weights");
  gguf::HeaderBuilder norm = without(model, "output_norm.weight");
  norm.add_tensor("output_norm.weight", DType::q8_0, {64});
  expect_error(norm, ErrorCode::model_unsupported, "a vector of type q8_0");
}

}  // namespace
}  // namespace rocmforge
