#include <gtest/gtest.h>

#include "engine/scheduler_driver.h"

namespace rocmforge {
namespace {

SchedulerOptions with_states(uint32_t n_states, uint32_t spacing) {
  return {.n_pages = 200,
          .n_context = 5000,
          .max_running = 4,
          .max_step_tokens = 512,
          .max_step_outputs = 4,
          .n_states = n_states,
          .state_spacing = spacing};
}

// `common` equal tokens, then `own` others.
std::vector<TokenId> forked(uint32_t common, uint32_t own, int name) {
  auto tokens = prompt_of(common);
  for (const TokenId token : prompt_of(own, 10'000 * name)) tokens.push_back(token);
  return tokens;
}

void finish(Driver& d) {
  while (d.scheduler.has_work()) d.step();
}

TEST(SchedulerStates, TheSecondWithACommonPrefixComputesItAgainForItsStateAndTheThirdFindsIt) {
  Driver d(with_states(20, 100));
  d.submit(1, forked(320, 200, 1), 2);
  finish(d);
  d.submit(2, forked(320, 200, 2), 2);
  EXPECT_EQ(d.step(), (Rows{{2, 320}})) << "cut where the match ends";
  EXPECT_EQ(d.last.first_stored, 320u) << "keys and values are there";
  finish(d);
  EXPECT_EQ(d.cached[2], 0u);
  EXPECT_EQ(d.scheduler.stats().n_recomputed, 320u);
  d.submit(3, forked(320, 200, 3), 2);
  finish(d);
  EXPECT_EQ(d.cached[3], 320u);
  const SchedulerStats stats = d.scheduler.stats();
  EXPECT_EQ(stats.n_recomputed, 320u);
  EXPECT_EQ(stats.n_prefix_matched, 640u);
  EXPECT_EQ(stats.n_prefix_hits, 320u);
}

TEST(SchedulerStates, WhoWaitsForACommonPrefixBeginsWhereItParts) {
  for (const bool at_once : {true, false}) {
    Driver d(with_states(20, 100));
    d.submit(1, forked(640, 300, 1), 2);
    if (!at_once) {
      EXPECT_EQ(d.step(), (Rows{{1, 512}}));
    }
    d.submit(2, forked(640, 200, 2), 2);
    finish(d);
    EXPECT_EQ(d.cached[2], 640u);
    EXPECT_EQ(d.scheduler.stats().n_recomputed, 0u);
  }
}

TEST(SchedulerStates, AConversationGoesOnFromTheLastPageOfEachAnswer) {
  Driver d(with_states(8, 100));
  std::vector<TokenId> tokens;
  uint64_t n_computed = 0;
  for (uint64_t turn = 1; turn <= 20; turn++) {
    for (const TokenId token : prompt_of(30, 1000 * static_cast<int>(turn))) tokens.push_back(token);
    d.submit(turn, tokens, 90);
    while (d.scheduler.has_work()) {
      for (const auto& [id, rows] : d.step()) n_computed += rows;
    }
    EXPECT_EQ(d.cached[turn], turn == 1 ? 0 : (tokens.size() - 30 - 1) / kPageTokens * kPageTokens) << turn;
    tokens.insert(tokens.end(), 90, TokenId(9));
  }
  EXPECT_EQ(d.scheduler.stats().n_recomputed, 0u);
  EXPECT_LT(n_computed, tokens.size() + 20 * kPageTokens) << "less than a page again in each turn";
}

TEST(SchedulerStates, AnAnswerKeepsThePromptsStateAndItsOwnLast) {
  Driver d(with_states(20, 100));
  d.submit(1, prompt_of(100), 640);
  finish(d);
  EXPECT_EQ(d.scheduler.stats().n_states_cached, 2u);
  d.submit(2, forked(64, 100, 2), 1);
  d.step();
  EXPECT_EQ(d.cached[2], 64u) << "the same prompt, asked again";
}

TEST(SchedulerStates, ASpacingBoundsWhatAnEditInTheMiddleCosts) {
  Driver d(with_states(40, 4));
  d.submit(1, prompt_of(3000), 1);
  finish(d);
  d.submit(2, forked(1500, 1500, 2), 1);
  finish(d);
  EXPECT_GE(d.cached[2], 1472u - (4 * kPageTokens + 512));
  EXPECT_EQ(d.scheduler.stats().n_recomputed, 1472u - d.cached[2]);
}

TEST(SchedulerStates, LongPromptsAreHardlyCutShorter) {
  Driver d(with_states(40, 8));
  d.submit(1, prompt_of(4000), 1);
  uint32_t n_steps = 0;
  for (; d.scheduler.has_work(); n_steps++) d.step();
  EXPECT_EQ(n_steps, 9u) << "eight of 512, and the rest behind the last boundary";
}

TEST(SchedulerStates, WhoIsPreemptedGoesOnFromItsLastPage) {
  SchedulerOptions options = with_states(8, 100);
  options.n_pages = 10;
  Driver d(options);
  d.submit(1, prompt_of(130), 230);
  d.submit(2, prompt_of(100, 500), 250);
  uint64_t n_rows = 0;
  while (d.scheduler.has_work()) {
    for (const auto& [id, rows] : d.step()) n_rows += id == 2 ? rows : 0;
  }
  EXPECT_EQ(d.scheduler.stats().n_preemptions, 1u);
  EXPECT_LT(n_rows, 350u + kPageTokens);
}

TEST(SchedulerStates, FewerSlotsLetFewerRun) {
  Driver d(with_states(4, 100));
  for (uint64_t id = 1; id <= 4; id++) d.submit(id, prompt_of(10, 100 * static_cast<int>(id)), 5);
  EXPECT_EQ(d.step().size(), 2u);
  finish(d);
  EXPECT_EQ(d.scheduler.stats().n_states_used, 0u);
}

TEST(SchedulerStates, AStepThatWasStoppedLeavesTheStateItBeganFrom) {
  Driver d(with_states(4, 100));
  d.submit(1, prompt_of(200), 1);
  finish(d);
  d.submit(2, forked(192, 100, 2), 5);
  const SequenceRun run = d.scheduler.schedule().runs[0];
  EXPECT_EQ(run.first_position, 192u);
  EXPECT_NE(run.state_before, run.state_after);
  d.scheduler.commit(std::vector{RunResult{.kind = RunResult::Kind::stopped}});
  d.submit(3, forked(192, 100, 2), 5);
  d.step();
  EXPECT_EQ(d.cached[3], 192u);
}

TEST(SchedulerStates, WhatFailedGivesUpTheStateItBeganFrom) {
  Driver d(with_states(4, 100));
  d.submit(1, prompt_of(200), 1);
  finish(d);
  d.submit(2, forked(192, 100, 2), 5);
  d.scheduler.schedule();
  d.scheduler.commit(std::vector{RunResult{.kind = RunResult::Kind::failed}});
  EXPECT_EQ(d.scheduler.stats().n_states_cached, 0u);
  EXPECT_TRUE(d.scheduler.is_consistent());
}

}  // namespace
}  // namespace rocmforge
