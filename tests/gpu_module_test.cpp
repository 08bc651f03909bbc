// The modules as they ship: opened at run time, with and without a driver behind them. The HIP module runs a golden
// through a libamdhip64.so.7 of our own (src/gpu/modules/stand_in_hip.cpp).

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "gpu/device.h"
#include "gpu/module.h"
#include "gpu/self_test.h"
#include "gpu/self_test_memory.h"
#include "support/golden_check.h"

namespace rocmforge {
namespace {

using testing::Golden;
using testing::LoadedModel;

std::vector<std::string> built() {
  return {RF_MODULE_FOLDER};
}

bool is_built(const std::string& name) {
  return std::filesystem::exists(std::string(RF_MODULE_FOLDER) + "/librocmforge-" + name + ".so");
}

void expect_golden(std::unique_ptr<Backend> backend) {
  const std::string base = testing::data_path("logits/llama@384-64-128-2-1-32-2");
  const Golden golden = Golden::read(base + ".txt");
  const LoadedModel model = LoadedModel::open_on(std::move(backend), base + ".gguf");
  Session session = model.session(KvType::f32);
  EXPECT_LE(testing::nmse_of(testing::evaluate_all(session, golden.tokens), golden), 1e-8);
}

TEST(GpuModule, TheEmulationIsOneAndIsAskedForByName) {
  for (const char* id : {"emu", "emu:64"}) {
    auto backend = gpu::open_backend(id, built());
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    EXPECT_NE((*backend)->name().find(id == std::string("emu") ? "wave 32" : "wave 64"), std::string_view::npos);
    expect_golden(std::move(*backend));
  }
  for (const gpu::FoundDevice& device : gpu::find_devices(built()).devices) EXPECT_NE(device.module, "emu");
}

TEST(GpuModule, NoModuleAndNoDriverAreFactsUntilADeviceIsAskedFor) {
  const testing::TempDir empty;
  const gpu::Survey survey = gpu::find_devices({empty.path()});
  EXPECT_TRUE(survey.devices.empty());
  EXPECT_EQ(survey.absences.size(), 2u);
  for (const char* id : {"gpu", "gpu:7", "emu", "emu:5", "tpu", "gpu:", "gpu:x"}) {
    const auto backend = gpu::open_backend(id, {empty.path()});
    ASSERT_FALSE(backend.ok()) << id;
    EXPECT_EQ(backend.error().code, ErrorCode::device_unavailable);
  }
}

TEST(GpuModule, AFileThatIsNoModuleIsRefused) {
  const testing::TempDir folder;
  folder.write("librocmforge-hip.so", "not a shared object");
  const auto module = gpu::open_module("hip", {folder.path()});
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().code, ErrorCode::device_unavailable);
}

// LD_LIBRARY_PATH is set by ctest so that the stand-in is what the loader finds.
TEST(GpuModule, TheHipModuleRunsAGoldenThroughTheStandIn) {
  if (!is_built("hip")) GTEST_SKIP() << "the HIP module is not built (target hip)";
  const gpu::Survey survey = gpu::find_devices(built());
  std::vector<gpu::FoundDevice> found;
  for (const gpu::FoundDevice& device : survey.devices) {
    if (device.module == "hip" && device.name.find("emulation") != std::string::npos) found.push_back(device);
  }
  // The stand-in's first one is integrated.
  EXPECT_TRUE(found.size() == 4 && found[3].is_integrated && found[3].index == 0);
  ASSERT_EQ(found.size(), 4u) << (survey.absences.empty() ? "" : survey.absences[0]);
  for (const gpu::FoundDevice& device : found) {
    SCOPED_TRACE(device.name);
    auto backend = gpu::open_backend(device.id, built());
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    expect_golden(std::move(*backend));
  }
}

TEST(GpuModule, TheHipModulePassesTheSelfTestThroughTheStandIn) {
  if (!is_built("hip")) GTEST_SKIP() << "the HIP module is not built (target hip)";
  const gpu::GpuApi* api = gpu::open_module("hip", built()).value();
  EXPECT_NE(std::string(api->targets).find("gfx1100"), std::string::npos);
  for (const uint32_t index : {0u, 3u}) {
    const auto device = gpu::Device::open(*api, index).value();
    const gpu::SelfTestReport report = gpu::run_self_test(*device);
    EXPECT_TRUE(report.has_passed()) << device->name() << ": " << report.faults();
  }
}

// A device is known by its name, the version that HIP gives, the kernel's release, and the module's file.
TEST(GpuModule, TheHipModulesDevicesAreTestedOnce) {
  if (!is_built("hip")) GTEST_SKIP() << "the HIP module is not built (target hip)";
  const gpu::Survey survey = gpu::find_devices(built());
  ASSERT_FALSE(survey.devices.empty());
  const gpu::SelfTestKey key = gpu::self_test_key(survey.devices[0], built());
  EXPECT_NE(key.device.find(survey.devices[0].name), std::string::npos);
  EXPECT_EQ(key.driver.find("70012345, Linux "), 0u) << key.driver;
  EXPECT_EQ(key.module.find("hip, "), 0u) << key.module;
  const testing::TempDir folder;
  const gpu::SelfTestOptions options{gpu::SelfTestMode::once, folder.file("self_tests.json")};
  ASSERT_TRUE(gpu::open_backend("gpu", built(), options).ok());
  const auto remembered = gpu::remembered_self_test(options.file, key);
  ASSERT_TRUE(remembered);
  EXPECT_TRUE(remembered->has_passed()) << remembered->faults();
}

TEST(GpuModule, AutoTakesTheNextDeviceWhereOneIsRefusedAndSaysSo) {
  if (!is_built("hip")) GTEST_SKIP() << "the HIP module is not built (target hip)";
  const gpu::Survey survey = gpu::find_devices(built());
  const auto devices = gpu::devices_for_auto(survey.devices);
  ASSERT_GE(devices.size(), 2u);
  const testing::TempDir folder;
  const gpu::SelfTestOptions options{gpu::SelfTestMode::once, folder.file("self_tests.json")};
  gpu::SelfTestReport report{gpu::self_test_families()};
  for (gpu::SelfTestResult& r : report.results) {
    if (r.family == "norms") r.fault = "row 0, column 0: 1 instead of 2";
  }
  gpu::remember_self_test(options.file, gpu::self_test_key(devices[0], built()), report);
  std::vector<std::string> said;
  const LogCapture capture([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  const auto opened = gpu::open_any_gpu(built(), options);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_NE((*opened)->name().find(devices[1].name), std::string_view::npos) << (*opened)->name();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("norms: row 0, column 0: 1 instead of 2"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("; " + devices[1].id + " is tried"), std::string::npos) << said[0];
}

// The last test that uses this device: nothing is asked of it any more.
TEST(GpuModule, ADeviceThatNeverEndsItsWorkEndsTheWait) {
  if (!is_built("hip")) GTEST_SKIP() << "the HIP module is not built (target hip)";
  constexpr uint32_t kIndex = 2;
  const gpu::GpuApi* api = gpu::open_module("hip", built()).value();
  ASSERT_EQ(setenv("ROCMFORGE_GPU_WAIT_SECONDS", "1", 1), 0);
  {
    const auto device = gpu::Device::open(*api, kIndex).value();
    const auto stream = gpu::Stream::make(*device).value();
    const auto event = gpu::Event::make(*device).value();
    auto memory = gpu::Memory::allocate(*device, gpu::Memory::Kind::device, 4096).value();
    ASSERT_TRUE(stream.fill(memory.data(), 1, memory.size()).ok());
    ASSERT_TRUE(stream.record(event).ok() && event.finish().ok());
    ASSERT_EQ(setenv("ROCMFORGE_STAND_IN_HANGS", "1", 1), 0);
    const auto begin = std::chrono::steady_clock::now();
    const auto finished = stream.finish();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    unsetenv("ROCMFORGE_STAND_IN_HANGS");
    ASSERT_FALSE(finished.ok());
    EXPECT_EQ(finished.error().code, ErrorCode::device_failed);
    EXPECT_NE(finished.error().message.find("device 2, " + device->name() + ", did not end its work within 1 s"),
              std::string::npos)
        << finished.error().message;
    EXPECT_GE(waited.count(), 1.0);
    // The driver is asked for nothing more, not even to free memory.
    EXPECT_FALSE(event.finish().ok());
    EXPECT_FALSE(stream.fill(memory.data(), 1, memory.size()).ok());
  }
  const auto again = gpu::Device::open(*api, kIndex);
  unsetenv("ROCMFORGE_GPU_WAIT_SECONDS");
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message.find("device 2 did not end its work in time; restart the process"), std::string::npos)
      << again.error().message;
  EXPECT_TRUE(gpu::Device::open(*api, 1).ok());
}

TEST(GpuModule, TheEmulationIsTestedWhereThatIsAskedFor) {
  const testing::TempDir folder;
  gpu::SelfTestOptions options{gpu::SelfTestMode::once, folder.file("self_tests.json")};
  ASSERT_TRUE(gpu::open_backend("emu:64", built(), options).ok());
  EXPECT_FALSE(std::filesystem::exists(options.file));
  options.mode = gpu::SelfTestMode::always;
  ASSERT_TRUE(gpu::open_backend("emu:64", built(), options).ok());
  EXPECT_TRUE(std::filesystem::exists(options.file));
}

TEST(GpuModule, TheHipModuleSaysWhatALaunchCannotHave) {
  if (!is_built("hip")) GTEST_SKIP() << "the HIP module is not built (target hip)";
  const gpu::GpuApi* api = gpu::open_module("hip", built()).value();
  const auto device = gpu::Device::open(*api, 0).value();
  const auto stream = gpu::Stream::make(*device).value();
  gpu::GpuKernel* kernel = device->find("target", "describe_target").value();
  const auto too_much = stream.launch(kernel, {{}, 64, (64 << 10) + 1}, 0);
  ASSERT_FALSE(too_much.ok());
  EXPECT_NE(too_much.error().message.find("at most 65536"), std::string::npos) << too_much.error().message;
  EXPECT_FALSE(stream.launch(kernel, gpu::Grid{.z = 2, .cluster = 2}, 64, 0).ok());
}

}  // namespace
}  // namespace rocmforge
