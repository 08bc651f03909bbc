// Models with windows in the token loop on an emulated GPU: with pages of their own, which they give back, windowed
// layers compute the same bits as with all pages kept.

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

class GpuWindows : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = testing::variant_file(GetParam());
    if (path_.empty()) GTEST_SKIP() << "the reference model '" << GetParam() << "' was not made";
  }
  void TearDown() override { gpu::emu::controls().refuse_capture = false; }

  std::string path_;
};

// Three at once, two of them with a common prefix; then one that goes on behind the first. Steps are the same with and
// without pages of their own, so that every product has the same rows.
TEST_P(GpuWindows, PagesOfTheirOwnChangeNoAnswer) {
  const auto open_gpu = []() -> Result<std::unique_ptr<Backend>> { return TRY(GpuBackend::open(gpu::emu::api(), 0)); };
  std::vector<std::vector<TokenId>> answers[2];
  for (const bool own_pages : {false, true}) {
    TokenLoop loop(path_, ModelOptions{.device = "gpu", .n_threads = 1, .open_gpu = open_gpu});
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(loop.plan().weights().preload_all().ok());
    SchedulerOptions options{
        .n_pages = 24, .n_context = 256, .max_running = 3, .max_step_tokens = 64, .max_step_outputs = 3};
    if (own_pages) {
      ASSERT_GT(loop.plan().window(), 0u);
      options.window = loop.plan().window();
      options.n_window_pages = static_cast<uint32_t>(window_pages_for(options.window, 3, 64));
    }
    EngineCore core(loop.plan(), options, KvType::f16, system_clock());
    const auto common = loop.tokens(64, 1);
    std::vector<std::vector<TokenId>> prompts = {joined(common, loop.tokens(10, 2)), loop.tokens(61, 3),
                                                 joined(common, loop.tokens(5, 4))};
    uint64_t last_id = 0;
    const auto ask = [&](const std::vector<TokenId>& prompt, const Collector& collector) {
      GenerationRequest request{
          .prompt = prompt, .sampling = testing::greedy(), .max_tokens = 6, .ignore_end_of_text = true};
      core.accept(std::make_unique<LiveRequest>(RequestId(++last_id), std::move(request), 6,
                                                const_cast<Collector&>(collector).receiver(),
                                                **loop.model().tokenizer(), system_clock()()));
    };
    std::vector<Collector> collectors(4);
    for (size_t i = 0; i < prompts.size(); i++) ask(prompts[i], collectors[i]);
    while (core.has_work()) core.step();
    ask(joined(joined(prompts[0], collectors[0].tokens()), loop.tokens(58, 5)), collectors[3]);
    while (core.has_work()) core.step();
    for (const Collector& collector : collectors) answers[own_pages].push_back(collector.tokens());
    EXPECT_EQ(core.stats().scheduler.n_recomputed, 0u);
    EXPECT_GE(core.stats().scheduler.n_prefix_hits, 128u);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

const auto kNameOf = [](const auto& test) { return testing::test_name(test.param); };
INSTANTIATE_TEST_SUITE_P(Few, GpuWindows, ::testing::Values("olmo2-swa"), kNameOf);
INSTANTIATE_TEST_SUITE_P(Other, GpuWindows, ::testing::Values("gemma4"), kNameOf);

}  // namespace
}  // namespace rocmforge
