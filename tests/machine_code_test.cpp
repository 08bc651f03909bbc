// The shipped HIP module computes reference logits by its own machine code.

#include <gtest/gtest.h>

#include "gpu/device_class.h"
#include "gpu/pass_view.h"
#include "gpu/self_test.h"
#include "support/machine_target.h"

using ::testing::Combine;
using ::testing::Values;
using ::testing::ValuesIn;

namespace rocmforge {
namespace {

using testing::expect_golden_by_machine_code;

const auto kMainTargets = ValuesIn(testing::kMainTargets);
const auto kOtherTargets = ValuesIn(testing::kOtherTargets);

// ---- the self-test that owners of cards run ----

class MachineCodeSelfTest : public ::testing::TestWithParam<std::string> {};

TEST_P(MachineCodeSelfTest, Passes) {
  RF_NEED_MACHINE_TARGET(backend, GetParam());
  const gpu::GpuApi* api = gpu::open_module("hip", {RF_MODULE_FOLDER}).value();
  const auto device = gpu::Device::open(*api, found_target->index).value();
  const gpu::SelfTestReport report = gpu::run_self_test(*device);
  EXPECT_TRUE(report.has_passed()) << report.faults();
}

const auto target_name = [](const auto& test) { return test.param; };
INSTANTIATE_TEST_SUITE_P(, MachineCodeSelfTest, kMainTargets, target_name);
INSTANTIATE_TEST_SUITE_P(OtherTargets, MachineCodeSelfTest, kOtherTargets, target_name);

// ---- what kernels are chosen by ----

// The first: a target; the second: the class that stands for it where no card is.
class MachineCodeClass : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(MachineCodeClass, IsWhatItsCardsReport) {
  const auto& [target, class_name] = GetParam();
  RF_NEED_MACHINE_TARGET(backend, target);
  const gpu::Target reported = *gpu::target_of(**backend), expected = gpu::find_device_class(class_name)->target;
  EXPECT_EQ(reported.wave, expected.wave);
  EXPECT_EQ(reported.has_hopper, expected.has_hopper);
  EXPECT_EQ(reported.has_mma, expected.has_mma);
  EXPECT_EQ(reported.has_matrix_unit, expected.has_matrix_unit);
  EXPECT_EQ(reported.tile_order, expected.tile_order);
}

INSTANTIATE_TEST_SUITE_P(, MachineCodeClass,
                         Values(std::pair("gfx90a", "cdna2"), std::pair("gfx942", "cdna3"),
                                std::pair("gfx1030", "rdna2"), std::pair("gfx1100", "rdna3"),
                                std::pair("gfx1201", "rdna4")),
                         [](const auto& test) { return test.param.second; });

// ---- small models: prompts in tiles, and a few rows at a time ----

class MachineCodeGoldens : public ::testing::TestWithParam<std::tuple<std::string, const char*, uint32_t>> {};

TEST_P(MachineCodeGoldens, EqualTheReference) {
  const auto& [target, name, max_rows] = GetParam();
  const std::string base = testing::data_path("logits/" + std::string(name));
  for (const KvType kv_type : {KvType::f16, KvType::f32}) {
    expect_golden_by_machine_code(target, base + ".gguf", base + ".txt", testing::tolerance_of(name, kv_type), kv_type,
                                  max_rows);
    if (IsSkipped()) return;
  }
}

const auto golden_name = [](const auto& test) {
  return std::get<0>(test.param) + "_" + testing::test_name(std::get<1>(test.param)) + "_" +
         std::to_string(std::get<2>(test.param)) + "_rows";
};
INSTANTIATE_TEST_SUITE_P(, MachineCodeGoldens,
                         Combine(kMainTargets,
                                 Values("llama@384-64-128-2-1-32-2", "mixtral@384-64-128-2-1-32-2",
                                        "qwen3@384-64-128-2-1-32-2", "stablelm@384-64-128-2-1-32-2"),
                                 Values(64u, 3u)),
                         golden_name);
INSTANTIATE_TEST_SUITE_P(OtherTargets, MachineCodeGoldens,
                         Combine(kOtherTargets, Values("llama@384-64-128-2-1-32-2", "mixtral@384-64-128-2-1-32-2"),
                                 Values(64u, 3u)),
                         golden_name);

// ---- every family, and every format of weights ----

class MachineCodeFamilies : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(MachineCodeFamilies, EqualTheReference) {
  const auto& [target, name] = GetParam();
  const std::string model = testing::model_file(name), golden = testing::golden_file(name);
  if (model.empty() || golden.empty()) GTEST_SKIP() << "the reference for '" << name << "' is not beside the checkout";
  expect_golden_by_machine_code(target, model, golden, testing::tolerance_of(name, KvType::f16), KvType::f16, 64);
}

std::vector<std::string> families() {
  std::vector<std::string> out;
  for (const std::string& name : testing::kTinyModels) {
    if (name.find('@') == std::string::npos) out.push_back(name);
  }
  return out;
}
const auto family_name = [](const auto& test) {
  return std::get<0>(test.param) + "_" + testing::test_name(std::get<1>(test.param));
};
INSTANTIATE_TEST_SUITE_P(, MachineCodeFamilies, Combine(kMainTargets, ValuesIn(families())), family_name);
INSTANTIATE_TEST_SUITE_P(OtherTargets, MachineCodeFamilies,
                         Combine(kOtherTargets, Values("gemma3", "gpt-oss", "qwen3moe")), family_name);

class MachineCodeQuants : public ::testing::TestWithParam<std::tuple<std::string, testing::QuantCase>> {};

TEST_P(MachineCodeQuants, AreAsCloseAsThePeers) {
  const auto& [target, quant] = GetParam();
  const std::string base = std::string("goldens/quants/llama-") + quant.type;
  RF_NEED_SHARED(model, base + ".gguf");
  RF_NEED_SHARED(golden, base + ".txt");
  expect_golden_by_machine_code(target, model, golden, testing::quant_tolerance(quant), KvType::f32, 64);
}

const auto quant_name = [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param).type; };
INSTANTIATE_TEST_SUITE_P(, MachineCodeQuants, Combine(kMainTargets, ValuesIn(testing::kQuantCases)), quant_name);
INSTANTIATE_TEST_SUITE_P(OtherTargets, MachineCodeQuants, Combine(kOtherTargets, ValuesIn(testing::kQuantCases)),
                         quant_name);

}  // namespace
}  // namespace rocmforge
