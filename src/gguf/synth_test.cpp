#include "gguf/synth.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "gguf/random_blocks.h"
#include "gguf/reader.h"
#include "support/support.h"
#include "tensor/codec.h"

namespace rocmforge::gguf {
namespace {

using ::rocmforge::testing::read_text;
using ::rocmforge::testing::TempDir;

uint64_t n_parameters(const Shape& shape) {
  uint64_t n = 0;
  for (const ShapeTensor& tensor : shape_tensors(shape)) {
    uint64_t product = 1;
    for (const uint64_t dim : tensor.dims) product *= dim;
    n += product;
  }
  return n;
}

TEST(Shapes, HaveTheParameterCountsOfTheRealModels) {
  // As published; Llama 3 without its rope factors.
  const std::pair<const char*, uint64_t> known[] = {
      {"qwen2-0.5b", 494'032'768},   {"llama-1b", 1'235'814'400}, {"llama-3b", 3'212'749'824},
      {"llama-8b", 8'030'261'248},   {"qwen2-7b", 7'615'616'512}, {"qwen3-30b-a3b", 30'532'122'624},
      {"llama-70b", 70'553'706'496}, {"bert-base", 108'891'648},  {"qwen3-embedding-0.6b", 595'776'512},
  };
  for (const auto& [name, n] : known) EXPECT_EQ(n_parameters(*find_shape(name)), n) << name;
  EXPECT_EQ(find_shape("llama-9b"), nullptr);
}

TEST(Shapes, OfMixedLayersHaveThePublishedNumbersOfParameters) {
  const std::pair<const char*, double> known[] = {
      {"qwen3.6-35b-a3b", 35e9}, {"qwen3.6-27b", 27e9}, {"nemotron-3-nano", 31.6e9}, {"gemma4-26b-a4b", 25.2e9}};
  for (const auto& [name, n] : known) {
    EXPECT_NEAR(static_cast<double>(n_parameters(*find_shape(name))), n, 0.012 * n) << name;
  }
}

class RandomBlocks : public ::testing::TestWithParam<DTypeInfo> {};

TEST_P(RandomBlocks, AreFiniteCentredAndOfTheRightWidth) {
  const DTypeInfo info = GetParam();
  RandomBits random(7);
  const size_t n_blocks = 262'144 / info.block_elements;
  const auto bytes = random_blocks(info.dtype, n_blocks, random);
  ASSERT_EQ(bytes.size(), n_blocks * info.block_bytes);
  std::vector<float> values(n_blocks * info.block_elements);
  decode(values, info.dtype, bytes);
  double sum = 0;
  double sum_squares = 0;
  for (const float v : values) {
    ASSERT_TRUE(std::isfinite(v));
    sum += v;
    sum_squares += double{v} * v;
  }
  const auto n = static_cast<double>(values.size());
  const double deviation = std::sqrt(sum_squares / n);
  // Some formats have only powers of two as scales.
  EXPECT_GT(deviation, 0.49 * kWeightDeviation);
  EXPECT_LT(deviation, 1.5 * kWeightDeviation);
  EXPECT_LT(std::abs(sum / n), 0.5 * kWeightDeviation);
}

std::vector<DTypeInfo> weight_types() {
  std::vector<DTypeInfo> out;
  std::ranges::copy_if(all_dtypes(), std::back_inserter(out), [](const auto& i) { return i.use == DTypeUse::weight; });
  return out;
}

INSTANTIATE_TEST_SUITE_P(EveryType, RandomBlocks, ::testing::ValuesIn(weight_types()),
                         [](const auto& test) { return std::string(test.param.name); });

class SynthMix : public ::testing::TestWithParam<Mix> {};

TEST_P(SynthMix, GivesAModelThatOpensWithFiniteWeights) {
  const Mix& mix = GetParam();
  const TempDir dir;
  const std::string path = dir.file("tiny.gguf");
  const auto report = synthesize(path, *find_shape("tiny"), mix);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), report->n_tensors);
  EXPECT_EQ(file->file(0).size(), report->file_bytes);
  EXPECT_EQ(file->metadata().u32("general.file_type").value(), mix.file_type);
  uint64_t n_base = 0;
  for (const TensorInfo& tensor : file->tensors()) {
    n_base += tensor.dtype == mix.base ? 1 : 0;
    std::vector<std::byte> bytes(tensor.n_bytes);
    ASSERT_TRUE(file->file(0).read_at(bytes, tensor.offset).ok());
    std::vector<float> values(tensor.n_elements);
    decode(values, tensor.dtype, bytes);
    EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v) && std::abs(v) < 2; }))
        << tensor.name;
  }
  EXPECT_GE(n_base, 16u);
}

