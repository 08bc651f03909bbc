// The engine's numbers against the reference's: tiny random models of every family and geometry, the same model in
// every common weight type, and two trained models. Tolerances are those of the goldens' README.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/golden.h"
#include "support/loaded_model.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using testing::evaluate_all;
using testing::Golden;
using testing::LoadedModel;
using testing::Nmse;

double nmse_at_golden_positions(const std::vector<float>& logits, const Golden& golden) {
  const size_t n_vocab = golden.logits.begin()->second.size();
  Nmse nmse;
  for (const auto& [position, reference] : golden.logits) {
    nmse.add(std::span(logits).subspan(position * n_vocab, n_vocab), reference);
  }
  return nmse.value();
}

// Ours may leave the reference's path only where its two best logits were too close to call (judged by our own logits,
// which lie within the tolerance of the reference's).
void expect_greedy(Session& s, std::span<const float> last_logits, const Golden& golden, bool exact) {
  std::vector<float> logits(last_logits.begin(), last_logits.end());
  for (size_t i = 0; i < golden.greedy.size(); i++) {
    const auto best = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (best != golden.greedy[i].value) {
      EXPECT_FALSE(exact) << "greedy token " << i << ": " << best << ", expected " << golden.greedy[i].value;
      EXPECT_LT(testing::relative_gap(logits), 0.02) << "greedy token " << i;
      return;
    }
    const auto next = s.evaluate(std::span(&golden.greedy[i], 1));
    ASSERT_TRUE(next.ok()) << next.error().message;
    logits.assign(next->begin(), next->end());
  }
}

void expect_golden(const std::string& model_path, const std::string& golden_path, KvType kv_type, double tolerance) {
  const Golden golden = Golden::read(golden_path);
  ASSERT_FALSE(golden.logits.empty()) << golden_path;
  const LoadedModel model = LoadedModel::open(model_path);
  if (::testing::Test::HasFailure()) return;
  Session s = model.session(kv_type);
  const std::vector<float> logits = evaluate_all(s, golden.tokens);
  ASSERT_EQ(logits.size(), golden.tokens.size() * golden.logits.begin()->second.size());
  const double nmse = nmse_at_golden_positions(logits, golden);
  ::testing::Test::RecordProperty("nmse", fmt::format("{:.3g}", nmse));
  EXPECT_LE(nmse, tolerance);
  const size_t n_vocab = golden.logits.begin()->second.size();
  expect_greedy(s, std::span(logits).last(n_vocab), golden, kv_type == KvType::f32);
}

// ---- tiny models, F32 weights ----

class TinyLogits : public ::testing::TestWithParam<std::tuple<std::string, KvType>> {};

// Small ones are in the repository; the others are made once by tests/make_goldens.py, when the reference is there.
std::string model_file(const std::string& name) {
  const std::string committed = testing::data_path("logits/" + name + ".gguf");
  if (std::filesystem::exists(committed)) return committed;
  const char* folder = std::getenv("ROCMFORGE_GOLDEN_MODELS");
  const std::string generated = std::string(folder ? folder : "") + "/" + name + ".gguf";
  return std::filesystem::exists(generated) ? generated : std::string();
}

std::string golden_file(const std::string& name) {
  const std::string committed = testing::data_path("logits/" + name + ".txt");
  if (std::filesystem::exists(committed)) return committed;
  return testing::shared_path("goldens/logits/" + name + ".txt");
}

TEST_P(TinyLogits, EqualTheReference) {
  const auto& [name, kv_type] = GetParam();
  const std::string model = model_file(name), golden = golden_file(name);
  if (model.empty() || golden.empty()) GTEST_SKIP() << "the reference for '" << name << "' is not beside the checkout";
  // The reference computes GELU from a table in half precision.
  const bool has_gelu = name.starts_with("gemma") || name.starts_with("starcoder2") || name.starts_with("gpt2");
  const double exact = has_gelu ? 1e-6 : 1e-8;
  // Here a router's second and third score for token 3 are 0.43527 and 0.43522: with f16 keys and values another expert
  // is chosen, and no rounding is better than the other.
  const double rounded = name == "qwen3moe@1003-512-800-4-1-128-2" ? 2e-5 : 1e-5;
  expect_golden(model, golden, kv_type, kv_type == KvType::f32 ? exact : rounded);
}

