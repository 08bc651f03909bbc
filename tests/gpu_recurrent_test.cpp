// Recurrent models in the token loop on an emulated GPU: states that are shared, handed over and replayed.

#include <gtest/gtest.h>

#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/golden_check.h"
#include "support/token_loop.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::Collector;
using testing::joined;
using testing::TokenLoop;

const SchedulerOptions kOptions = {.n_pages = 16,
                                   .n_context = 256,
                                   .max_running = 3,
                                   .max_step_tokens = 96,
                                   .max_step_outputs = 3,
                                   .n_states = 12,
                                   .state_spacing = 4};

std::unique_ptr<TokenLoop> open_emulated(const std::string& path) {
  const auto open_gpu = []() -> Result<std::unique_ptr<Backend>> { return TRY(GpuBackend::open(gpu::emu::api(), 0)); };
  return std::make_unique<TokenLoop>(path, ModelOptions{.device = "gpu", .n_threads = 1, .open_gpu = open_gpu});
}

class GpuRecurrent : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = testing::variant_file(GetParam());
    if (path_.empty()) GTEST_SKIP() << "the reference model '" << GetParam() << "' was not made";
  }
  void TearDown() override { gpu::emu::controls().refuse_capture = false; }

  std::unique_ptr<TokenLoop> open() const { return open_emulated(path_); }

  // Products of many rows and of few differ in their last bits: a session may choose otherwise where two are as good.
  static void expect_answer(TokenLoop& loop, const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer) {
    auto session = Session::create(loop.plan(), {.max_rows = 128}).value();
    std::vector<TokenId> next = prompt;
    for (size_t i = 0; i < answer.size(); i++) {
      const auto logits = session.evaluate(next).value();
      std::vector<float> sorted(logits.begin(), logits.end());
      std::ranges::nth_element(sorted, sorted.begin() + 1, std::greater());
      EXPECT_LE(sorted[0] - logits[static_cast<size_t>(answer[i].value)], 1e-3f * std::fabs(sorted[0])) << i;
      next = {answer[i]};
    }
  }

  std::string path_;
};

// The second request finds pages without a state and computes them again, unstored; the third begins behind them.
TEST_P(GpuRecurrent, RequestsBehindACommonPrefixAnswerAsIfAlone) {
  const auto loop = open();
  ASSERT_FALSE(HasFailure());
  loop->start(kOptions);
  const auto common = loop->tokens(70, 1);
  std::vector<std::vector<TokenId>> prompts, answers;
  for (uint32_t i = 0; i < 3; i++) {
    prompts.push_back(joined(common, loop->tokens(59 + i, 2 + i)));
    answers.push_back(loop->ask(prompts[i], 3));
  }
  EXPECT_EQ(loop->usage.n_cached, 64u);
  EXPECT_EQ(loop->stats().scheduler.n_recomputed, 64u);
  for (uint32_t i = 0; i < 3; i++) {
    SCOPED_TRACE(i);
    const auto alone = open();
    expect_answer(*alone, prompts[i], answers[i]);
  }
}

// Three decode together across the end of a page, where their slots change hands.
TEST_P(GpuRecurrent, RecordedPassesServeOtherSlots) {
  std::vector<std::vector<TokenId>> answers[2];
  auto& controls = gpu::emu::controls();
  for (const bool recorded : {false, true}) {
    controls.refuse_capture = !recorded;
    const auto loop = open();
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(loop->plan().weights().preload_all().ok());
    const uint64_t before = controls.n_graph_launches;
    loop->start(kOptions);
    std::vector<Collector> collectors(3);
    for (uint32_t i = 0; i < 3; i++) loop->submit(loop->tokens(59 + i, 1 + i), 7, collectors[i]);
    loop->finish();
    for (const Collector& collector : collectors) answers[recorded].push_back(collector.tokens());
    EXPECT_EQ(controls.n_graph_launches > before, recorded);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

// A model of scans alone. A layer: norm, products, convolution, scan, gated norm, product. The pass's own launches: the
// batch, the embedding, the rows of the last layer and of the residual, the last sum with its norm, the output.
TEST(GpuRecurrentLayer, DecodesInSixLaunches) {
  const std::string path = testing::variant_file("mamba2");
  if (path.empty()) GTEST_SKIP() << "the reference model was not made";
  const auto loop = open_emulated(path);
  ASSERT_FALSE(HasFailure());
  ASSERT_TRUE(loop->plan().weights().preload_all().ok());
  auto& controls = gpu::emu::controls();
  controls.refuse_capture = true;
  auto session = Session::create(loop->plan(), {.max_rows = 8}).value();
  ASSERT_TRUE(session.evaluate(loop->tokens(2, 1)).ok());
  const uint64_t before = controls.n_launches;
  ASSERT_TRUE(session.evaluate(loop->tokens(1, 2)).ok());
  controls.refuse_capture = false;
  EXPECT_LE(controls.n_launches - before, 6 * loop->plan().spec().n_layers + 7);
}

INSTANTIATE_TEST_SUITE_P(Few, GpuRecurrent, ::testing::Values("lfm2", "qwen35", "mamba2"),
                         [](const auto& test) { return testing::test_name(test.param); });

}  // namespace
}  // namespace rocmforge
