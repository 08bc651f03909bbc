// The self-test passes on every device of the emulation, and sees a kernel that computes wrongly and fragments whose
// layout is not the hardware's.

#include "gpu/self_test.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/kernel_device.h"

namespace rocmforge::gpu {
namespace {

class SelfTest : public testing::KernelTest {};

TEST_P(SelfTest, PassesWhereEverythingIsRight) {
  const SelfTestReport report = run_self_test(*device_);
  EXPECT_EQ(report.results.size(), 10u);
  EXPECT_TRUE(report.has_passed()) << report.faults();
}

INSTANTIATE_TEST_SUITE_P(, SelfTest,
                         ::testing::Combine(::testing::Range(0u, testing::kRealDevice + 1),
                                            ::testing::Values(emu::Order::forward, emu::Order::reverse)));

// The emulation's functions with another find().
const GpuApi* with_find(decltype(GpuApi::find) find) {
  static GpuApi api;
  api = emu::api();
  api.find = find;
  return &api;
}

std::string family_that_fails(const GpuApi& api, uint32_t device) {
  const auto opened = Device::open(api, device).value();
  const SelfTestReport report = run_self_test(*opened);
  std::string out;
  for (const SelfTestResult& r : report.results) {
    if (!r.fault.empty()) out += (out.empty() ? "" : ", ") + r.family;
  }
  return out;
}

TEST(SelfTestOfAFaultyDevice, NamesTheFamilyThatComputesWrongly) {
  const GpuApi* api = with_find([](GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
    const bool is_norm = std::strcmp(name, "rms_norm") == 0;
    return emu::api().find(device, file, is_norm ? "layer_norm" : name, out);
  });
  EXPECT_EQ(family_that_fails(*api, 0), "norms, recorded passes");
}

TEST(SelfTestOfAFaultyDevice, SeesFragmentsOfAnotherLayout) {
  const GpuApi* api = with_find([](GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
    const bool is_tried = std::strcmp(name, "try_fragments_f16") == 0;
    return emu::api().find(device, is_tried ? "rules" : file, is_tried ? "fragments_transposed" : name, out);
  });
  for (uint32_t device = 0; device < emu::kNumDevices; device++) {
    EXPECT_EQ(family_that_fails(*api, device), "matrix fragments") << device;
  }
}

TEST(SelfTestOfAFaultyDevice, SeesBlocksThatDoNotMeet) {
  const GpuApi* api = with_find([](GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
    const bool meets = std::strcmp(name, "meet") == 0;
    return emu::api().find(device, meets ? "rules" : file, meets ? "meet_too_early" : name, out);
  });
  EXPECT_EQ(family_that_fails(*api, 0), "meetings of blocks");
}

// Each kernel's own fault is seen by its family alone: a kernel that writes nothing.
TEST(SelfTestOfAFaultyDevice, SeesAKernelThatDoesNothing) {
  static const char* idle = nullptr;
  static GpuKernel* idle_kernel = nullptr;
  static GpuApi api;
  api = emu::api();
  api.find = [](GpuDevice* device, const char* file, const char* name, GpuKernel** out) {
    const GpuStatus status = emu::api().find(device, file, name, out);
    if (std::strcmp(name, idle) == 0) idle_kernel = *out;
    return status;
  };
  api.launch = [](GpuDevice* device, GpuKernel* kernel, LaunchShape shape, const void* args, size_t args_bytes,
                  GpuStream* stream) {
    return kernel == idle_kernel ? GpuStatus::ok : emu::api().launch(device, kernel, shape, args, args_bytes, stream);
  };
  for (const auto& [kernel, family] : {std::pair("attend_f16_64", "attention row by row"),
                                       {"attend_f32_64", "attention row by row"},
                                       {"attend_tiles_64", "attention by matrix instructions"},
                                       {"attend_matrix_64", "attention by matrix instructions"},
                                       {"stream_fragments_q6_k_32", "products of streamed weights"},
                                       {"weight_panels_q4_k", "products of many rows"},
                                       {"matvec_q5_k_8", "products of eight rows"}}) {
    idle = kernel;
    idle_kernel = nullptr;
    EXPECT_EQ(family_that_fails(api, 0), family) << kernel;
  }
}

TEST(SelfTestOfAFaultyDevice, ARefusedRecordingIsAFault) {
  emu::controls().refuse_capture = true;
  EXPECT_EQ(family_that_fails(emu::api(), 0), "recorded passes");
  emu::controls().refuse_capture = false;
}

}  // namespace
}  // namespace rocmforge::gpu
