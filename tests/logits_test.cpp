// The engine's numbers against the reference's: tiny random models of every family and geometry, the same model in
// every common weight type, and two trained models.

#include <gtest/gtest.h>

#include "support/golden_check.h"

namespace rocmforge {
namespace {

using testing::expect_golden;
using testing::Golden;
using testing::LoadedModel;
using testing::QuantCase;

class TinyLogits : public ::testing::TestWithParam<std::tuple<std::string, KvType>> {};

TEST_P(TinyLogits, EqualTheReference) {
  const auto& [name, kv_type] = GetParam();
  const std::string model = testing::model_file(name), golden = testing::golden_file(name);
  if (model.empty() || golden.empty()) GTEST_SKIP() << "the reference for '" << name << "' is not beside the checkout";
  expect_golden(LoadedModel::open(model), Golden::read(golden), kv_type, testing::tolerance_of(name, kv_type));
}

INSTANTIATE_TEST_SUITE_P(Goldens, TinyLogits,
                         ::testing::Combine(::testing::ValuesIn(testing::kTinyModels),
                                            ::testing::Values(KvType::f32, KvType::f16)),
                         [](const auto& test) {
                           return testing::test_name(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) == KvType::f32 ? "_f32" : "_f16");
                         });

class QuantLogits : public ::testing::TestWithParam<QuantCase> {};

TEST_P(QuantLogits, AreAsCloseAsThePeers) {
  const std::string base = std::string("goldens/quants/llama-") + GetParam().type;
  RF_NEED_SHARED(model_path, base + ".gguf");
  RF_NEED_SHARED(golden_path, base + ".txt");
  const Golden golden = Golden::read(golden_path);
  const LoadedModel model = LoadedModel::open(model_path);
  ASSERT_FALSE(HasFailure());
  Session session = model.session(KvType::f32);
  const double nmse = testing::nmse_of(testing::evaluate_all(session, golden.tokens), golden);
  RecordProperty("nmse", fmt::format("{:.3g}", nmse));
  EXPECT_LE(nmse, testing::quant_tolerance(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Goldens, QuantLogits, ::testing::ValuesIn(testing::kQuantCases),
                         [](const auto& test) { return std::string(test.param.type); });

TEST(TrainedLogits, Stories260K) {
  RF_NEED_SHARED(model, "goldens/trained/stories260K.gguf");
  RF_NEED_SHARED(golden, "goldens/trained/stories260K.txt");
  expect_golden(LoadedModel::open(model), Golden::read(golden), KvType::f32, 1e-8);
  expect_golden(LoadedModel::open(model), Golden::read(golden), KvType::f16, 1e-5);
}

TEST(TrainedLogits, TinyStoriesInQ8_0) {
  RF_NEED_SHARED(model, "goldens/trained/TinyStories-656K-Q8_0.gguf");
  RF_NEED_SHARED(golden, "goldens/trained/TinyStories-656K-Q8_0.txt");
  expect_golden(LoadedModel::open(model), Golden::read(golden), KvType::f16, 1e-3);
}

}  // namespace
}  // namespace rocmforge
