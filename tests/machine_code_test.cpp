// The shipped HIP module computes reference logits by its own machine code: opened as a program opens it, with the
// stand-in for HIP's library behind it, which executes AMD's instructions (src/gpu/isa). ctest sets LD_LIBRARY_PATH so
// that the stand-in is what the loader finds.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "gpu/isa/code_object.h"
#include "gpu/module.h"
#include "support/golden_check.h"

namespace rocmforge {
namespace {

using testing::Golden;
using testing::LoadedModel;

// Before anything is opened.
const bool kIsSet = ::setenv("ROCMFORGE_MACHINE_CODE", "gfx1100,gfx942", 0) == 0 &&
                    ::setenv("ROCMFORGE_GOLDEN_MODELS", RF_GOLDEN_MODELS, 0) == 0;

// The device of this target, or why there is none.
Result<std::unique_ptr<Backend>> open_target(const std::string& target) {
  EXPECT_TRUE(kIsSet);
  if (!gpu::isa::has_disassembler()) return Error{ErrorCode::device_unavailable, "llvm-objdump-19 is not installed"};
  if (!std::filesystem::exists(RF_MODULE_FOLDER "/librocmforge-hip.so")) {
    return Error{ErrorCode::device_unavailable, "the HIP module is not built (target hip)"};
  }
  for (const gpu::FoundDevice& device : gpu::find_devices({RF_MODULE_FOLDER}).devices) {
    if (device.name.starts_with(target + ",")) return gpu::open_backend(device.id, {RF_MODULE_FOLDER});
  }
  return Error{ErrorCode::device_unavailable, "no device of machine code for " + target};
}

// Like testing::expect_golden, with fewer passes.
void expect_close(const std::string& target, const std::string& model_path, const std::string& golden_path,
                  double tolerance, KvType kv_type, uint32_t max_rows) {
  auto backend = open_target(target);
  if (!backend.ok()) {
    const bool lacks_target = backend.error().message.find("has no part for") != std::string::npos;
    ASSERT_TRUE(lacks_target || backend.error().code == ErrorCode::device_unavailable) << backend.error().message;
    GTEST_SKIP() << backend.error().message;
  }
  const Golden golden = Golden::read(golden_path);
  const LoadedModel model = LoadedModel::open_on(std::move(*backend), model_path);
  Session session = model.session(kv_type, max_rows);
  EXPECT_LE(testing::nmse_of(testing::evaluate_all(session, golden.tokens), golden), tolerance);
}

// ---- small models: prompts in tiles, and a few rows at a time ----

class MachineCodeGoldens : public ::testing::TestWithParam<std::tuple<const char*, const char*, uint32_t>> {};

TEST_P(MachineCodeGoldens, EqualTheReference) {
  const auto& [target, name, max_rows] = GetParam();
  const std::string base = testing::data_path("logits/" + std::string(name));
  for (const KvType kv_type : {KvType::f16, KvType::f32}) {
    expect_close(target, base + ".gguf", base + ".txt", testing::tolerance_of(name, kv_type), kv_type, max_rows);
    if (IsSkipped()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , MachineCodeGoldens,
    ::testing::Combine(::testing::Values("gfx1100", "gfx942"),
                       ::testing::Values("llama@384-64-128-2-1-32-2", "mixtral@384-64-128-2-1-32-2",
                                         "qwen3@384-64-128-2-1-32-2", "stablelm@384-64-128-2-1-32-2"),
                       ::testing::Values(64u, 3u)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" + testing::test_name(std::get<1>(test.param)) + "_" +
             std::to_string(std::get<2>(test.param)) + "_rows";
    });

// ---- every family, and every format of weights ----

class MachineCodeFamilies : public ::testing::TestWithParam<std::tuple<const char*, std::string>> {};

TEST_P(MachineCodeFamilies, EqualTheReference) {
  const auto& [target, name] = GetParam();
  const std::string model = testing::model_file(name), golden = testing::golden_file(name);
  if (model.empty() || golden.empty()) GTEST_SKIP() << "the reference for '" << name << "' is not beside the checkout";
  expect_close(target, model, golden, testing::tolerance_of(name, KvType::f16), KvType::f16, 64);
}

std::vector<std::string> families() {
  std::vector<std::string> out;
  for (const std::string& name : testing::kTinyModels) {
    if (name.find('@') == std::string::npos) out.push_back(name);
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(, MachineCodeFamilies,
                         ::testing::Combine(::testing::Values("gfx1100", "gfx942"), ::testing::ValuesIn(families())),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  testing::test_name(std::get<1>(test.param));
                         });

class MachineCodeQuants : public ::testing::TestWithParam<std::tuple<const char*, testing::QuantCase>> {};

TEST_P(MachineCodeQuants, AreAsCloseAsThePeers) {
  const auto& [target, quant] = GetParam();
  const std::string base = std::string("goldens/quants/llama-") + quant.type;
  RF_NEED_SHARED(model, base + ".gguf");
  RF_NEED_SHARED(golden, base + ".txt");
  expect_close(target, model, golden, testing::quant_tolerance(quant), KvType::f32, 64);
}

INSTANTIATE_TEST_SUITE_P(, MachineCodeQuants,
                         ::testing::Combine(::testing::Values("gfx1100", "gfx942"),
                                            ::testing::ValuesIn(testing::kQuantCases)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param).type;
                         });

}  // namespace
}  // namespace rocmforge
