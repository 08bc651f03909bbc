#include <gtest/gtest.h>

#include "engine/cache_size.h"
#include "engine/scheduler_driver.h"

namespace rocmforge {
namespace {

constexpr uint32_t kWindow = 128;  // two pages

SchedulerOptions with_windows(uint32_t n_more) {
  SchedulerOptions options{
      .n_pages = 400, .n_context = 20'000, .max_running = 2, .max_step_tokens = 256, .max_step_outputs = 2};
  options.window = kWindow;
  options.n_window_pages = static_cast<uint32_t>(window_pages_for(kWindow, 2, 256)) + n_more;
  return options;
}

// `common` equal tokens, then `own` others.
std::vector<TokenId> forked(uint32_t common, uint32_t own, int name) {
  auto tokens = prompt_of(common);
  for (const TokenId token : prompt_of(own, 100'000 * name)) tokens.push_back(token);
  return tokens;
}

uint64_t finish(Driver& d) {
  uint64_t n_rows = 0;
  while (d.scheduler.has_work()) {
    for (const auto& [id, rows] : d.step()) n_rows += rows;
  }
  return n_rows;
}

TEST(SchedulerWindows, ALongSequenceHoldsNoMoreThanItsWindowReaches) {
  Driver d(with_windows(0));
  d.submit(1, prompt_of(10'000), 300);
  uint32_t most = 0;
  while (d.scheduler.has_work()) {
    d.step();
    most = std::max(most, d.scheduler.stats().n_window_pages_used);
  }
  EXPECT_LE(most, window_pages_for(kWindow, 1, 0)) << "between steps";
  EXPECT_EQ(d.scheduler.stats().n_window_pages_used, 0u);
  EXPECT_EQ(d.scheduler.stats().n_pages_used, 0u);
}

TEST(SchedulerWindows, AConversationGoesOnWhereItsAnswerEnded) {
  Driver d(with_windows(0));
  std::vector<TokenId> tokens = prompt_of(3000);
  uint64_t n_computed = 0;
  for (uint64_t turn = 1; turn <= 20; turn++) {
    for (const TokenId token : prompt_of(30, 1000 * static_cast<int>(turn))) tokens.push_back(token);
    d.submit(turn, tokens, 90);
    n_computed += finish(d);
    EXPECT_EQ(d.cached[turn], turn == 1 ? 0 : (tokens.size() - 30 - 1) / kPageTokens * kPageTokens) << turn;
    tokens.insert(tokens.end(), 90, TokenId(9));
  }
  EXPECT_EQ(d.scheduler.stats().n_recomputed, 0u);
  EXPECT_LT(n_computed, tokens.size() + 20 * kPageTokens) << "less than a page again in each turn";
}

// The answer is written otherwise than it was given, as templates do that leave thoughts out.
TEST(SchedulerWindows, AnotherAnswerGoesOnBehindThePrompt) {
  Driver d(with_windows(8));
  d.submit(1, prompt_of(2000), 500);
  finish(d);
  d.submit(2, forked(2000, 300, 1), 10);
  finish(d);
  EXPECT_EQ(d.cached[2], 1984u);
  EXPECT_EQ(d.scheduler.stats().n_recomputed, 0u);
}

TEST(SchedulerWindows, TheSecondWithACommonPrefixComputesItAgainAndTheThirdFindsIt) {
  Driver d(with_windows(8));
  d.submit(1, forked(1280, 5000, 1), 2);
  EXPECT_EQ(finish(d), 6281u);
  d.submit(2, forked(1280, 700, 2), 2);
  finish(d);
  EXPECT_EQ(d.cached[2], 0u) << "the pages of its window were given up";
  EXPECT_EQ(d.scheduler.stats().n_recomputed, 1280u);
  d.submit(3, forked(1280, 700, 3), 2);
  finish(d);
  EXPECT_EQ(d.cached[3], 1280u);
  const SchedulerStats stats = d.scheduler.stats();
  EXPECT_EQ(stats.n_recomputed, 1280u);
  EXPECT_EQ(stats.n_prefix_matched, 2560u);
  EXPECT_EQ(stats.n_prefix_hits, 1280u);
}

TEST(SchedulerWindows, PagesThatWerePassedServeWhileNobodyNeedsThem) {
  Driver d(with_windows(40));
  d.submit(1, prompt_of(1500), 2);
  finish(d);
  d.submit(2, forked(700, 50, 1), 2);
  finish(d);
  EXPECT_EQ(d.cached[2], 640u);
  EXPECT_EQ(d.scheduler.stats().n_recomputed, 0u);
}

TEST(SchedulerWindows, FewPagesLetFewerRun) {
  SchedulerOptions options = with_windows(0);
  options.max_running = 8;
  options.max_step_outputs = 8;
  Driver d(options);
  for (uint64_t id = 1; id <= 4; id++) d.submit(id, prompt_of(300, 1000 * static_cast<int>(id)), 200);
  while (d.scheduler.has_work()) {
    d.step();
    EXPECT_LE(d.scheduler.stats().n_running, 2u);
  }
}

TEST(SchedulerWindows, WhatIsForgottenIsFree) {
  Driver d(with_windows(10));
  d.submit(1, prompt_of(1000), 2);
  finish(d);
  EXPECT_GT(d.scheduler.stats().n_window_pages_cached, 0u);
  d.scheduler.forget_prefixes();
  EXPECT_EQ(d.scheduler.windows().n_free(), d.scheduler.windows().n_pages());
  EXPECT_TRUE(d.scheduler.is_consistent());
}

// ---- how memory is divided ----

// Sizes of Gemma 4 26B-A4B: 5 full layers of 2 heads of 512, 25 windowed ones of 8 heads of 256, f16.
constexpr uint64_t kFullBytes = uint64_t{kPageTokens} * 5 * 2 * 2 * 512 * 2;
constexpr uint64_t kWindowBytes = uint64_t{kPageTokens} * 25 * 2 * 8 * 256 * 2;
constexpr uint64_t kTerabyte = 1ull << 40;

TEST(WindowMemory, ALongConversationTakesLittleMoreThanItsWindowsNeed) {
  struct Shape {
    uint64_t full, windowed;
    uint32_t window;
  };
  // The second: gpt-oss 20B, 12 layers of each kind, 8 heads of 64.
  for (const Shape& shape : {Shape{kFullBytes, kWindowBytes, 1024},
                             Shape{uint64_t{kPageTokens} * 12 * 2048, uint64_t{kPageTokens} * 12 * 2048, 128}}) {
    const CacheUnits units{
        .page_bytes = shape.full + shape.windowed, .window_page_bytes = shape.windowed, .window = shape.window};
    SchedulerOptions options{.n_context = 128 << 10, .max_running = 1, .max_step_tokens = 256, .max_step_outputs = 1};
    options.n_pages = pages_for_tokens(options.n_context);
    divide_cache(options, units, kTerabyte, 100);
    ASSERT_GT(options.n_window_pages, 0u);
    const uint64_t taken = options.n_pages * shape.full + options.n_window_pages * shape.windowed;
    // Every position in full layers; in the others a window and the rows of a step.
    const uint64_t needed = 2048 * shape.full + (shape.window + 256) / kPageTokens * shape.windowed;
    EXPECT_LE(taken, needed + needed / 10) << shape.window;
    EXPECT_GE(taken, needed);
  }
}

TEST(WindowMemory, ShortSequencesKeepAllPagesTogether) {
  const CacheUnits units{.page_bytes = kFullBytes + kWindowBytes, .window_page_bytes = kWindowBytes, .window = 1024};
  SchedulerOptions options{.n_context = 1024, .max_running = 4, .max_step_tokens = 256, .max_step_outputs = 4};
  divide_cache(options, units, kTerabyte, 90);
  EXPECT_EQ(options.n_window_pages, 0u);
  EXPECT_EQ(options.n_pages, 64u);
}

TEST(WindowMemory, ScarceMemoryIsForPagesFirst) {
  const CacheUnits units{.page_bytes = kFullBytes + kWindowBytes, .window_page_bytes = kWindowBytes, .window = 1024};
  SchedulerOptions options{.n_context = 128 << 10, .max_running = 16, .max_step_tokens = 256, .max_step_outputs = 16};
  const uint64_t bytes = 4ull << 30;
  divide_cache(options, units, bytes, 90);
  ASSERT_GT(options.n_window_pages, 0u);
  EXPECT_LE(options.n_pages * kFullBytes + options.n_window_pages * kWindowBytes, bytes);
  EXPECT_LE(options.n_window_pages * kWindowBytes, bytes / 2);
  EXPECT_GE(options.n_pages, 500u);
}

}  // namespace
}  // namespace rocmforge
