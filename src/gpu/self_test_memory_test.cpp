// A self-test runs once for each device, driver and module, whatever has become of the file that remembers it.

#include "gpu/self_test_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/support.h"

namespace rocmforge::gpu {
namespace {

class SelfTestMemory : public ::testing::Test {
 protected:
  void TearDown() override {
    unsetenv("ROCMFORGE_SELF_TEST");
    emu::controls().refuse_capture = false;
  }

  SelfTestOptions options(SelfTestMode mode = SelfTestMode::once) const { return {mode, file_, key_}; }
  // What opening the device launches beyond asking for its target.
  static uint64_t n_launches(const SelfTestOptions& options) {
    const uint64_t before = emu::controls().n_launches;
    const auto backend = GpuBackend::open(emu::api(), 0, options);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return emu::controls().n_launches - before - 1;
  }
  bool runs() const { return n_launches(options()) > 0; }
  SelfTestReport report_with(const std::string& family, const std::string& fault) const {
    SelfTestReport out{self_test_families()};
    for (SelfTestResult& r : out.results) {
      if (r.family == family) r.fault = fault;
    }
    return out;
  }

  const testing::TempDir dir_;
  std::string file_ = dir_.file("cache/self_tests.json");
  SelfTestKey key_{"7900 XTX, gfx1100", "60342443, Linux 6.8.0", "hip, 1000 bytes, 17.000000001"};
  std::vector<std::string> said_;
  const LogCapture capture_{[this](LogLevel, std::string_view text) { said_.emplace_back(text); }};
};

TEST_F(SelfTestMemory, ATestThatWasPassedIsNotRunAgain) {
  EXPECT_TRUE(runs());
  EXPECT_FALSE(runs());
  EXPECT_FALSE(runs());
  EXPECT_TRUE(said_.empty()) << said_[0];
}

TEST_F(SelfTestMemory, AnotherDeviceDriverOrModuleIsTested) {
  ASSERT_TRUE(runs());
  for (std::string SelfTestKey::* part : {&SelfTestKey::device, &SelfTestKey::driver, &SelfTestKey::module}) {
    const SelfTestKey known = key_;
    key_.*part += "1";
    EXPECT_TRUE(runs());
    key_ = known;
    EXPECT_FALSE(runs());  // none replaces another
  }
}

TEST_F(SelfTestMemory, AFaultIsRememberedToo) {
  remember_self_test(file_, key_, report_with("norms", "row 1, column 2: 3 instead of 4"));
  const uint64_t before = emu::controls().n_launches;
  const auto refused = GpuBackend::open(emu::api(), 0, options());
  EXPECT_EQ(emu::controls().n_launches - before, 1u);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("norms: row 1, column 2: 3 instead of 4"), std::string::npos);

  remember_self_test(file_, key_, report_with("products of many rows", "row 5"));
  const auto narrowed = GpuBackend::open(emu::api(), 0, options());
  ASSERT_TRUE(narrowed.ok()) << narrowed.error().message;
  EXPECT_FALSE((*narrowed)->device().has_fragments());
  EXPECT_FALSE((*narrowed)->device().has_matrix_unit());
  EXPECT_TRUE((*narrowed)->device().records());
  EXPECT_EQ(said_.size(), 1u);

  remember_self_test(file_, key_, report_with("", ""));
  EXPECT_TRUE(GpuBackend::open(emu::api(), 0, options()).ok());
}

TEST_F(SelfTestMemory, AFileThatIsBrokenIsAsIfItWereNotThere) {
  ASSERT_TRUE(runs());
  const std::string whole = read_whole_file(file_, 1 << 20).value();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string broken[] = {"",
                                "no JSON",
                                "[]",
                                "{\"version\": 1}",
                                whole.substr(0, whole.size() / 2),
                                with("\"version\": 1", "\"version\": 2"),
                                with("\"results\"", "\"result\""),
                                with("\"norms\"", "\"other\""),
                                with("\"fault\": \"\"", "\"fault\": 0"),
                                with("\"family\": \"norms\",", ""),
                                with("\"families\": [", "\"families\": [{\"family\": \"x\", \"fault\": \"\"},"),
                                with("\"driver\"", "\"drivers\"")};
  for (const std::string& text : broken) {
    SCOPED_TRACE(text);
    std::filesystem::remove(file_);
    dir_.write("cache/self_tests.json", text);
    EXPECT_FALSE(remembered_self_test(file_, key_));
    remember_self_test(file_, key_, report_with("", ""));
    EXPECT_EQ(read_whole_file(file_, 1 << 20).value(), whole);
  }
  dir_.write("cache/self_tests.json", broken[4]);
  EXPECT_TRUE(runs());
  EXPECT_FALSE(runs());
}

TEST_F(SelfTestMemory, WithoutAFileTheTestRunsEachTime) {
  file_.clear();
  EXPECT_TRUE(runs());
  EXPECT_TRUE(runs());
  dir_.write("no_folder", "");
  for (const std::string& file : {dir_.file("no_folder/self_tests.json"), dir_.path()}) {
    remember_self_test(file, key_, report_with("", ""));
    EXPECT_FALSE(remembered_self_test(file, key_)) << file;
  }
}

TEST_F(SelfTestMemory, ARefusalOfTheDriverIsNotRemembered) {
  emu::controls().refuse_capture = true;
  EXPECT_TRUE(runs());
  EXPECT_EQ(said_.size(), 1u);
  emu::controls().refuse_capture = false;
  EXPECT_TRUE(runs());
  EXPECT_FALSE(runs());
  EXPECT_EQ(said_.size(), 1u);
  // By a test that was asked for: what was remembered counts no more.
  emu::controls().refuse_capture = true;
  EXPECT_GT(n_launches(options(SelfTestMode::always)), 0u);
  emu::controls().refuse_capture = false;
  EXPECT_TRUE(runs());
}

TEST_F(SelfTestMemory, OnlyTheNewestResultsAreKept) {
  const SelfTestReport passed = report_with("", "");
  const std::string driver = key_.driver;
  for (int i = 0; i < 40; i++) {
    key_.driver = driver + std::to_string(i);
    remember_self_test(file_, key_, passed);
  }
  EXPECT_TRUE(remembered_self_test(file_, key_));
  key_.driver = driver + "0";
  EXPECT_FALSE(remembered_self_test(file_, key_));
}

TEST_F(SelfTestMemory, TheModeIsTheCallersUnlessAVariableSetsIt) {
  EXPECT_EQ(n_launches(options(SelfTestMode::off)), 0u);
  ASSERT_TRUE(runs());
  EXPECT_GT(n_launches(options(SelfTestMode::always)), 0u);
  EXPECT_EQ(self_test_mode(SelfTestMode::once), SelfTestMode::once);
  ASSERT_EQ(setenv("ROCMFORGE_SELF_TEST", "off", 1), 0);
  EXPECT_EQ(self_test_mode(SelfTestMode::once), SelfTestMode::off);
  ASSERT_EQ(setenv("ROCMFORGE_SELF_TEST", "always", 1), 0);
  EXPECT_EQ(self_test_mode(SelfTestMode::once), SelfTestMode::always);
  ASSERT_EQ(setenv("ROCMFORGE_SELF_TEST", "never", 1), 0);
  EXPECT_EQ(self_test_mode(SelfTestMode::once), SelfTestMode::once);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("ROCMFORGE_SELF_TEST=never is unknown"), std::string::npos);
}

}  // namespace
}  // namespace rocmforge::gpu
