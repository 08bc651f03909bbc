// Models with recurrent layers in the token loop: answers are a session's, and what requests have in common is
// computed once. All counts are exact.

#include <gtest/gtest.h>

#include <map>

#include "engine/generator.h"
#include "grammar/vocabulary_constraints.h"
#include "kv/page.h"
#include "support/golden_check.h"
#include "support/token_loop.h"
#include "support/variants.h"

namespace rocmforge {
namespace {

using testing::Collector;
using testing::joined;
using testing::TokenLoop;
using testing::variant_file;

#define NEED_VARIANT(path, name)               \
  const std::string path = variant_file(name); \
  if (path.empty()) GTEST_SKIP() << "the reference model '" << (name) << "' was not made"

const SchedulerOptions kRoomy = {
    .n_pages = 64, .n_context = 512, .max_running = 4, .max_step_tokens = 96, .max_step_outputs = 4};

class Recurrent : public ::testing::TestWithParam<std::string> {};

struct Asked {
  std::vector<TokenId> prompt;
  uint32_t n_answer;
};

// Prompts of many lengths; some begin alike, two are equal.
std::vector<Asked> some_requests(const TokenLoop& loop) {
  const auto common = loop.tokens(130, 1);
  return {{loop.tokens(1, 2), 9},
          {joined(common, loop.tokens(40, 3)), 12},
          {joined(common, loop.tokens(70, 4)), 5},
          {loop.tokens(63, 5), 70},
          {joined(common, loop.tokens(40, 3)), 12},
          {loop.tokens(65, 6), 3},
          {joined(loop.tokens(64, 1), loop.tokens(20, 7)), 20}};
}

void expect_answers(TokenLoop& loop, const std::vector<Asked>& requests,
                    const std::vector<std::vector<TokenId>>& expected, const SchedulerOptions& options,
                    uint32_t n_steps_between) {
  loop.start(options);
  std::vector<Collector> collectors(requests.size());
  for (size_t i = 0; i < requests.size(); i++) {
    loop.submit(requests[i].prompt, requests[i].n_answer, collectors[i]);
    for (uint32_t k = 0; k < n_steps_between && loop.core().has_work(); k++) loop.core().step();
  }
  loop.finish();
  for (size_t i = 0; i < requests.size(); i++) {
    EXPECT_EQ(collectors[i].tokens(), expected[i]) << i << ", " << n_steps_between;
  }
  EXPECT_EQ(loop.stats().scheduler.n_states_used, 0u);
  EXPECT_EQ(loop.stats().scheduler.n_pages_used, 0u);
}

TEST_P(Recurrent, AnswersAreASessionsAloneAndAmongOthers) {
  NEED_VARIANT(path, GetParam());
  TokenLoop loop(path);
  ASSERT_FALSE(HasFailure());
  const auto requests = some_requests(loop);
  std::vector<std::vector<TokenId>> expected;
  for (const auto& [prompt, n_answer] : requests) expected.push_back(loop.expected(prompt, n_answer));
  expect_answers(loop, requests, expected, kRoomy, 0);       // all at once
  expect_answers(loop, requests, expected, kRoomy, 3);       // while others are at work
  expect_answers(loop, requests, expected, kRoomy, 10'000);  // one after the other
  SchedulerOptions fine = kRoomy;                            // chunks of few rows
  fine.max_step_tokens = 7;
  expect_answers(loop, requests, expected, fine, 1);
  SchedulerOptions scarce = kRoomy;  // of slots, so that no state is kept for long
  scarce.n_states = 4;
  expect_answers(loop, requests, expected, scarce, 2);
}

TEST_P(Recurrent, PreemptionChangesNoAnswer) {
  NEED_VARIANT(path, GetParam());
  TokenLoop loop(path);
  ASSERT_FALSE(HasFailure());
  std::vector<Asked> requests;
  std::vector<std::vector<TokenId>> expected;
  for (uint32_t i = 0; i < 4; i++) {
    requests.push_back({loop.tokens(50 + i, 20 + i), 90});
    expected.push_back(loop.expected(requests[i].prompt, 90));
  }
  SchedulerOptions tight = kRoomy;
  tight.n_pages = 7;  // each needs three
  tight.n_states = 12;
  expect_answers(loop, requests, expected, tight, 1);
  EXPECT_GT(loop.stats().scheduler.n_preemptions, 0u);
}

TEST_P(Recurrent, WhoIsCancelledLeavesTheOthersAlone) {
  NEED_VARIANT(path, GetParam());
  TokenLoop loop(path);
  ASSERT_FALSE(HasFailure());
  const auto common = loop.tokens(150, 1);
  const auto expected = loop.expected(common, 10);
  for (const uint32_t n_steps : {0, 1, 3, 8}) {
    loop.start(kRoomy);
    std::vector<Collector> collectors(3);
    loop.submit(common, 10, collectors[0]);
    const RequestId leaver = loop.submit(joined(common, loop.tokens(9, 2)), 50, collectors[1]);
    for (uint32_t i = 0; i < n_steps; i++) loop.core().step();
    loop.core().cancel(leaver);
    loop.submit(common, 10, collectors[2]);
    loop.finish();
    EXPECT_EQ(collectors[0].tokens(), expected) << n_steps;
    EXPECT_EQ(collectors[1].wait().reason, FinishReason::cancelled);
    EXPECT_EQ(collectors[2].tokens(), expected) << n_steps;
    EXPECT_EQ(loop.stats().scheduler.n_states_used, 0u);
  }
}

const auto kNameOf = [](const auto& test) { return testing::test_name(test.param); };
INSTANTIATE_TEST_SUITE_P(Few, Recurrent,
                         ::testing::Values("lfm2", "qwen35moe", "mamba2", "mamba", "nemotron_h_moe-latent",
                                           "falcon-h1"),
                         kNameOf);
INSTANTIATE_TEST_SUITE_P(Other, Recurrent,
                         ::testing::Values("lfm2moe", "qwen35", "qwen3next", "nemotron_h", "nemotron_h_moe",
                                           "granitehybrid", "mamba-falcon", "jamba", "plamo2"),
                         kNameOf);

// ---- what is computed, of a model with recurrent and attending layers ----

struct Sharing : ::testing::Test {
  void SetUp() override { open("qwen35"); }
  void open(const char* model) {
    const std::string path = variant_file(model);
    if (path.empty()) GTEST_SKIP() << "the reference model was not made";
    loop = std::make_unique<TokenLoop>(path);
    SchedulerOptions options = kRoomy;
    if (loop->plan().has_states()) {
      options.n_states = 24;
      options.state_spacing = 4;
    }
    loop->start(options);
  }
  // Rows that a request took.
  uint64_t rows_of(const std::vector<TokenId>& prompt, uint32_t n_answer) {
    const uint64_t before = loop->stats().n_rows;
    answer = loop->ask(prompt, n_answer);
    return loop->stats().n_rows - before;
  }

  std::unique_ptr<TokenLoop> loop;
  std::vector<TokenId> answer;
};

TEST_F(Sharing, TheThirdWithACommonPrefixFindsItsState) {
  const auto common = loop->tokens(150, 1);  // two pages and a part
  EXPECT_EQ(rows_of(joined(common, loop->tokens(100, 2)), 1), 250u);
  EXPECT_EQ(rows_of(joined(common, loop->tokens(100, 3)), 1), 250u) << "two pages of keys found, but no state";
  EXPECT_EQ(loop->stats().scheduler.n_recomputed, 128u);
  EXPECT_EQ(rows_of(joined(common, loop->tokens(100, 4)), 1), 122u);
  EXPECT_EQ(loop->usage.n_cached, 128u);
  const SchedulerStats stats = loop->stats().scheduler;
  EXPECT_EQ(stats.n_prefix_queries, 750u);
  EXPECT_EQ(stats.n_prefix_matched, 256u);
  EXPECT_EQ(stats.n_prefix_hits, 128u);
  EXPECT_EQ(stats.n_recomputed, 128u);
}

TEST_F(Sharing, TwoAtOnceWithACommonPrefixComputeItOnce) {
  const auto common = loop->tokens(150, 1);
  std::vector<Collector> collectors(2);
  for (uint32_t i = 0; i < 2; i++) loop->submit(joined(common, loop->tokens(100, 2 + i)), 1, collectors[i]);
  loop->finish();
  EXPECT_EQ(loop->stats().n_rows, 250u + 122u);
  EXPECT_EQ(loop->stats().scheduler.n_recomputed, 0u);
}

TEST_F(Sharing, AConversationOf20TurnsComputesLessThanAPageAgainInEach) {
  std::vector<TokenId> conversation;
  uint64_t n_rows = 0, n_new = 0;
  for (uint32_t turn = 0; turn < 20; turn++) {
    conversation = joined(conversation, loop->tokens(12, 100 + turn));
    const uint64_t n_cached = turn == 0 ? 0 : (conversation.size() - 12 - 1) / kPageTokens * kPageTokens;
    n_rows += rows_of(conversation, 10);
    EXPECT_EQ(loop->usage.n_cached, n_cached) << turn;
    n_new += 12 + 10;
    conversation = joined(conversation, answer);
  }
  EXPECT_EQ(loop->stats().scheduler.n_recomputed, 0u);
  EXPECT_LT(n_rows, n_new + 20 * kPageTokens);
}

TEST_F(Sharing, AnEditedFirstMessageComputesFromItsPageOn) {
  const auto rules = loop->tokens(140, 1), question = loop->tokens(130, 2);
  rows_of(joined(joined(rules, loop->tokens(20, 3)), question), 1);
  // The edit lies in the third page: two are the same, whose state was not kept yet.
  EXPECT_EQ(rows_of(joined(joined(rules, loop->tokens(20, 4)), question), 1), 290u);
  EXPECT_EQ(loop->stats().scheduler.n_recomputed, 128u);
  // Edited once more it costs what comes behind the two pages.
  EXPECT_EQ(rows_of(joined(joined(rules, loop->tokens(20, 5)), question), 1), 162u);
  EXPECT_EQ(loop->stats().scheduler.n_recomputed, 128u);
}

TEST_F(Sharing, EmbeddingsNeitherFindNorLeaveStates) {
  const auto tokens = loop->tokens(200, 1);
  rows_of(tokens, 1);
  const uint64_t before = loop->stats().n_rows;
  const uint32_t n_kept = loop->stats().scheduler.n_states_cached;
  Collector collector;
  loop->core().accept(std::make_unique<LiveRequest>(RequestId(99), EmbeddingRequest{tokens, Pooling::mean},
                                                    collector.receiver(), system_clock()()));
  loop->finish();
  EXPECT_FALSE(collector.wait().embedding.empty());
  EXPECT_EQ(loop->stats().n_rows - before, 200u);
  EXPECT_EQ(loop->stats().scheduler.n_states_cached, n_kept);
}

// ---- the same of a model with windows, which finds whatever pages there are ----

struct WindowedSharing : Sharing {
  void SetUp() override { open("gemma4"); }
};

TEST_F(WindowedSharing, TheSecondWithACommonPrefixBeginsBehindIt) {
  const auto common = loop->tokens(150, 1);
  const auto second = joined(common, loop->tokens(100, 3));
  EXPECT_EQ(rows_of(joined(common, loop->tokens(100, 2)), 1), 250u);
  EXPECT_EQ(rows_of(second, 8), 122u + 7);
  EXPECT_EQ(loop->usage.n_cached, 128u);
  EXPECT_EQ(loop->stats().scheduler.n_prefix_matched, 128u);
  EXPECT_EQ(loop->stats().scheduler.n_recomputed, 0u);
  const auto shared = answer;
  EXPECT_EQ(shared, loop->expected(second, 8));
}

TEST_F(WindowedSharing, AConversationOf20TurnsComputesLessThanAPageAgainInEach) {
  std::vector<TokenId> conversation;
  uint64_t n_rows = 0, n_new = 0;
  for (uint32_t turn = 0; turn < 20; turn++) {
    conversation = joined(conversation, loop->tokens(12, 100 + turn));
    const uint64_t n_cached = turn == 0 ? 0 : (conversation.size() - 12 - 1) / kPageTokens * kPageTokens;
    n_rows += rows_of(conversation, 10);
    EXPECT_EQ(loop->usage.n_cached, n_cached) << turn;
    n_new += 12 + 10;
    conversation = joined(conversation, answer);
  }
  EXPECT_LT(n_rows, n_new + 20 * kPageTokens);
}

TEST_F(WindowedSharing, AnEditedFirstMessageComputesFromItsPageOn) {
  const auto rules = loop->tokens(140, 1), question = loop->tokens(130, 2);
  EXPECT_EQ(rows_of(joined(joined(rules, loop->tokens(20, 3)), question), 1), 290u);
  EXPECT_EQ(rows_of(joined(joined(rules, loop->tokens(20, 4)), question), 1), 162u);
}

// ---- memory ----

TEST(RecurrentMemory, SlotsAreInTheBudgetAndInTheBill) {
  NEED_VARIANT(path, "qwen35");
  TokenLoop loop(path);
  const ExecutionPlan& plan = loop.plan();
  const CacheUnits units = CacheUnits::of(plan, KvType::f16);
  EXPECT_EQ(units.state_bytes, plan.state_bytes());
  SchedulerOptions options = kRoomy;
  options.n_pages = 0;
  // Room for one sequence's pages and five states: two at work, three to keep.
  const uint64_t bytes = 8 * units.page_bytes + 5 * units.state_bytes;
  options.n_context = 512;
  divide_cache(options, units, 2 * bytes, 50);
  const MemoryBill bill = plan.memory_bill(plan.pass_memory(96, 4, options.n_pages, KvType::f16, options.n_states));
  EXPECT_GE(options.n_pages, 8u);
  EXPECT_GE(options.n_states, 2u);
  EXPECT_LE(bill.kv_bytes + bill.state_bytes, 2 * bytes);
  EXPECT_EQ(bill.state_bytes, options.n_states * units.state_bytes);
  EXPECT_EQ(bill.kv_bytes, options.n_pages * units.page_bytes);
}

TEST(RecurrentMemory, ABudgetOfFewSlotsLetsFewerRunToTheSameAnswers) {
  NEED_VARIANT(path, "mamba2");
  TokenLoop loop(path);
  const auto prompt = loop.tokens(100, 1), other = loop.tokens(90, 2);
  const auto expected = loop.expected(prompt, 8), of_other = loop.expected(other, 8);
  SchedulerOptions options = kRoomy;
  options.n_states = 2;
  loop.start(options);
  std::vector<Collector> collectors(2);
  loop.submit(prompt, 8, collectors[0]);
  loop.submit(other, 8, collectors[1]);
  loop.core().step();
  EXPECT_EQ(loop.stats().scheduler.n_running, 1u);
  loop.finish();
  EXPECT_EQ(collectors[0].tokens(), expected);
  EXPECT_EQ(collectors[1].tokens(), of_other);
}

// Layers that are read again in every pass read and write the same states.
TEST(RecurrentMemory, StreamedLayersGiveTheSameAnswers) {
  NEED_VARIANT(path, "qwen35");
  TokenLoop loop(path);
  const auto prompt = loop.tokens(100, 1);
  const auto expected = loop.expected(prompt, 8);
  CpuBackend backend({.n_threads = 2});
  auto file = std::make_shared<gguf::GgufFile>(gguf::GgufFile::open(path).value());
  const PassSize pass = {.max_rows = 64, .max_outputs = 4, .n_pages = 8};
  const PlanOptions roomy{.weights = {.n_loaders = 2}, .n_context = 256, .pass = pass};
  const auto whole = ExecutionPlan::from_gguf(backend, file, roomy).value();
  const MemoryBill bill = whole->memory_bill(whole->pass_memory(64, 4, 8, KvType::f16, ExecutionPlan::kStatesBudgeted));
  PlanOptions tight = roomy;
  std::unique_ptr<ExecutionPlan> plan;
  // The least with which layers are streamed.
  for (uint64_t part = 9; part > 0 && !plan; part--) {
    tight.budget_bytes = bill.total() - bill.weight_bytes + bill.weight_bytes * part / 10;
    auto made = ExecutionPlan::from_gguf(backend, file, tight);
    if (made.ok() && !(*made)->streamed_stages().empty()) plan = std::move(*made);
  }
  ASSERT_TRUE(plan) << "too small to be streamed";
  SchedulerOptions options{.n_pages = 8,
                           .n_context = 256,
                           .max_running = 2,
                           .max_step_tokens = 64,
                           .max_step_outputs = 4,
                           .n_states = ExecutionPlan::kStatesBudgeted};
  EngineCore core(*plan, options, KvType::f16, system_clock());
  for (uint64_t id = 1; id <= 2; id++) {
    Collector collector;
    GenerationRequest request{
        .prompt = prompt, .sampling = testing::greedy(), .max_tokens = 8, .ignore_end_of_text = true};
    core.accept(std::make_unique<LiveRequest>(RequestId(id), std::move(request), 8, collector.receiver(),
                                              **loop.model().tokenizer(), system_clock()()));
    while (core.has_work()) core.step();
    EXPECT_EQ(collector.tokens(), expected);
  }
}

// A state cannot go back: where the choice of a token takes long, the step waits for it.
TEST(RecurrentMemory, AChoiceThatTakesLongIsWaitedFor) {
  NEED_VARIANT(path, "qwen35");
  TokenLoop loop(path);
  const tokenizer::Tokenizer& tokenizer = **loop.model().tokenizer();
  grammar::VocabularyConstraints constraints(tokenizer);
  const auto constraint = constraints.compile({.notation = grammar::Notation::regex, .text = "[^ab\\n]*"}).value();
  const auto answers = [&](const SideWorkLimits& limits) {
    SchedulerOptions options{
        .n_pages = 16, .n_context = 256, .max_running = 4, .max_step_tokens = 64, .max_step_outputs = 4};
    divide_cache(options, CacheUnits::of(loop.plan(), KvType::f16), 1ull << 40, 90);
    EXPECT_GT(options.n_states, 0u);
    EngineCore core(loop.plan(), options, KvType::f16, system_clock(), {.side_work = limits});
    std::vector<Collector> collectors(3);
    for (uint64_t i = 0; i < collectors.size(); i++) {
      GenerationRequest request{.prompt = loop.tokens(30, static_cast<uint32_t>(i)), .sampling = testing::greedy()};
      if (i > 0) request.constraint = ConstraintChoice{constraint, constraints.vocabulary()};
      core.accept(std::make_unique<LiveRequest>(RequestId(i + 1), std::move(request), 20, collectors[i].receiver(),
                                                tokenizer, system_clock()()));
    }
    while (core.has_work()) core.step();
    std::vector<std::vector<TokenId>> out;
    for (const Collector& collector : collectors) out.push_back(collector.tokens());
    return out;
  };
  const auto at_once = answers({.slow = std::chrono::hours(1)});
  EXPECT_GT(at_once[1].size(), 1u);
  EXPECT_EQ(answers({.slow = Duration(-1), .wary = std::chrono::hours(1), .of_step = Duration(0)}), at_once);
}

// A generator keeps states from one prompt to the next, as chat does.
TEST(RecurrentMemory, AGeneratorGoesOnFromThePromptBefore) {
  NEED_VARIANT(path, "lfm2");
  TokenLoop loop(path);
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
