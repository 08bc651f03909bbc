// Work of constraints beside the engine's thread: answers are the same, and nobody else waits.

#include "engine/side_work.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "grammar/matcher.h"
#include "grammar/vocabulary_constraints.h"
#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;
using testing::Collector;
using testing::story_engine;

// Nothing is trusted after the first piece of work, and no step waits.
constexpr SideWorkLimits kAlwaysBeside = {.slow = Duration(-1), .wary = 24h, .of_step = Duration(0)};

TEST(SideWork, QuickWorkIsDoneAtOnceByTheCaller) {
  SideWork side({.slow = 1h});
  for (int i = 0; i < 3; i++) {
    side.begin_step(false);
    std::thread::id by;
    EXPECT_TRUE(side.begin([&] { by = std::this_thread::get_id(); })->is_done);
    EXPECT_EQ(by, std::this_thread::get_id());
  }
}

TEST(SideWork, AfterSlowWorkTheNextIsDoneByOthersAndNotWaitedForWithoutEnd) {
  SideWork side({.slow = Duration(-1), .wary = 24h, .of_step = 1ms});
  side.begin_step(false);
  side.begin([] {});
  std::promise<void> release;
  std::thread::id by;
  side.begin_step(false);
  const auto job = side.begin([&, released = release.get_future().share()] {
    released.wait();
    by = std::this_thread::get_id();
  });
  side.wait();
  EXPECT_FALSE(job->is_done);
  const uint64_t n_before = side.n_done();
  side.wait_for_another(n_before, 1ms);
  EXPECT_FALSE(job->is_done);
  release.set_value();
  while (!job->is_done) side.wait_for_another(n_before, 1ms);
  EXPECT_NE(by, std::this_thread::get_id());
  side.begin_step(true);
  const auto last = side.begin([] { std::this_thread::sleep_for(20ms); });
  side.wait();
  EXPECT_TRUE(last->is_done) << "told to wait for all";
}

TEST(SideWork, TheRequestComesFirstOnWhichTheLeastTimeWasSpent) {
  SideWork side({.slow = Duration(-1), .wary = 24h, .of_step = Duration(0)});
  side.begin_step(false);
  side.begin([] {});
  std::promise<void> release;
  const auto released = release.get_future().share();
  std::mutex mutex;
  std::vector<int> order;
  side.begin_step(true);
  for (int i = 0; i < 2; i++) side.begin([released] { released.wait(); });  // both threads
  std::this_thread::sleep_for(50ms);                                        // until they have begun
  for (const int spent : {3, 1, 2, 1}) {
    side.begin(
        [&, spent] {
          const std::lock_guard lock(mutex);
          order.push_back(spent);
        },
        std::chrono::seconds(spent));
  }
  release.set_value();
  side.wait();
  // Two threads: neighbours may change places.
  ASSERT_EQ(order.size(), 4u);
  EXPECT_EQ(order[0], 1);
  EXPECT_GE(order[3], 2);
}

TEST(SideWork, DropsWhatHasNotBegun) {
  std::atomic<int> n_begun = 0;
  {
    SideWork side({.slow = Duration(-1), .wary = 24h, .of_step = Duration(0)});
    side.begin_step(false);
    side.begin([] {});
    for (int i = 0; i < 100; i++) {
      side.begin([&] {
        n_begun++;
        std::this_thread::sleep_for(5ms);
      });
    }
  }
  EXPECT_LT(n_begun, 100);
}

