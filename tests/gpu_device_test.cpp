// The goldens on this machine's GPU; skipped where there is none. Modules are taken from ROCMFORGE_TEST_MODULES, or
// from the build folder.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "gpu/backend.h"
#include "gpu/module.h"
#include "support/golden_check.h"

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

}  // namespace
}  // namespace rocmforge
