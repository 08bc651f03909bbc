// Many requests at once on an emulated GPU: answers as if alone, and a device that fails and comes back.

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine_core.h"
#include "gpu/backend.h"
#include "gpu/emu/device.h"
#include "support/engine_fixture.h"
#include "support/loaded_model.h"
#include "support/support.h"

namespace rocmforge {
namespace {

using testing::Collector;
using testing::LoadedModel;

LoadedModel open_model() {
  auto backend = GpuBackend::open(gpu::emu::api(), 0);
  EXPECT_TRUE(backend.ok()) << backend.error().message;
  return LoadedModel::open_on(std::move(*backend), testing::data_path("logits/llama@384-64-128-2-1-32-2.gguf"), nullptr,
                              1);
}

struct GpuEngine : ::testing::Test {
  LoadedModel model = open_model();
  testing::Reference story;  // for its tokenizer: the small model has none
  EngineCore core{*model.plan,
                  {.n_pages = 5, .n_context = 192, .max_running = 4, .max_step_tokens = 24, .max_step_outputs = 4},
                  KvType::f16,
                  system_clock()};

  static std::vector<TokenId> prompt_of(uint32_t i) { return testing::some_tokens(5 + 11 * i, 384); }

  void accept(uint32_t i, uint32_t n_tokens, Collector& collector) {
    GenerationRequest request{.prompt = prompt_of(i), .sampling = testing::greedy(), .ignore_end_of_text = true};
    core.accept(std::make_unique<LiveRequest>(RequestId(++last_id), std::move(request), n_tokens, collector.receiver(),
                                              story.tokenizer(), system_clock()()));
  }
  void run_to_the_end() {
    while (core.has_work()) core.step();
  }

  uint64_t last_id = 0;
};

TEST_F(GpuEngine, AnswersAsIfAloneButForCloseCalls) {
  constexpr uint32_t kRequests = 6, kTokens = 12;
  std::vector<Collector> collectors(kRequests);
  for (uint32_t i = 0; i < kRequests; i++) {
    accept(i, kTokens, collectors[i]);
    if (i % 2 == 1) core.step();
  }
  run_to_the_end();
  const LoadedModel alone = open_model();
  for (uint32_t i = 0; i < kRequests; i++) {
    SCOPED_TRACE(i);
    EXPECT_EQ(collectors[i].wait().reason, FinishReason::length);
    const auto& tokens = collectors[i].tokens();
    ASSERT_EQ(tokens.size(), kTokens);
    Session session = alone.session();
    auto known = prompt_of(i);
    auto logits = session.evaluate(known).value();
    for (const TokenId token : tokens) {
      std::vector<float> sorted(logits.begin(), logits.end());
      std::ranges::nth_element(sorted, sorted.begin() + 1, std::greater());
      const auto best = std::ranges::max_element(logits) - logits.begin();
      if (token.value != best) {
        EXPECT_LE(sorted[0] - sorted[1], 0.1f) << "the first difference must be a close call";
        break;
      }
      logits = session.evaluate(std::span(&token, 1)).value();
    }
  }
}

TEST_F(GpuEngine, ALaunchThatFailsEndsItsStepOnly) {
  Collector before, failed, after;
  accept(0, 4, before);
  run_to_the_end();
  accept(0, 4, failed);
  auto& controls = gpu::emu::controls();
  controls.fail_at = controls.n_calls + 3;
  core.step();
  controls.fail_at = 0;
  EXPECT_EQ(failed.wait().reason, FinishReason::error);
  EXPECT_EQ(failed.wait().error->code, ErrorCode::device_failed);
  EXPECT_FALSE(core.is_dead());
  accept(0, 4, after);
  run_to_the_end();
  EXPECT_EQ(after.wait().reason, FinishReason::length);
  EXPECT_EQ(after.tokens(), before.tokens());
}

}  // namespace
}  // namespace rocmforge
