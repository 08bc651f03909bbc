// Models with windows in the token loop, whose windowed layers have pages of their own and give them back: answers are
// a session's, which keeps everything. The answers are longer than the windows of 16.

#include <gtest/gtest.h>

#include "engine/generator.h"
#include "support/golden_check.h"
#include "support/token_loop.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::Collector;
using testing::joined;
using testing::TokenLoop;

// The fewest pages with which as many run.
SchedulerOptions tight_options(const ExecutionPlan& plan, uint32_t n_rows = 96) {
  SchedulerOptions options{
      .n_pages = 64, .n_context = 512, .max_running = 4, .max_step_tokens = n_rows, .max_step_outputs = 4};
  options.window = plan.window();
  options.n_window_pages = static_cast<uint32_t>(window_pages_for(plan.window(), 4, n_rows));
  return options;
}

// A context in which windows save pages, longer than the small models were made for.
std::vector<gguf::Override> long_context() {
  return {gguf::parse_override(".context_length=int:2048").value()};
}

class Windows : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = testing::variant_file(GetParam());
    if (path_.empty()) path_ = testing::model_file(GetParam());
    if (path_.empty()) GTEST_SKIP() << "the reference model '" << GetParam() << "' was not made";
  }
  std::string path_;
};

TEST_P(Windows, AnswersAreASessionsAloneAndAmongOthers) {
  TokenLoop loop(path_);
  ASSERT_FALSE(HasFailure());
  ASSERT_GT(loop.plan().window(), 0u);
  const auto common = loop.tokens(130, 1);
  const std::vector<std::vector<TokenId>> prompts = {loop.tokens(1, 2), joined(common, loop.tokens(40, 3)),
                                                     joined(common, loop.tokens(60, 4)), loop.tokens(63, 5),
                                                     joined(common, loop.tokens(40, 3))};
  std::vector<std::vector<TokenId>> expected;
  for (const auto& prompt : prompts) expected.push_back(loop.expected(prompt, 70));
  struct Case {
    SchedulerOptions options;
    uint32_t n_steps_between;
  };
  SchedulerOptions few_pages = tight_options(loop.plan());
  few_pages.n_pages = 6;
  for (const Case& c : {Case{tight_options(loop.plan()), 0}, Case{tight_options(loop.plan()), 10'000},
                        Case{tight_options(loop.plan(), 7), 3}, Case{few_pages, 1}}) {
    loop.start(c.options);
    std::vector<Collector> collectors(prompts.size());
    for (size_t i = 0; i < prompts.size(); i++) {
      loop.submit(prompts[i], 70, collectors[i]);
      for (uint32_t k = 0; k < c.n_steps_between && loop.core().has_work(); k++) loop.core().step();
    }
    loop.finish();
    for (size_t i = 0; i < prompts.size(); i++) {
      EXPECT_EQ(collectors[i].tokens(), expected[i]) << i << ", " << c.n_steps_between;
    }
    EXPECT_EQ(loop.stats().scheduler.n_window_pages_used, 0u);
    EXPECT_EQ(loop.stats().scheduler.n_pages_used, 0u);
  }
  EXPECT_GT(loop.stats().scheduler.n_preemptions, 0u) << "of the last case";
}

TEST_P(Windows, PagesOfBothKindsAreInTheBill) {
  const auto model = Model::open(path_, {.device = "cpu", .n_threads = 1}).value();
  const ExecutionPlan& plan = model->plan();
  const CacheUnits units = CacheUnits::of(plan, KvType::f16);
  ASSERT_GT(units.window_page_bytes, 0u);
  const MemoryBill together = plan.memory_bill(plan.pass_memory(8, 1, 40, KvType::f16));
  const MemoryBill apart = plan.memory_bill(plan.pass_memory(8, 1, 40, KvType::f16, 0, 5));
  EXPECT_EQ(together.kv_bytes, 40 * units.page_bytes);
  EXPECT_EQ(together.window_bytes, 0u);
  EXPECT_EQ(apart.window_bytes, 5 * units.window_page_bytes);
  EXPECT_EQ(apart.kv_bytes, 40 * (units.page_bytes - units.window_page_bytes) + apart.window_bytes);
  EXPECT_EQ(apart.workspace_bytes, together.workspace_bytes);
}

const auto kNameOf = [](const auto& test) { return testing::test_name(test.param); };
INSTANTIATE_TEST_SUITE_P(Few, Windows, ::testing::Values("gemma4", "gemma4-e2b", "olmo2-swa", "step35"), kNameOf);
INSTANTIATE_TEST_SUITE_P(Other, Windows,
                         ::testing::Values("gemma4-moe", "mimo2", "cohere2", "exaone-moe", "afmoe", "plamo3", "laguna",
                                           "mellum", "granite_swa", "cohere2moe"),
                         kNameOf);

// Layers that are read again in every pass, and window pages, in a budget that has room for neither's whole.
TEST(WindowsOfAGenerator, AnswerTheSameWithStreamedLayers) {
  const std::string path = testing::variant_file("gemma4");
  if (path.empty()) GTEST_SKIP() << "the reference model was not made";
  TokenLoop loop(path);
  const auto prompt = loop.tokens(150, 1);
  const auto expected = loop.expected(prompt, 40);
  CpuBackend backend({.n_threads = 2});
  auto file = std::make_shared<gguf::GgufFile>(gguf::GgufFile::open(path).value());
  const PassSize pass = {.max_rows = 64, .in_token_loop = true};
  const PlanOptions roomy{.weights = {.n_loaders = 2}, .n_context = 512, .pass = pass};
  const auto whole = ExecutionPlan::from_gguf(backend, file, roomy).value();
  const auto n_windows = static_cast<uint32_t>(window_pages_for(whole->window(), 1, 64));
  const MemoryBill kept = whole->memory_bill(whole->pass_memory(64, 1, 8, KvType::f16));
  const MemoryBill bill = whole->memory_bill(whole->pass_memory(64, 1, 8, KvType::f16, 0, n_windows));
  EXPECT_LT(bill.kv_bytes, kept.kv_bytes);
  PlanOptions tight = roomy;
  std::unique_ptr<ExecutionPlan> plan;
  // The least with which layers are streamed.
  for (uint64_t part = 9; part > 0 && !plan; part--) {
    tight.budget_bytes = bill.total() - bill.weight_bytes + bill.weight_bytes * part / 10;
    auto made = ExecutionPlan::from_gguf(backend, file, tight);
    if (made.ok() && !(*made)->streamed_stages().empty()) plan = std::move(*made);
  }
  ASSERT_TRUE(plan) << "too small to be streamed";
  SchedulerOptions options{
      .n_pages = 8, .n_context = 512, .max_running = 1, .max_step_tokens = 64, .max_step_outputs = 1};
  options.window = plan->window();
  options.n_window_pages = n_windows;
  ASSERT_TRUE(plan->check_budget(plan->pass_memory(64, 1, 8, KvType::f16, 0, n_windows)).ok());
  EngineCore core(*plan, options, KvType::f16, system_clock());
  for (uint64_t id = 1; id <= 2; id++) {
    Collector collector;
    GenerationRequest request{
        .prompt = prompt, .sampling = testing::greedy(), .max_tokens = 40, .ignore_end_of_text = true};
    core.accept(std::make_unique<LiveRequest>(RequestId(id), std::move(request), 40, collector.receiver(),
                                              **loop.model().tokenizer(), system_clock()()));
    while (core.has_work()) core.step();
    EXPECT_EQ(collector.tokens(), expected);
  }
}

// What a budget leaves beside weights is enough for a generator of the whole context.
TEST(WindowsOfAGenerator, FitABudget) {
  const std::string path = testing::variant_file("gemma4");
  if (path.empty()) GTEST_SKIP() << "the reference model was not made";
  CpuBackend backend({.n_threads = 1});
  auto file = std::make_shared<gguf::GgufFile>(gguf::GgufFile::open(path).value());
  ASSERT_TRUE(file->override_metadata(long_context()).ok());
  PlanOptions options{.weights = {.n_loaders = 1}, .n_context = 2048, .pass = {.in_token_loop = true}};
  const auto whole = ExecutionPlan::from_gguf(backend, file, options).value();
  const MemoryBill bill = Generator::memory_bill(*whole).value();
  ASSERT_GT(bill.window_bytes, 0u);
  size_t n_fitted = 0;
  for (uint64_t part = 100; part > 0; part -= 5) {
    options.budget_bytes = bill.total() - bill.weight_bytes + bill.weight_bytes * part / 100;
    const auto made = ExecutionPlan::from_gguf(backend, file, options);
    if (!made.ok()) continue;
    const auto fitted = Generator::memory_bill(**made);
    ASSERT_TRUE(fitted.ok()) << fitted.error().message;
    EXPECT_LE(fitted->total(), *options.budget_bytes);
    EXPECT_TRUE(Generator::create(**made).ok());
    n_fitted++;
  }
  EXPECT_GT(n_fitted, 3u);
}

// A generator keeps window pages from one prompt to the next, as chat does.
TEST(WindowsOfAGenerator, GoOnFromThePromptBefore) {
  const std::string path = testing::variant_file("gemma4");
  if (path.empty()) GTEST_SKIP() << "the reference model was not made";
  TokenLoop loop(path, {.device = "cpu", .n_threads = 2, .n_context = 2048, .overrides = long_context()});
  ASSERT_FALSE(HasFailure());
  EXPECT_GT(Generator::memory_bill(loop.plan())->window_bytes, 0u);
  auto prompt = loop.tokens(130, 1);
  const auto generator = Generator::create(loop.plan()).value();
  GenerateOptions options;
  options.sampling = testing::greedy();
  options.max_tokens = 70;
  options.ignore_end_of_text = true;
  const auto receive = [](std::string_view) { return true; };
  const auto first = generator->generate(**loop.model().tokenizer(), prompt, options, receive);
  ASSERT_TRUE(first.ok()) << first.error().message;
  prompt = joined(joined(prompt, first->tokens), loop.tokens(5, 2));
  const auto second = generator->generate(**loop.model().tokenizer(), prompt, options, receive);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->n_cached, 192u);
  EXPECT_EQ(second->tokens, loop.expected(prompt, 70));
}

}  // namespace
}  // namespace rocmforge
