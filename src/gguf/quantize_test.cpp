#include "gguf/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "gguf/reader.h"
#include "gguf/synth.h"
#include "gguf/writer.h"
#include "support/support.h"
#include "tensor/codec.h"

namespace rocmforge::gguf {
namespace {

using ::rocmforge::testing::read_text;
using ::rocmforge::testing::seeded_rng;
using ::rocmforge::testing::TempDir;

std::vector<float> weights_of(const GgufFile& file, std::string_view name) {
  const TensorInfo& tensor = *file.tensor(name).value();
  std::vector<std::byte> bytes(tensor.n_bytes);
  EXPECT_TRUE(file.file(tensor.shard).read_at(bytes, tensor.offset).ok());
  std::vector<float> out(tensor.n_elements);
  decode(out, tensor.dtype, bytes);
  return out;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double differences = 0;
  double squares = 0;
  for (size_t i = 0; i < a.size(); i++) {
    differences += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    squares += double{b[i]} * b[i];
  }
  return std::sqrt(differences / squares);
}

struct NamedTensor {
  std::string name;
  std::vector<uint64_t> dims;
  std::vector<float> values;
};

// An F32 model file with these tensors.
std::string write_model(const TempDir& dir, const std::vector<NamedTensor>& tensors) {
  HeaderBuilder header;
  header.set_string("general.architecture", "llama");
  header.set_u32("llama.block_count", 1);
  header.set_string("note", "kept");
  for (const auto& tensor : tensors) header.add_tensor(tensor.name, DType::f32, tensor.dims);
  const std::string path = dir.file("in.gguf");
  auto writer = GgufWriter::create(path, header, {.durable = false});
  EXPECT_TRUE(writer.ok()) << writer.error().message;
  for (const auto& tensor : tensors) EXPECT_TRUE(writer->write(std::as_bytes(std::span(tensor.values))).ok());
  EXPECT_TRUE(writer->finish().ok());
  return path;
}

NamedTensor normal_tensor(std::string name, std::vector<uint64_t> dims) {
  auto rng = seeded_rng();
  std::normal_distribution<float> normal(0, 0.02f);
  size_t n = 1;
  for (const uint64_t dim : dims) n *= dim;
  NamedTensor out{std::move(name), std::move(dims), std::vector<float>(n)};
  for (float& v : out.values) v = normal(rng);
  return out;
}

TEST(Quantize, ConvertsWeightsAndCopiesTheRest) {
  const TempDir dir;
  const auto matrix = normal_tensor("blk.0.attn_q.weight", {256, 64});
  const auto norm = normal_tensor("blk.0.attn_norm.weight", {256});
  const std::string in = write_model(dir, {matrix, norm});
  const std::string out = dir.file("out.gguf");
  const auto report = quantize_file(in, out, *find_mix("Q8_0"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->n_tensors, 2u);
  EXPECT_EQ(report->n_converted, 1u);
  EXPECT_EQ(report->bytes_before, (256 * 64 + 256) * 4u);
  EXPECT_EQ(report->bytes_after, 256 * 64 / 32 * 34 + 256 * 4u);

  const auto file = GgufFile::open(out);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata().u32("general.file_type").value(), 7u);
  EXPECT_EQ(file->metadata().u32("general.quantization_version").value(), 2u);
  EXPECT_EQ(file->metadata().string("note").value(), "kept");
  EXPECT_EQ(file->tensor("blk.0.attn_q.weight").value()->dtype, DType::q8_0);
  EXPECT_EQ(weights_of(*file, "blk.0.attn_norm.weight"), norm.values);
  // The report is what one finds by looking.
  EXPECT_NEAR(report->relative_error, relative_error(weights_of(*file, "blk.0.attn_q.weight"), matrix.values), 1e-9);
}

// Each type with its error on near-normal weights, as a share of their size. Half of it for every bit more.
class QuantizeMix : public ::testing::TestWithParam<std::pair<const char*, double>> {};

TEST_P(QuantizeMix, LosesWhatItsBitsCost) {
  const auto& [name, expected] = GetParam();
  const TempDir dir;
  const std::string f32 = dir.file("f32.gguf");
  const std::string out = dir.file("out.gguf");
  ASSERT_TRUE(synthesize(f32, *find_shape("tiny"), *find_mix("F32")).ok());
  const Mix& mix = *find_mix(name);
  const auto report = quantize_file(f32, out, mix, {.pure = true});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_NEAR(report->relative_error, expected, 0.1 * expected);
  const auto file = GgufFile::open(out);
  ASSERT_TRUE(file.ok()) << file.error().message;
  for (const TensorInfo& tensor : file->tensors()) {
    EXPECT_EQ(tensor.dtype, tensor.n_dims == 1 ? DType::f32 : mix.base) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryEncoder, QuantizeMix,
    ::testing::Values(std::pair("F16", 0.00021), std::pair("BF16", 0.00166), std::pair("Q4_0", 0.077),
                      std::pair("Q4_1", 0.0684), std::pair("Q5_0", 0.0383), std::pair("Q5_1", 0.0332),
                      std::pair("Q8_0", 0.0051), std::pair("Q2_K", 0.256), std::pair("Q3_K", 0.139),
                      std::pair("Q4_K", 0.0684), std::pair("Q5_K", 0.0339), std::pair("Q6_K", 0.0163),
                      std::pair("IQ4_NL", 0.0713), std::pair("IQ4_XS", 0.0718), std::pair("MXFP4", 0.11)),
    [](const auto& test) { return std::string(test.param.first); });

TEST(Quantize, FollowsTheMix) {
  const TempDir dir;
  const std::string f16 = dir.file("f16.gguf");
  const std::string out = dir.file("out.gguf");
  ASSERT_TRUE(synthesize(f16, *find_shape("tiny"), *find_mix("F16")).ok());
  ASSERT_TRUE(quantize_file(f16, out, *find_mix("Q4_K_M")).ok());
  // Synthetic models take their types from the same mix.
  const std::string model = dir.file("model.gguf");
  ASSERT_TRUE(synthesize(model, *find_shape("tiny"), *find_mix("Q4_K_M"), {.sparse = true}).ok());
  const auto quantized = GgufFile::open(out);
  const auto expected = GgufFile::open(model);
  ASSERT_TRUE(quantized.ok() && expected.ok());
  for (const TensorInfo& tensor : expected->tensors()) {
    EXPECT_EQ(quantized->tensor(tensor.name).value()->dtype, tensor.dtype) << tensor.name;
  }
}

TEST(Quantize, ThreadsAndPiecesDoNotChangeTheBytes) {
  const TempDir dir;
  // More than one piece, the last one partial; rows that no piece size divides.
  const std::string in = write_model(dir, {normal_tensor("blk.0.ffn_up.weight", {768, 6000})});
  const auto run = [&](size_t n_threads) {
    const std::string out = dir.file("out.gguf");
    EXPECT_TRUE(quantize_file(in, out, *find_mix("Q4_0"), {.n_threads = n_threads}).ok());
    return read_text(out);
  };
  const std::string one = run(1);
  EXPECT_TRUE(one == run(3));

  // Against the whole tensor encoded at once.
  const auto source = GgufFile::open(in);
  const std::vector<float> weights = weights_of(*source, "blk.0.ffn_up.weight");
  std::string whole(weights.size() / 32 * 18, '\0');
  ThreadPool pool(1);
  ASSERT_TRUE(encode(std::as_writable_bytes(std::span(whole)), DType::q4_0, weights, 768, pool).ok());
  EXPECT_TRUE(one.ends_with(whole));
}

TEST(Quantize, RaggedRowsFallBack) {
  const TempDir dir;
  const std::string in =
      write_model(dir, {normal_tensor("output.weight", {96, 8}), normal_tensor("blk.0.attn_q.weight", {96, 8}),
                        normal_tensor("blk.0.attn_k.weight", {20, 8})});
  const std::string out = dir.file("out.gguf");
  const auto report = quantize_file(in, out, *find_mix("Q4_K_M"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto file = GgufFile::open(out);
  EXPECT_EQ(file->tensor("output.weight").value()->dtype, DType::q8_0);
  EXPECT_EQ(file->tensor("blk.0.attn_q.weight").value()->dtype, DType::q5_0);
  EXPECT_EQ(file->tensor("blk.0.attn_k.weight").value()->dtype, DType::f16);
}

TEST(Quantize, RefusesQuantizedWeightsUnlessAllowed) {
  const TempDir dir;
  const std::string in = dir.file("in.gguf");
  const std::string out = dir.file("out.gguf");
  ASSERT_TRUE(synthesize(in, *find_shape("tiny"), *find_mix("Q8_0")).ok());
  const auto refused = quantize_file(in, out, *find_mix("Q4_0"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().message.find("'token_embd.weight': quantized already, as q8_0"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_TRUE(quantize_file(in, out, *find_mix("Q4_0"), {.allow_requantize = true}).ok());
}

TEST(Quantize, CopiesWhatHasItsTypeAlready) {
  const TempDir dir;
  const std::string in = dir.file("in.gguf");
  const std::string out = dir.file("out.gguf");
  ASSERT_TRUE(synthesize(in, *find_shape("tiny"), *find_mix("Q4_K_M")).ok());
  const auto report = quantize_file(in, out, *find_mix("Q4_K_M"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->n_converted, 0u);
  EXPECT_TRUE(read_text(in) == read_text(out));
}

TEST(Quantize, RefusesTypesWithoutAnEncoder) {
  const TempDir dir;
  const std::string in = write_model(dir, {normal_tensor("blk.0.attn_q.weight", {256, 8})});
  const auto refused = quantize_file(in, dir.file("out.gguf"), *find_mix("IQ2_XXS"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().message.find("no encoder for iq2_xxs"), std::string::npos) << refused.error().message;
}

TEST(Quantize, NamesTheTensorWithAWeightThatIsNotFinite) {
  for (const char* mix : {"F16", "Q8_0", "Q4_K_M"}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const TempDir dir;
      auto tensor = normal_tensor("blk.0.attn_q.weight", {256, 300});
      tensor.values[70'000] = bad;
      const std::string out = dir.file("out.gguf");
      const auto refused = quantize_file(write_model(dir, {tensor}), out, *find_mix(mix));
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
      EXPECT_NE(refused.error().message.find("'blk.0.attn_q.weight': weight 70000 is "), std::string::npos)
          << refused.error().message;
      EXPECT_FALSE(std::filesystem::exists(out));
    }
  }
}

// 1e30 is a fine float and no f16, neither as a weight nor as a scale.
TEST(Quantize, NamesTheTensorWithAWeightBeyondTheFormatsRange) {
  for (const char* mix : {"F16", "Q8_0", "Q4_K_M"}) {
    const TempDir dir;
    auto tensor = normal_tensor("blk.0.attn_q.weight", {256, 300});
    tensor.values[256] = 1e30f;
    const auto refused = quantize_file(write_model(dir, {tensor}), dir.file("out.gguf"), *find_mix(mix));
    ASSERT_FALSE(refused.ok()) << mix;
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
    EXPECT_NE(refused.error().message.find("'blk.0.attn_q.weight': weight 256 is 1e+30: beyond"), std::string::npos)
        << refused.error().message;
  }
}

TEST(Quantize, JoinsSplitModels) {
  const TempDir dir;
  const auto a = normal_tensor("blk.0.attn_q.weight", {256, 8});
  const auto b = normal_tensor("blk.0.attn_k.weight", {256, 4});
  for (uint16_t number = 0; number < 2; number++) {
    HeaderBuilder header;
    if (number == 0) header.set_string("general.architecture", "llama");
    header.set_u16("split.no", number);
    header.set_u16("split.count", 2);
    header.set_i32("split.tensors.count", 2);
    const NamedTensor& tensor = number == 0 ? a : b;
    header.add_tensor(tensor.name, DType::f32, tensor.dims);
    auto writer = GgufWriter::create(dir.file(number == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf"), header,
                                     {.durable = false});
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(tensor.values))).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  const auto refused =
      quantize_file(dir.file("m-00001-of-00002.gguf"), dir.file("m-00002-of-00002.gguf"), *find_mix("Q8_0"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  const std::string out = dir.file("out.gguf");
  const auto report = quantize_file(dir.file("m-00001-of-00002.gguf"), out, *find_mix("Q8_0"));
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto file = GgufFile::open(out);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->n_shards(), 1u);
  EXPECT_EQ(file->tensors().size(), 2u);
  EXPECT_FALSE(file->metadata().has("split.count"));
  EXPECT_LT(relative_error(weights_of(*file, "blk.0.attn_k.weight"), b.values), 0.01);
}

TEST(Quantize, TellsProgress) {
  const TempDir dir;
  const std::string in = write_model(dir, {normal_tensor("blk.0.attn_q.weight", {256, 8})});
  uint64_t n_done = 0;
  ASSERT_TRUE(quantize_file(in, dir.file("out.gguf"), *find_mix("Q8_0"), {}, [&](const QuantizeProgress& p) {
                EXPECT_EQ(p.tensor, "blk.0.attn_q.weight");
                EXPECT_EQ(p.n_total, 256u * 8);
                n_done = p.n_done;
              }).ok());
  EXPECT_EQ(n_done, 256u * 8);
}

// `quantize a a` replaced a 947 MiB source without a word.
TEST(Quantize, TheInputIsNeverTheOutput) {
  const TempDir dir;
  const std::string in = write_model(dir, {normal_tensor("blk.0.attn_q.weight", {256, 8})});
  const std::string before = read_text(in);
  std::filesystem::create_symlink(in, dir.file("link.gguf"));
  std::filesystem::create_hard_link(in, dir.file("hard.gguf"));
  for (const std::string& out : {in, dir.path() + "/./" + std::filesystem::path(in).filename().string(),
                                 dir.file("link.gguf"), dir.file("hard.gguf")}) {
    const auto refused = quantize_file(in, out, *find_mix("Q8_0"));
    ASSERT_FALSE(refused.ok()) << out;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().message.find("is the input"), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(read_text(in), before);
}

TEST(Quantize, StopsWhenToldToAndLeavesNothing) {
  const TempDir dir;
  const std::string in = write_model(
      dir, {normal_tensor("blk.0.attn_q.weight", {256, 8}), normal_tensor("blk.0.attn_k.weight", {256, 8})});
  for (const bool anonymous : {true, false}) {
    bool is_stopped = false;
    const auto stopped = quantize_file(in, dir.file("out.gguf"), *find_mix("Q8_0"),
                                       {.output = {.should_stop = [&] { return is_stopped; }, .anonymous = anonymous}},
                                       [&](const QuantizeProgress&) { is_stopped = true; });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
  }
}

}  // namespace
}  // namespace rocmforge::gguf