std::vector<Mix> mixes() {
  return {all_mixes().begin(), all_mixes().end()};
}

INSTANTIATE_TEST_SUITE_P(EveryMix, SynthMix, ::testing::ValuesIn(mixes()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Synth, TheSeedDecidesTheBytes) {
  const TempDir dir;
  const auto make = [&](uint64_t seed) {
    const std::string path = dir.file("model.gguf");
    EXPECT_TRUE(synthesize(path, *find_shape("tiny"), *find_mix("Q4_K_M"), {.seed = seed}).ok());
    return read_text(path);
  };
  const std::string first = make(1);
  EXPECT_TRUE(first == make(1));
  EXPECT_FALSE(first == make(2));
}

TEST(Synth, SparseFilesHaveTheirSizeAndNoData) {
  const TempDir dir;
  const std::string path = dir.file("big.gguf");
  const auto report = synthesize(path, *find_shape("llama-70b"), *find_mix("Q4_K_M"), {.sparse = true});
  ASSERT_TRUE(report.ok()) << report.error().message;
  struct stat s{};
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_EQ(static_cast<uint64_t>(s.st_size), report->file_bytes);
  EXPECT_GT(report->file_bytes, uint64_t{40} * 1'000'000'000);
  EXPECT_LT(s.st_blocks * 512, 8 << 20);
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensor("blk.79.ffn_down.weight").value()->dtype, DType::q6_k);
}

TEST(Synth, VocabulariesAreWholeAndDistinct) {
  const TempDir dir;
  for (const char* name :
       {"tiny", "llama-1b", "qwen2-0.5b", "qwen2-7b", "qwen3-30b-a3b", "qwen3.6-27b", "nemotron-3-nano"}) {
    const Shape& shape = *find_shape(name);
    const std::string path = dir.file(name);
    ASSERT_TRUE(synthesize(path, shape, *find_mix("Q8_0"), {.sparse = true}).ok());
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const Metadata& metadata = file->metadata();
    const auto tokens = metadata.strings("tokenizer.ggml.tokens");
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(tokens->size(), shape.n_vocabulary);
    const std::set<std::string_view> distinct(tokens->begin(), tokens->end());
    EXPECT_EQ(distinct.size(), shape.n_vocabulary) << name;
    EXPECT_EQ(metadata.find("tokenizer.ggml.token_type")->n_elements(), shape.n_vocabulary);
    EXPECT_LT(metadata.u32("tokenizer.ggml.eos_token_id").value(), shape.n_vocabulary);
    if (!metadata.has("tokenizer.ggml.merges")) continue;
    // Both halves of every merge, and what they make, are tokens.
    const auto merges = metadata.strings("tokenizer.ggml.merges");
    for (const std::string_view merge : *merges) {
      const size_t space = merge.find(' ');
      const std::string left(merge.substr(0, space));
      const std::string right(merge.substr(space + 1));
      ASSERT_TRUE(distinct.contains(left) && distinct.contains(right) && distinct.contains(left + right)) << merge;
    }
  }
}

TEST(Synth, AnErrorLeavesNoFile) {
  const TempDir dir;
  const auto report = synthesize(dir.file("missing/model.gguf"), *find_shape("tiny"), *find_mix("Q8_0"));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::file_write);
}

}  // namespace
}  // namespace rocmforge::gguf
