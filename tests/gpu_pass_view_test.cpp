// What `plan --fused` shows of a pass is what the same pass launches: every kernel, in its order, for every class of
// card. The recording device sees whole passes run as a generation runs them.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "gguf/synth.h"
#include "gpu/backend.h"
#include "gpu/device_class.h"
#include "gpu/pass_view.h"
#include "support/loaded_model.h"
#include "support/recording_device.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using gpu::DeviceClass;
using gpu::PassViewer;

struct Made {
  const char* shape;
  const char* mix;
  uint32_t n_layers;
  friend void PrintTo(const Made& made, std::ostream* out) { *out << made.shape << " " << made.mix; }
};
constexpr Made kMade[] = {
    {"llama-8b", "Q4_K_M", 3},    {"llama-8b", "Q8_0", 2},         {"llama-8b", "F16", 2},
    {"llama-8b", "IQ2_XS", 2},    {"qwen2-0.5b", "Q4_0", 3},       {"qwen3-30b-a3b", "Q4_K_M", 2},
    {"bert-base", "F16", 2},      {"gemma4-26b-a4b", "Q4_K_M", 6}, {"nemotron-3-nano", "Q4_K_M", 8},
    {"qwen3.6-27b", "Q5_K_M", 4},
};
constexpr uint32_t kRows[] = {1, 8, 32, 128, 512};
constexpr uint32_t kPast = 70;  // positions that a generation's rows have before them; the view's have none

std::string make_model(const testing::TempDir& dir, const Made& made) {
  gguf::Shape shape = *gguf::find_shape(made.shape);
  shape.n_layers = made.n_layers;
  std::string path = dir.file("m.gguf");
  const auto written = gguf::synthesize(path, shape, *gguf::find_mix(made.mix), {.sparse = true});
  EXPECT_TRUE(written.ok()) << written.error().message;
  return path;
}

// A model on the recording device, with no more memory for passes than these rows need.
class Recorded {
 public:
  Recorded(const DeviceClass& of, const std::string& path) {
    auto backend = GpuBackend::open(testing::recording_api(of.target), 0);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    model_ = testing::LoadedModel::open_on(std::move(*backend), path, nullptr, 1);
    const ExecutionPlan& plan = *model_.plan;
    n_pages_ = pages_for_tokens(kPast + kRows[std::size(kRows) - 1]);
    EXPECT_TRUE(plan.backend().placement().reserve(plan.weights().arena_bytes(), 1).ok());
    EXPECT_TRUE(plan.backend().reserve(plan.pass_memory(512, 128, n_pages_, KvType::f16, 128)).ok());
  }

  // Without what puts the batch's numbers in place.
  std::vector<std::string> kernels_of(uint32_t n_rows) const {
    const ExecutionPlan& plan = *model_.plan;
    const bool is_text = !plan.has_logits(), are_together = is_text || n_rows == 512;
    const uint32_t past = is_text ? 0 : kPast;
    std::vector<PageId> pages;
    for (uint32_t i = 0; !is_text && i < n_pages_; i++) pages.emplace_back(i);
    Batch batch;
    for (uint32_t i = 0; i < (are_together ? 1 : n_rows); i++) {
      const std::vector<TokenId> tokens(are_together ? n_rows : 1, TokenId(3));
      batch.add(tokens, past, std::span(pages).first(is_text ? 0 : pages_for_tokens(past + tokens.size())));
      if (plan.has_states()) batch.sequences.back().state_after = StateId(i);
    }
    testing::take_recording();
    const auto done = plan.backend().run_settled(plan.steps(), batch, plan.weights());
    EXPECT_TRUE(done.ok()) << done.error().message;
    std::vector<std::string> out;
    for (const std::string& line : testing::take_recording().lines) out.push_back(line.substr(0, line.find(' ')));
    std::erase(out, "take_batch");
    return out;
  }

 private:
  testing::LoadedModel model_;
  uint32_t n_pages_ = 0;
};

class Views : public ::testing::TestWithParam<Made> {};

TEST_P(Views, ShowTheKernelsThatAreLaunchedForEveryClassOfCard) {
  const testing::TempDir dir;
  const std::string path = make_model(dir, GetParam());
  auto opened = gguf::GgufFile::open(path);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto file = std::make_shared<const gguf::GgufFile>(std::move(*opened));
  for (const DeviceClass& of : gpu::device_classes()) {
    auto viewer = PassViewer::open(of.name, of.target, file, {});
    ASSERT_TRUE(viewer.ok()) << viewer.error().message;
    const Recorded recorded(of, path);
    for (const uint32_t n_rows : kRows) {
      if (n_rows > (*viewer)->plan().n_context()) continue;
      const auto view = (*viewer)->view(n_rows);
      ASSERT_TRUE(view.ok()) << view.error().message;
      std::vector<std::string> shown;
      for (const gpu::StepView& step : view->steps) {
        EXPECT_FALSE(step.kernels.empty());
        shown.insert(shown.end(), step.kernels.begin(), step.kernels.end());
      }
      EXPECT_EQ(shown, recorded.kernels_of(n_rows)) << of.name << ", " << n_rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Views, ::testing::ValuesIn(kMade), [](const auto& of) {
  std::string name = fmt::format("{}_{}", of.param.shape, of.param.mix);
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// Joined or one by one.
TEST(View, CoversEveryStepOfThePlanOnce) {
  const testing::TempDir dir;
  auto opened = gguf::GgufFile::open(make_model(dir, kMade[0]));
  ASSERT_TRUE(opened.ok());
  const auto file = std::make_shared<const gguf::GgufFile>(std::move(*opened));
  for (const bool fuse : {true, false}) {
    auto viewer = PassViewer::open("hopper", gpu::find_device_class("hopper")->target, file, {.fuse = fuse});
    ASSERT_TRUE(viewer.ok()) << viewer.error().message;
    std::vector<const Step*> all;
    for (const auto stage : (*viewer)->plan().steps()) {
      for (const Step& step : stage) all.push_back(&step);
    }
    for (const uint32_t n_rows : kRows) {
      const auto view = (*viewer)->view(n_rows);
      ASSERT_TRUE(view.ok());
      std::vector<const Step*> shown;
      for (const gpu::StepView& step : view->steps) {
        EXPECT_EQ(step.steps.front(), &(*viewer)->plan().steps()[step.stage][step.first]);
        shown.insert(shown.end(), step.steps.begin(), step.steps.end());
      }
      EXPECT_EQ(shown, all);
      EXPECT_EQ(view->steps.size() < all.size(), fuse);
    }
  }
}

TEST(View, OfAPromptBeyondTheContextIsOfSeveral) {
  const testing::TempDir dir;
  auto opened = gguf::GgufFile::open(make_model(dir, kMade[0]));
  ASSERT_TRUE(opened.ok());
  const auto file = std::make_shared<const gguf::GgufFile>(std::move(*opened));
  auto viewer = PassViewer::open("cdna3", gpu::find_device_class("cdna3")->target, file, {.n_context = 200});
  ASSERT_TRUE(viewer.ok()) << viewer.error().message;
  const auto view = (*viewer)->view(512);
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(view->n_sequences, 3u);
}

}  // namespace
}  // namespace rocmforge
