#pragma once
// Devices whose kernels run by AMD machine code: the shipped HIP module, with the stand-in for HIP's library behind it,
// which executes AMD's instructions (src/gpu/isa). ctest sets LD_LIBRARY_PATH so that the stand-in is what the loader
// finds. Header only: for the tests of label amd.

#include <cstdlib>
#include <filesystem>

#include "gpu/isa/code_object.h"
#include "gpu/module.h"
#include "support/golden_check.h"

namespace rocmforge::testing {

// Before anything is opened.
inline const bool kMachineCodeIsSet =
    ::setenv("ROCMFORGE_MACHINE_CODE", "gfx1100,gfx942,gfx1201,gfx90a,gfx1030", 0) == 0 &&
    ::setenv("ROCMFORGE_GOLDEN_MODELS", RF_GOLDEN_MODELS, 0) == 0;

// Run in full on the first two, in part on the others.
inline const std::vector<std::string> kMainTargets = {"gfx1100", "gfx942"};
inline const std::vector<std::string> kOtherTargets = {"gfx1201", "gfx90a", "gfx1030"};

// The device of this target, or why there is none.
inline Result<gpu::FoundDevice> find_machine_target(const std::string& target) {
  EXPECT_TRUE(kMachineCodeIsSet);
  if (!gpu::isa::has_disassembler()) return Error{ErrorCode::device_unavailable, "llvm-objdump-19 is not installed"};
  if (!std::filesystem::exists(RF_MODULE_FOLDER "/librocmforge-hip.so")) {
    return Error{ErrorCode::device_unavailable, "the HIP module is not built (target hip)"};
  }
  for (const gpu::FoundDevice& device : gpu::find_devices({RF_MODULE_FOLDER}).devices) {
    if (device.name.starts_with(target + ",")) return device;
  }
  return Error{ErrorCode::device_unavailable, "no device of machine code for " + target};
}

// True: this machine, or its module, has nothing for the target. What else is wrong is a failure.
inline bool lacks_machine_target(const Error& error) {
  const bool lacks = error.message.find("has no part for") != std::string::npos;
  EXPECT_TRUE(lacks || error.code == ErrorCode::device_unavailable) << error.message;
  return true;
}

// The variable is the device's backend.
#define RF_NEED_MACHINE_TARGET(backend, target)                                                                        \
  const auto found_target = ::rocmforge::testing::find_machine_target(target);                                         \
  auto backend = found_target.ok() ? ::rocmforge::gpu::open_backend(found_target->id, {RF_MODULE_FOLDER})              \
                                   : ::rocmforge::Result<std::unique_ptr<::rocmforge::Backend>>(found_target.error()); \
  if (!backend.ok() && ::rocmforge::testing::lacks_machine_target(backend.error())) {                                  \
    GTEST_SKIP() << backend.error().message;                                                                           \
  }

// Like expect_golden, with fewer passes: of max_rows each.
inline void expect_golden_by_machine_code(const std::string& target, const std::string& model_path,
                                          const std::string& golden_path, double tolerance, KvType kv_type,
                                          uint32_t max_rows) {
  RF_NEED_MACHINE_TARGET(backend, target);
  const Golden golden = Golden::read(golden_path);
  const LoadedModel model = LoadedModel::open_on(std::move(*backend), model_path);
  ASSERT_FALSE(::testing::Test::HasFailure());
  Session session = model.session(kv_type, max_rows);
  EXPECT_LE(nmse_of(evaluate_all(session, golden.tokens), golden), tolerance);
}

}  // namespace rocmforge::testing
