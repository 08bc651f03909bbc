// The goldens on this machine's GPU; skipped where there is none. Modules are taken from ROCMFORGE_TEST_MODULES, or
// from the build folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/engine_core.h"
#include "gpu/backend.h"
#include "gpu/module.h"
#include "support/engine_fixture.h"
#include "support/golden_check.h"
#include "support/large_model.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::Golden;
using testing::LoadedModel;
using testing::QuantCase;

std::vector<std::string> folders() {
  const char* named = std::getenv("ROCMFORGE_TEST_MODULES");
  return {named != nullptr ? named : RF_MODULE_FOLDER};
}

bool has_gpu() {
  static const bool found = !gpu::find_devices(folders()).devices.empty();
  return found;
}

LoadedModel open_on_gpu(const std::string& path) {
  auto backend = gpu::open_backend("gpu", folders());
  EXPECT_TRUE(backend.ok()) << backend.error().message;
  return LoadedModel::open_on(std::move(*backend), path);
}

class GpuDevice : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuDevice, EqualsTheReference) {
  if (!has_gpu()) GTEST_SKIP() << "this machine has no GPU, or no module for it";
  const std::string path = testing::model_file(GetParam()), reference = testing::golden_file(GetParam());
  if (path.empty() || reference.empty()) GTEST_SKIP() << "the reference is not beside the checkout";
  const Golden golden = Golden::read(reference);
  const LoadedModel model = open_on_gpu(path);
  for (const KvType kv_type : {KvType::f32, KvType::f16}) {
    testing::expect_golden(model, golden, kv_type, testing::tolerance_of(GetParam(), kv_type));
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, GpuDevice, ::testing::ValuesIn(testing::kTinyModels),
                         [](const auto& test) { return testing::test_name(test.param); });

// The families of the second generator, by positions of several passes of many rows and of one.
class GpuDeviceVariants : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuDeviceVariants, EqualTheReference) {
  if (!has_gpu()) GTEST_SKIP() << "this machine has no GPU, or no module for it";
  const std::string path = testing::variant_file(GetParam());
  if (path.empty()) GTEST_SKIP() << "the reference model '" << GetParam() << "' was not made";
  RF_NEED_SHARED(reference, "goldens/logits2/" + GetParam() + ".txt");
  const Golden golden = Golden::read(reference);
  const LoadedModel model = open_on_gpu(path);
  ASSERT_FALSE(HasFailure());
  for (const KvType kv_type : {KvType::f32, KvType::f16}) {
    testing::expect_golden(model, golden, kv_type, testing::tolerance_of(GetParam(), kv_type));
  }
}

