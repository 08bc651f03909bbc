// Which kernels a device is given: said in the log, and narrowed by ROCMFORGE_GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/loaded_model.h"
#include "support/support.h"
#include "support/tiny_model.h"

namespace rocmforge {
namespace {

using testing::LoadedModel;

// A device whose waves have matrix instructions like NVIDIA's.
constexpr uint32_t kDevice = 0;

class GpuChoice : public ::testing::Test {
 protected:
  void SetUp() override { testing::TinyModel().write(path_); }
  void TearDown() override { unsetenv("ROCMFORGE_GPU"); }

  LoadedModel open() const {
    auto backend = GpuBackend::open(gpu::emu::api(), kDevice);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return LoadedModel::open_on(std::move(*backend), path_);
  }
  // Eight rows, then one.
  std::vector<std::string> said_of(const LoadedModel& model) {
    said_.clear();
    Session session = model.session(KvType::f16);
    const auto tokens = testing::some_tokens(9, model.plan->spec().n_vocab);
    logits_ = testing::evaluate_all(session, std::span(tokens).first(8));
    const auto last = testing::evaluate_all(session, std::span(tokens).last(1));
    logits_.insert(logits_.end(), last.begin(), last.end());
    return said_;
  }
  static size_t n_with(const std::vector<std::string>& said, std::string_view words) {
    return std::ranges::count_if(said, [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }

  const testing::TempDir dir_;
  const std::string path_ = dir_.file("m.gguf");
  std::vector<float> logits_;
  std::vector<std::string> said_;
  const LogCapture capture_{[this](LogLevel, std::string_view text) { said_.emplace_back(text); }, LogLevel::debug};
};

TEST_F(GpuChoice, KernelsAreNamedOnceForEachShape) {
  const LoadedModel model = open();
  const auto said = said_of(model);
  for (const char* line : {"gpu: product, 1 rows of 64 elements by 96 of f32, 96 of f32: matvec_f32_1",
                           "gpu: product, 8 rows of 96 elements by 64 of f32: matvec_f32_8",
                           "gpu: attention, 1 rows of 4 heads of 16, 2 of keys and values in f16: attend_matrix_64"}) {
    EXPECT_EQ(n_with(said, line), 1u) << line;
  }
  EXPECT_EQ(n_with(said_of(model), "gpu: product"), 0u);
}

TEST_F(GpuChoice, APortableDeviceIsGivenTheKernelsThatEveryCardHas) {
  EXPECT_GT(n_with(said_of(open()), "attend_matrix"), 0u);
  const auto expected = logits_;
  ASSERT_EQ(setenv("ROCMFORGE_GPU", "portable", 1), 0);
  const auto said = said_of(open());
  EXPECT_EQ(n_with(said, "attend_matrix"), 0u);
  EXPECT_GT(n_with(said, "attend_f16"), 0u);
  for (size_t i = 0; i < expected.size(); i++) ASSERT_NEAR(logits_[i], expected[i], 0.02) << i;
}

TEST_F(GpuChoice, AnUnknownNameIsToldAndChangesNothing) {
  ASSERT_EQ(setenv("ROCMFORGE_GPU", "protable", 1), 0);
  const LoadedModel model = open();
  EXPECT_EQ(n_with(said_, "ROCMFORGE_GPU=protable is unknown"), 1u);
  EXPECT_GT(n_with(said_of(model), "attend_matrix"), 0u);
}

}  // namespace
}  // namespace rocmforge