const char* kTinyModels[] = {
    "llama@384-64-128-2-1-32-2",
    "mixtral@384-64-128-2-1-32-2",
    "qwen3@384-64-128-2-1-32-2",
    "chatglm",
    "command-r",
    "gemma2",
    "gemma3",
    "gemma3@1003-384-800-4-2-96-2",
    "gemma3@1003-512-544-2-1-256-2",
    "gemma3@1003-512-800-4-1-128-2",
    "glm4",
    "glm4moe",
    "glm4moe@1003-384-800-4-2-96-2",
    "glm4moe@1003-512-544-2-1-256-2",
    "glm4moe@1003-512-800-4-1-128-2",
    "gpt-oss",
    "gpt-oss@1003-384-800-4-2-96-2",
    "gpt-oss@1003-512-544-2-1-256-2",
    "gpt-oss@1003-512-800-4-1-128-2",
    "gpt2",
    "granite",
    "llama",
    "llama-linear",
    "llama-tied-ropefreqs",
    "llama-yarn",
    "llama@1003-384-800-4-2-96-2",
    "llama@1003-512-544-2-1-256-2",
    "llama@1003-512-800-4-1-128-2",
    "mixtral",
    "olmo2",
    "phi3",
    "phi3-longrope",
    "phi3@1003-384-800-4-2-96-2",
    "phi3@1003-512-544-2-1-256-2",
    "phi3@1003-512-800-4-1-128-2",
    "qwen2",
    "qwen3",
    "qwen3@1003-384-800-4-2-96-2",
    "qwen3@1003-512-544-2-1-256-2",
    "qwen3@1003-512-800-4-1-128-2",
    "qwen3moe",
    "qwen3moe@1003-384-800-4-2-96-2",
    "qwen3moe@1003-512-544-2-1-256-2",
    "qwen3moe@1003-512-800-4-1-128-2",
    "starcoder2",
    "starcoder2@1003-384-800-4-2-96-2",
    "starcoder2@1003-512-544-2-1-256-2",
    "starcoder2@1003-512-800-4-1-128-2",
};

std::string test_name(std::string name) {
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Goldens, TinyLogits,
    ::testing::Combine(::testing::ValuesIn(std::vector<std::string>(std::begin(kTinyModels), std::end(kTinyModels))),
                       ::testing::Values(KvType::f32, KvType::f16)),
    [](const auto& test) {
      return test_name(std::get<0>(test.param)) + (std::get<1>(test.param) == KvType::f32 ? "_f32" : "_f16");
    });

// ---- one model in every common weight type, against its own exact logits ----

struct QuantCase {
  const char* type;
  double peer_nmse;  // llama.cpp's kernels against exact, as the goldens' README lists it
};

class QuantLogits : public ::testing::TestWithParam<QuantCase> {};

TEST_P(QuantLogits, AreAsCloseAsThePeers) {
  const std::string base = std::string("goldens/quants/llama-") + GetParam().type;
  RF_NEED_SHARED(model_path, base + ".gguf");
  RF_NEED_SHARED(golden_path, base + ".txt");
  const Golden golden = Golden::read(golden_path);
  const LoadedModel model = LoadedModel::open(model_path);
  ASSERT_FALSE(HasFailure());
  Session s = model.session(KvType::f32);
  const double nmse = nmse_at_golden_positions(evaluate_all(s, golden.tokens), golden);
  RecordProperty("nmse", fmt::format("{:.3g}", nmse));
  EXPECT_LE(nmse, 1.5 * GetParam().peer_nmse);
}

INSTANTIATE_TEST_SUITE_P(
    Goldens, QuantLogits,
    ::testing::Values(QuantCase{"F16", 8.5e-07}, QuantCase{"BF16", 4.6e-05}, QuantCase{"Q4_0", 8.5e-04},
                      QuantCase{"Q4_1", 8.6e-04}, QuantCase{"Q5_0", 9.4e-04}, QuantCase{"Q5_1", 1.1e-03},
                      QuantCase{"Q8_0", 7.9e-04}, QuantCase{"Q2_K", 1.9e-03}, QuantCase{"Q3_K_M", 1.3e-03},
                      QuantCase{"Q4_K_M", 1.9e-03}, QuantCase{"Q5_K_M", 1.8e-03}, QuantCase{"Q6_K", 1.9e-03},
                      QuantCase{"IQ4_NL", 9.5e-04}, QuantCase{"IQ4_XS", 1.7e-03}, QuantCase{"IQ3_S", 2.1e-03},
                      QuantCase{"TQ1_0", 2.1e-03}, QuantCase{"TQ2_0", 2.1e-03}),
    [](const auto& test) { return std::string(test.param.type); });

// ---- trained models ----

TEST(TrainedLogits, Stories260K) {
  RF_NEED_SHARED(model, "goldens/trained/stories260K.gguf");
  RF_NEED_SHARED(golden, "goldens/trained/stories260K.txt");
  expect_golden(model, golden, KvType::f32, 1e-8);
  expect_golden(model, golden, KvType::f16, 1e-5);
}

TEST(TrainedLogits, TinyStoriesInQ8_0) {
  RF_NEED_SHARED(model, "goldens/trained/TinyStories-656K-Q8_0.gguf");
  RF_NEED_SHARED(golden, "goldens/trained/TinyStories-656K-Q8_0.txt");
  expect_golden(model, golden, KvType::f16, 1e-3);
}

}  // namespace
}  // namespace rocmforge