std::vector<std::vector<TokenId>> answers(const SideWorkLimits& limits) {
  const auto engine =
      story_engine({.n_kv_tokens = 14 * kPageTokens, .max_running = 4, .max_step_tokens = 40, .side_work = limits});
  grammar::VocabularyConstraints constraints(engine->tokenizer());
  const std::string prompt =
      "Once upon a time there was a girl. Once upon a time there was a boy. They played all day.";
  std::vector<std::unique_ptr<Collector>> collectors;
  for (uint64_t seed = 0; seed < 12; seed++) {
    GenerationRequest request;
    request.prompt = engine->tokenizer().encode(prompt + prompt + prompt, {.add_bos = true}).value();
    request.sampling = {.temperature = seed % 3 == 0 ? 0.0f : 1.0f, .top_k = seed % 2 == 0 ? 40u : 0u, .seed = seed};
    request.sampling.want_logprobs = seed == 3;
    request.max_tokens = 90;
    if (seed == 4) request.n_prompt_logprobs = 0;
    if (seed == 5) request.min_tokens = 30;
    if (seed == 6) request.sampling.dry.multiplier = 1;
    if (seed == 8) request.sampling.mirostat.version = 2;
    if (seed % 4 != 1) {
      const grammar::Source source =
          seed % 2 == 0
              ? grammar::Source{.text = R"({"type":"object","properties":{"little_girl":{"enum":["Lily","Sue"]},
                                "age":{"type":"integer"}},"required":["little_girl","age"]})"}
              : grammar::Source{.notation = grammar::Notation::regex, .text = "[A-Z][a-z ,]{20,400}\\."};
      request.constraint =
          ConstraintChoice{.constraint = *constraints.compile(source), .vocabulary = constraints.vocabulary()};
      request.constraint->closes_at_length = seed == 7;
    }
    collectors.push_back(std::make_unique<Collector>());
    EXPECT_TRUE(engine->submit(std::move(request), collectors.back()->receiver()).ok());
  }
  std::vector<std::vector<TokenId>> out;
  for (const auto& collector : collectors) {
    const FinishEvent& finish = collector->wait();
    EXPECT_NE(finish.reason, FinishReason::error) << finish.error->message;
    out.push_back(collector->tokens());
  }
  return out;
}

TEST(ConstrainedRequests, AnswersAreTheSameWhenTheirChoicesComeLate) {
  EXPECT_EQ(answers(kAlwaysBeside), answers({.slow = 1h}));
}

// A grammar that is at work elsewhere for seconds: its lock is held.
TEST(ConstrainedRequests, NobodyElseWaitsForAGrammar) {
  const auto engine = story_engine({.side_work = kAlwaysBeside});
  grammar::VocabularyConstraints constraints(engine->tokenizer());
  const auto constraint =
      constraints
          .compile({.notation = grammar::Notation::gbnf, .text = "root ::= word*\nword ::= [a-zA-Z ,.\"'!?\\n-]{1,40}"})
          .value();
  const auto request = [&](bool is_plain, uint32_t n_tokens) {
    GenerationRequest out;
    out.prompt = engine->tokenizer().encode("Once upon a time", {.add_bos = true}).value();
    out.sampling = testing::greedy();
    out.max_tokens = n_tokens;
    out.ignore_end_of_text = true;
    if (!is_plain) out.constraint = ConstraintChoice{.constraint = constraint, .vocabulary = constraints.vocabulary()};
    return out;
  };
  std::atomic<bool> is_held = false;
  const auto match = [&](const std::string& text) {
    grammar::Matcher matcher(constraint);
    const TimePoint begin = std::chrono::steady_clock::now();
    is_held = true;
    EXPECT_EQ(matcher.accept(text).value(), text.size());
    is_held = false;
    return seconds(std::chrono::steady_clock::now() - begin);
  };
  constexpr size_t kTried = 20'000;
  const double tried = match(std::string(kTried, 'a'));
  const std::string long_text(static_cast<size_t>(kTried * 2.0 / tried), 'a');  // two seconds

  Collector constrained, late, plain;
  ASSERT_TRUE(engine->submit(request(false, 900), constrained.receiver()).ok());
  ASSERT_TRUE(constrained.wait_for_tokens(1));
  std::thread holder([&] { match(long_text); });
  while (!is_held) std::this_thread::yield();
  std::this_thread::sleep_for(100ms);
  std::thread submits([&] { EXPECT_TRUE(engine->submit(request(false, 4), late.receiver()).ok()); });
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(engine->submit(request(true, 8), plain.receiver()).ok());
  EXPECT_EQ(plain.wait().reason, FinishReason::length);
  EXPECT_TRUE(is_held) << "the plain request waited for the grammar";
  EXPECT_FALSE(constrained.is_finished()) << "too easy";
  holder.join();
  submits.join();
  EXPECT_EQ(late.wait().reason, FinishReason::length);
  EXPECT_EQ(constrained.wait().reason, FinishReason::length);
}

}  // namespace
}  // namespace rocmforge