INSTANTIATE_TEST_SUITE_P(New, GpuDeviceVariants, ::testing::ValuesIn(testing::kNewFamilies),
                         [](const auto& test) { return testing::test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(More, GpuDeviceVariants, ::testing::ValuesIn(testing::kMoreOfNewFamilies),
                         [](const auto& test) { return testing::test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(Recurrent, GpuDeviceVariants, ::testing::ValuesIn(testing::kRecurrentFamilies),
                         [](const auto& test) { return testing::test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(MoreRecurrent, GpuDeviceVariants, ::testing::ValuesIn(testing::kMoreOfRecurrentFamilies),
                         [](const auto& test) { return testing::test_name(test.param); });

class GpuDeviceQuants : public ::testing::TestWithParam<QuantCase> {};

TEST_P(GpuDeviceQuants, AreAsCloseAsThePeers) {
  if (!has_gpu()) GTEST_SKIP() << "this machine has no GPU, or no module for it";
  const std::string base = std::string("goldens/quants/llama-") + GetParam().type;
  RF_NEED_SHARED(model_path, base + ".gguf");
  RF_NEED_SHARED(golden_path, base + ".txt");
  const Golden golden = Golden::read(golden_path);
  const LoadedModel model = open_on_gpu(model_path);
  for (const uint32_t max_rows : {64u, 8u}) {  // tiles, and the kernels for few rows
    Session session = model.session(KvType::f32, max_rows);
    const double nmse = testing::nmse_of(testing::evaluate_all(session, golden.tokens), golden);
    EXPECT_LE(nmse, testing::quant_tolerance(GetParam())) << max_rows << " rows at once";
  }
}

// Passes of many rows have kernels of their own.
TEST_P(GpuDeviceQuants, AreTheSameInLongAndInShortPasses) {
  if (!has_gpu()) GTEST_SKIP() << "this machine has no GPU, or no module for it";
  RF_NEED_SHARED(model_path, std::string("goldens/quants/llama-") + GetParam().type + ".gguf");
  const LoadedModel model = open_on_gpu(model_path);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < 500; i++) tokens.push_back(TokenId(3 + i * 37 % 500));
  std::vector<std::vector<float>> logits;
  if (std::string_view(GetParam().type).starts_with("TQ"))
    GTEST_SKIP() << "too coarse: rounding alone changes the logits";
  for (const uint32_t max_rows : {512u, 200u, 130u, 65u, 50u}) {
    Session session = model.session(KvType::f16, max_rows);
    const auto last = session.evaluate(tokens).value();
    logits.emplace_back(last.begin(), last.end());
  }
  for (size_t i = 1; i < logits.size(); i++) {
    double error = 0, square = 0;
    for (size_t j = 0; j < logits[0].size(); j++) {
      error += std::pow(double{logits[i][j]} - logits[0][j], 2);
      square += std::pow(double{logits[i][j]}, 2);
    }
    EXPECT_LE(error, 1e-4 * square) << "against passes number " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, GpuDeviceQuants, ::testing::ValuesIn(testing::kQuantCases),
                         [](const auto& test) { return std::string(test.param.type); });

// Passes of so many rows that every kind of product is among them.
TEST(GpuDeviceLarge, ActivationsBeyondHalfPrecisionGiveTheCpusLogits) {
  if (!has_gpu()) GTEST_SKIP() << "this machine has no GPU, or no module for it";
  const testing::TempDir dir;
  const std::string path = dir.file("large.gguf");
  const testing::TinyModel shape{
      .width = 256, .ff_width = 512, .n_heads = 4, .n_kv_heads = 2, .head_size = 64, .n_layers = 2, .n_context = 512};
  for (const char* mix : {"F16", "BF16", "Q8_0", "Q4_K_M"}) {
    testing::write_large_model(path, shape, mix);
    const auto tokens = testing::some_tokens(420, 96);
    const auto logits = [&](const LoadedModel& model, uint32_t max_rows) {
      Session session = model.session(KvType::f32, max_rows);
      return testing::evaluate_all(session, tokens);
    };
    const auto expected = logits(LoadedModel::open(path), 64);
    const LoadedModel model = open_on_gpu(path);
    for (const uint32_t max_rows : {1u, 4u, 14u, 30u, 60u, 100u, 200u, 420u}) {
      const auto got = logits(model, max_rows);
      ASSERT_EQ(got.size(), expected.size());
      double error = 0, square = 0;
      for (size_t i = 0; i < got.size(); i++) {
        error += std::pow(double{got[i]} - expected[i], 2);
        square += std::pow(double{expected[i]}, 2);
      }
      EXPECT_LE(error, 2e-3 * square) << mix << ", " << max_rows << " rows at once";
    }
  }
}

// Greedy answers of the bundled model, of requests that run together.
class GpuDeviceEngine : public ::testing::Test {
 protected:
  static constexpr uint32_t kTokens = 128;

  std::vector<std::vector<TokenId>> prompts() {
    std::vector<std::vector<TokenId>> all;
    for (const char* begin : {"Once upon a time there was", "In the old house by the sea lived", "Nobody believed",
                              "It was late in the evening when we met", "The children often spoke of", "\"Listen to",
                              "Far beyond the mountains people told stories of", "One morning the king sent for"}) {
      for (const char* who : {" a little girl", " the miller's youngest son", " an old fisherman", " a poor tailor"}) {
        for (const char* then :
             {", who had walked all day through the forest without meeting a living soul. The path grew narrower, the "
              "light was fading, and somewhere between the trees a bell began to ring. \"I must go on,\" thought",
              ", and when the door was opened a cold wind came in from the garden and put out the candle. For a while "
              "they sat in the dark and heard nothing but the rain upon the roof. Then",
              ", of whom it was said that no lock could keep a secret. The captain laughed, poured himself another "
              "glass, "
              "and asked what such a servant would cost him. \"More than your ship,\" answered",
              ". The summer had been dry, the well was empty, and there was little left to eat in the village. So they "
              "agreed to send the two strongest of them over the hills, with a letter to"}) {
          all.push_back(story_.encode(std::string(begin) + who + then));
        }
      }
    }
    return all;
  }
  std::vector<std::vector<TokenId>> answers(const LoadedModel& model, const std::vector<std::vector<TokenId>>& prompts,
                                            uint32_t at_once) {
    EngineCore core(*model.plan,
                    {.n_pages = 1024,
                     .n_context = 256,
                     .max_running = at_once,
                     .max_step_tokens = 512,
                     .max_step_outputs = at_once},
                    KvType::f16, system_clock());
    std::vector<testing::Collector> collectors(prompts.size());
    for (size_t i = 0; i < prompts.size(); i++) {
      GenerationRequest request{.prompt = prompts[i], .sampling = testing::greedy(), .ignore_end_of_text = true};
      core.accept(std::make_unique<LiveRequest>(RequestId(i + 1), std::move(request), kTokens, collectors[i].receiver(),
                                                story_.tokenizer(), system_clock()()));
    }
    while (core.has_work()) core.step();
    std::vector<std::vector<TokenId>> out;
    for (const auto& collector : collectors) {
      EXPECT_EQ(collector.wait().reason, FinishReason::length);
      out.push_back(collector.tokens());
    }
    return out;
  }
  // How far the two best logits lie apart after these tokens.
  static float gap_after(const LoadedModel& model, const std::vector<TokenId>& tokens) {
    Session session = model.session();
    const auto logits = session.evaluate(tokens).value();
    std::vector<float> sorted(logits.begin(), logits.end());
    std::ranges::nth_element(sorted, sorted.begin() + 1, std::greater());
    return sorted[0] - sorted[1];
  }

  testing::Reference story_;
};

TEST_F(GpuDeviceEngine, AnswersAsIfAloneButForCloseCalls) {
  if (!has_gpu()) GTEST_SKIP() << "this machine has no GPU, or no module for it";
  const LoadedModel model = open_on_gpu(testing::story_path());
  const auto asked = prompts();
  const auto alone = answers(model, asked, 1);
  for (const uint32_t at_once : {8u, 64u}) {
    SCOPED_TRACE(at_once);
    const auto together = answers(model, asked, at_once);
    size_t n_equal = 0;
    for (size_t i = 0; i < asked.size(); i++) {
      const auto [one, other] = std::ranges::mismatch(alone[i], together[i]);
      if (one == alone[i].end()) {
        n_equal++;
        continue;
      }
      auto until = asked[i];
      until.insert(until.end(), alone[i].begin(), one);
      EXPECT_LE(gap_after(model, until), 0.1f) << "the first difference must be a close call";
    }
    EXPECT_GE(n_equal * 100, asked.size() * 90) << n_equal << " of " << asked.size() << " are the same";
  }
}

}  // namespace
}  // namespace rocmforge
