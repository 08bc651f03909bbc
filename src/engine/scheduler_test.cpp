#include <gtest/gtest.h>

#include "engine/scheduler_driver.h"

namespace rocmforge {
namespace {

TEST(Scheduler, AClientWithFewerRunningSequencesIsAdmittedFirst) {
  Driver d({.n_pages = 20, .n_context = 1000, .max_running = 3, .max_step_tokens = 100, .max_step_outputs = 4});
  const auto submit = [&](uint64_t id, uint64_t client) {
    d.ends[id] = 4;
    ASSERT_TRUE(d.scheduler
                    .submit({.id = RequestId(id),
                             .tokens = prompt_of(2, static_cast<int>(id)),
                             .max_length = 4,
                             .client = ClientId(client)})
                    .ok());
  };
  for (uint64_t id = 1; id <= 6; id++) submit(id, 1);
  EXPECT_EQ(d.step(), (Rows{{1, 2}, {2, 2}, {3, 2}}));
  submit(7, 2);
  submit(8, 2);
  EXPECT_EQ(d.step(), (Rows{{1, 1}, {2, 1}, {3, 1}})) << "those that run end";
  EXPECT_EQ(d.step(), (Rows{{4, 2}, {5, 2}, {7, 2}})) << "by turns, each client's in order of arrival";
}

// One key's long answers in every place let a short request of another key wait until the first of them ended.
TEST(Scheduler, AClientWithAKeyLeavesAPlaceForOnesThatHaveNothingRunning) {
  Driver d({.n_pages = 200, .n_context = 1000, .max_running = 16, .max_step_tokens = 100, .max_step_outputs = 16});
  const auto submit = [&](uint64_t id, uint64_t client) {
    d.ends[id] = 90;
    ASSERT_TRUE(d.scheduler
                    .submit({.id = RequestId(id),
                             .tokens = prompt_of(2, static_cast<int>(id)),
                             .max_length = 90,
                             .client = ClientId(client)})
                    .ok());
  };
  for (uint64_t id = 1; id <= 20; id++) submit(id, 1);
  EXPECT_EQ(d.step().size(), 15u);
  EXPECT_EQ(d.step().size(), 15u);
  submit(21, 2);
  submit(22, 2);
  const Rows rows = d.step();
  ASSERT_EQ(rows.size(), 16u);
  EXPECT_TRUE(rows.contains(21) && !rows.contains(22));
  for (uint64_t id = 1; id <= 22; id++) d.scheduler.cancel(RequestId(id));

  for (uint64_t id = 101; id <= 120; id++) submit(id, 0);  // without keys nobody is told apart
  EXPECT_EQ(d.step().size(), 16u);
}

TEST(Scheduler, DecodesGoOnBesideALongPromptInChunks) {
  Driver d({.n_pages = 20, .n_context = 1000, .max_running = 4, .max_step_tokens = 100, .max_step_outputs = 4});
  d.submit(1, prompt_of(10), 50);
  EXPECT_EQ(d.step(), (Rows{{1, 10}}));
  d.submit(2, prompt_of(250, 500), 5);
  EXPECT_EQ(d.step(), (Rows{{1, 1}, {2, 99}}));
  EXPECT_EQ(d.step(), (Rows{{1, 1}, {2, 99}}));
  EXPECT_EQ(d.step(), (Rows{{1, 1}, {2, 52}}));
  EXPECT_EQ(d.step(), (Rows{{1, 1}, {2, 1}}));
}

TEST(Scheduler, CopiesOfARequestComputeTheirPromptOnce) {
  Driver d({.n_pages = 20, .n_context = 1000, .max_running = 4, .max_step_tokens = 320, .max_step_outputs = 4});
  for (uint64_t id = 1; id <= 3; id++) d.submit(id, prompt_of(300), 5);
  d.submit(4, prompt_of(10, 900), 5);
  EXPECT_EQ(d.step(), (Rows{{1, 300}, {4, 10}})) << "the copies wait, the stranger does not";
  EXPECT_EQ(d.step(), (Rows{{1, 1}, {2, 44}, {3, 44}, {4, 1}})) << "300 tokens are four pages and 44 more";
  EXPECT_EQ(d.cached, (Rows{{1, 0}, {2, 256}, {3, 256}, {4, 0}}));
  EXPECT_EQ(d.scheduler.stats().n_pages_used, 4u + 3 + 1);
}

TEST(Scheduler, AnotherSaltSharesNothing) {
  Driver d({.n_pages = 20, .n_context = 1000, .max_running = 4, .max_step_tokens = 400, .max_step_outputs = 4});
  d.submit(1, prompt_of(100), 1, "alice");
  d.step();
  d.submit(2, prompt_of(100), 1, "bob");
  d.submit(3, prompt_of(100), 1, "alice");
  EXPECT_EQ(d.step(), (Rows{{2, 100}, {3, 36}}));
}

TEST(Scheduler, AConversationFindsItsAnswerComputed) {
  Driver d({.n_pages = 20, .n_context = 1000, .max_running = 4, .max_step_tokens = 400, .max_step_outputs = 4});
  d.submit(1, prompt_of(60), 80);
  while (d.scheduler.has_work()) d.step();
  auto next = prompt_of(60);
  next.insert(next.end(), 80, TokenId(9));
  d.submit(2, next, 1);
  d.step();
  EXPECT_EQ(d.cached[2], 128u);
}

TEST(Scheduler, ThoseWhoWaitForACancelledOneComputeThemselves) {
  Driver d({.n_pages = 20, .n_context = 1000, .max_running = 4, .max_step_tokens = 100, .max_step_outputs = 4});
  for (uint64_t id = 1; id <= 2; id++) d.submit(id, prompt_of(300), 5);
  d.step();
  EXPECT_TRUE(d.scheduler.cancel(RequestId(1)));
  EXPECT_FALSE(d.scheduler.cancel(RequestId(1)));
  EXPECT_EQ(d.step(), (Rows{{2, 100}}));
  EXPECT_EQ(d.cached[2], 64u) << "one page was done";
}

TEST(Scheduler, TheNewestGivesWayWhenPagesRunOut) {
  Driver d({.n_pages = 4, .n_context = 1000, .max_running = 4, .max_step_tokens = 200, .max_step_outputs = 4});
  d.submit(1, prompt_of(60), 100);
  d.submit(2, prompt_of(60, 500), 100);
  uint64_t n_both = 0;
  bool was_alone = false;
  while (d.scheduler.has_work()) {
    const Rows rows = d.step();
    n_both += rows.size() == 2;
    was_alone |= rows == Rows{{1, 1}} && d.scheduler.stats().n_waiting == 1;
  }
  EXPECT_TRUE(was_alone);
  EXPECT_GT(n_both, 50u);
  EXPECT_EQ(d.scheduler.stats().n_preemptions, 1u);
}

TEST(Scheduler, RefusesWhatCanNeverFit) {
  const SchedulerOptions options{.n_pages = 2, .n_context = 1000};
  Scheduler scheduler(options);
  EXPECT_EQ(Scheduler::max_length(options), 128u);
  const auto submit = [&](uint64_t id, uint32_t n, uint32_t max_length) {
    return scheduler.submit({.id = RequestId(id), .tokens = prompt_of(n), .max_length = max_length});
  };
  EXPECT_TRUE(submit(1, 100, 128).ok());
  EXPECT_EQ(submit(2, 100, 129).error().code, ErrorCode::limit_exceeded);
  EXPECT_EQ(submit(3, 0, 10).error().code, ErrorCode::invalid_argument);
}

TEST(Scheduler, PagesOfACancelledSequenceAreFreeOnlyAfterItsStep) {
  Scheduler scheduler({.n_pages = 4, .n_context = 100});
  ASSERT_TRUE(scheduler.submit({.id = RequestId(1), .tokens = prompt_of(10), .max_length = 20}).ok());
  scheduler.schedule();
  EXPECT_TRUE(scheduler.cancel(RequestId(1)));
  EXPECT_EQ(scheduler.pool().n_free(), 3u);
  scheduler.commit(std::vector{RunResult{.token = TokenId(1)}});
  EXPECT_EQ(scheduler.pool().n_free(), 4u);
  EXPECT_FALSE(scheduler.has_work());
}

TEST(Scheduler, WhatFailedIsNotFoundByOthers) {
  Scheduler scheduler({.n_pages = 4, .n_context = 200, .max_step_tokens = 100});
  ASSERT_TRUE(scheduler.submit({.id = RequestId(1), .tokens = prompt_of(100), .max_length = 110}).ok());
  scheduler.schedule();
  scheduler.commit(std::vector{RunResult{.kind = RunResult::Kind::failed}});
  ASSERT_TRUE(scheduler.submit({.id = RequestId(2), .tokens = prompt_of(100), .max_length = 110}).ok());
  EXPECT_EQ(scheduler.schedule().runs[0].first_position, 0u);
}

// The texts of an encoder: rows of one attend to all others of it.
TEST(Scheduler, WholeSequencesAreOneRunAndShareNothing) {
  Scheduler scheduler({.n_pages = 20,
                       .n_context = 1000,
                       .max_running = 8,
                       .max_step_tokens = 200,
                       .max_step_outputs = 8,
                       .whole_sequences = true});
  EXPECT_EQ(Scheduler::max_length({.n_pages = 20, .n_context = 1000, .max_step_tokens = 200, .whole_sequences = true}),
            200u);
  for (const auto& [id, n] : {std::pair{1, 128}, {2, 100}, {3, 128}, {4, 72}}) {
    const auto length = static_cast<uint32_t>(n);
    const RequestId request(static_cast<uint64_t>(id));
    ASSERT_TRUE(scheduler.submit({.id = request, .tokens = prompt_of(n), .max_length = length}).ok());
  }
  EXPECT_FALSE(scheduler.submit({.id = RequestId(5), .tokens = prompt_of(201), .max_length = 201}).ok());
  for (const std::vector<size_t>& expected : {std::vector<size_t>{128}, {100}, {128, 72}}) {
    const StepPlan& plan = scheduler.schedule();
    ASSERT_EQ(plan.runs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); i++) {
      EXPECT_EQ(plan.runs[i].tokens.size(), expected[i]);
      EXPECT_EQ(plan.runs[i].first_position, 0u);
      EXPECT_EQ(plan.runs[i].outputs, RunOutputs::last);
      EXPECT_TRUE(plan.runs[i].is_last_of_known);
    }
    scheduler.commit(std::vector(expected.size(), RunResult{.kind = RunResult::Kind::ended}));
    EXPECT_TRUE(scheduler.is_consistent());
  }
  EXPECT_FALSE(scheduler.has_work());
  EXPECT_EQ(scheduler.pool().n_free(), 20u);
}

}  // namespace
}  // namespace rocmforge
