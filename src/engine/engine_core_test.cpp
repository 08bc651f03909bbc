// Devices that fail and logits that are not numbers, step by step: whose request ends, and who goes on.

#include "engine/engine_core.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <thread>

#include "cpu/backend.h"
#include "support/engine_fixture.h"

namespace rocmforge {
namespace {

using testing::Answer;
using testing::Collector;
using testing::greedy;
using testing::Reference;

// The CPU, with faults to order.
class FaultyBackend final : public Backend {
 public:
  bool fail_next_run = false;
  bool fail_next_read = false;
  bool is_lost = false;   // every call fails from now on
  bool is_ahead = false;  // says that the device works by itself
  std::function<void()> when_run = [] {};
  Duration read_time{};
  uint32_t n_allowed_reads = 0;
  std::set<uint32_t> nan_rows;                               // of the next read_candidates
  std::optional<std::pair<uint32_t, uint32_t>> bad_id = {};  // the same: a row and which of its candidates
  std::string_view name() const override { return "faulty"; }
  bool runs_ahead() const override { return is_ahead; }
  Placement& placement() override { return cpu_.placement(); }
  uint64_t pass_bytes(const PassMemory& memory) const override { return cpu_.pass_bytes(memory); }
  Result<void> reserve(const PassMemory& memory) override {
    if (is_lost) return failure();
    return cpu_.reserve(memory);
  }
  void release() override { cpu_.release(); }
  Result<void> run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) override {
    if (is_lost || std::exchange(fail_next_run, false)) return failure();
    return cpu_.run(steps, batch, weights);
  }
  Result<void> run_settled(std::span<const std::span<const Step>> stages, const Batch& batch,
                           const WeightStore& weights) override {
    when_run();
    return Backend::run_settled(stages, batch, weights);
  }
  Result<void> read(std::span<float> out, SlotId slot) override { return cpu_.read(out, slot); }
  Result<std::span<const RowCandidates>> read_allowed_candidates(std::span<const AllowedTokens> rows,
                                                                 SlotId logits) override {
    n_allowed_reads++;
    return cpu_.read_allowed_candidates(rows, logits);
  }
  Result<std::span<const RowCandidates>> read_candidates(uint32_t n, SlotId logits) override {
    std::this_thread::sleep_for(read_time);
    if (is_lost || std::exchange(fail_next_read, false)) return failure();
    const auto rows = TRY(cpu_.read_candidates(n, logits));
    candidates_.assign(rows.begin(), rows.end());
    for (const uint32_t row : std::exchange(nan_rows, {})) candidates_[row].log_sum_exp = NAN;
    if (const auto place = std::exchange(bad_id, {})) candidates_[place->first].top[place->second].id = UINT32_MAX;
    return std::span<const RowCandidates>(candidates_);
  }

 private:
  static Error failure() { return {ErrorCode::device_failed, "faulty: ordered"}; }
  CpuBackend cpu_;
  std::vector<RowCandidates> candidates_;
};

struct Fixture : ::testing::Test {
  Fixture() {
    auto file = gguf::GgufFile::open(testing::story_path());
    EXPECT_TRUE(file.ok());
    plan = ExecutionPlan::from_gguf(backend, std::make_shared<gguf::GgufFile>(std::move(*file))).value();
    core = std::make_unique<EngineCore>(
        *plan,
        SchedulerOptions{
            .n_pages = 20, .n_context = 512, .max_running = 4, .max_step_tokens = 128, .max_step_outputs = 4},
        KvType::f16, system_clock());
    request = {.prompt = reference.encode("Once upon a time"), .sampling = greedy(), .max_tokens = 12};
    expected = reference.answer(request);
  }

  void accept(uint64_t id, Collector& collector) {
    core->accept(std::make_unique<LiveRequest>(RequestId(id), request, *request.max_tokens, collector.receiver(),
                                               reference.tokenizer(), system_clock()()));
  }
  void run_to_the_end() {
    while (core->has_work()) core->step();
  }
  void expect_right(const Collector& collector) {
    EXPECT_EQ(collector.wait().reason, expected.reason);
    EXPECT_EQ(collector.tokens(), expected.tokens);
  }
  void expect_error(const Collector& collector, ErrorCode code) {
    const FinishEvent& finish = collector.wait();
    EXPECT_EQ(finish.reason, FinishReason::error);
    ASSERT_TRUE(finish.error);
    EXPECT_EQ(finish.error->code, code);
  }

  FaultyBackend backend;
  std::unique_ptr<ExecutionPlan> plan;
  std::unique_ptr<EngineCore> core;
  Reference reference;
  GenerationRequest request;
  Answer expected;
};

using EngineFaults = Fixture;

TEST_F(EngineFaults, NotANumberEndsItsRequestOnly) {
  std::vector<Collector> collectors(3);
  for (size_t i = 0; i < 3; i++) accept(i + 1, collectors[i]);
  core->step();
  core->step();
  backend.nan_rows = {1};
  core->step();
  EXPECT_EQ(core->stats().scheduler.n_running, 2u);
  run_to_the_end();
  expect_right(collectors[0]);
  expect_error(collectors[1], ErrorCode::model_not_finite);
  EXPECT_EQ(collectors[1].tokens().size(), 2u);
  expect_right(collectors[2]);
  EXPECT_EQ(core->stats().n_not_finite, 1u);
  EXPECT_EQ(core->stats().scheduler.n_pages_used, 0u);
}

TEST_F(EngineFaults, AFailedStepEndsThoseInItAndTheNextWork) {
  for (const bool in_read : {false, true}) {
    Collector first, second, third;
    accept(1, first);
    core->step();
    accept(2, second);
    (in_read ? backend.fail_next_read : backend.fail_next_run) = true;
    core->step();
    expect_error(first, ErrorCode::device_failed);
    expect_error(second, ErrorCode::device_failed);
    EXPECT_FALSE(core->is_dead());
    accept(3, third);
    run_to_the_end();
    expect_right(third);
  }
  EXPECT_EQ(core->stats().n_device_errors, 2u);
}

// Of whoever looks no further than the first candidate, the others may be anything.
TEST_F(EngineFaults, ACandidateThatIsNoTokenIsAFailureOfTheDevice) {
  SamplingOptions drawn, biased = greedy(), with_logprobs = greedy();
  biased.logit_bias = {{TokenId(7), 1.0f}};
  with_logprobs.want_logprobs = true;
  struct Case {
    SamplingOptions sampling;
    uint32_t place;
  };
  uint64_t id = 0;
  for (const auto& [sampling, place] :
       {Case{greedy(), 0}, Case{drawn, 0}, Case{drawn, 255}, Case{biased, 255}, Case{with_logprobs, 255}}) {
    SCOPED_TRACE(place);
    request.sampling = sampling;
    Collector first, second, third;
    accept(++id, first);
    accept(++id, second);
    core->step();
    backend.bad_id = {1, place};
    core->step();
    expect_error(first, ErrorCode::device_failed);
    expect_error(second, ErrorCode::device_failed);
    EXPECT_EQ(core->stats().scheduler.n_pages_used, 0u);
    request.sampling = greedy();
    accept(++id, third);
    core->step();
    backend.bad_id = {0, 1};
    run_to_the_end();
    expect_right(third);
  }
  EXPECT_EQ(core->stats().n_device_errors, 5u);
}

TEST_F(EngineFaults, ALostDeviceEndsEveryone) {
  std::vector<Collector> collectors(8);  // four run, four wait
  for (size_t i = 0; i < 8; i++) accept(i + 1, collectors[i]);
  core->step();
  backend.is_lost = true;
  core->step();
  EXPECT_TRUE(core->is_dead());
  EXPECT_FALSE(core->has_work());
  for (const Collector& collector : collectors) expect_error(collector, ErrorCode::device_failed);
}

// The tokens of a step are sent when the next is on its way, if that helps; nothing else is different.
TEST_F(EngineFaults, TokensDoNotHoldUpADeviceThatWorksByItself) {
  for (const bool is_ahead : {false, true}) {
    backend.is_ahead = is_ahead;
    Collector first, second;
    accept(1, first);
    accept(2, second);
    core->step();  // which also brings the weights
    std::vector<size_t> n_sent;
    backend.when_run = [&] { n_sent.push_back(first.tokens().size()); };
    run_to_the_end();
    backend.when_run = [] {};
    std::vector<size_t> n_expected;
    for (size_t n = 1; n < expected.tokens.size(); n++) n_expected.push_back(is_ahead ? n - 1 : n);
    EXPECT_EQ(n_sent, n_expected);
    expect_right(first);
    expect_right(second);
  }
}

TEST_F(EngineFaults, TheLastTokenOfAStepSaysThatNoneFollows) {
  std::vector<bool> more_follow;
  const auto receiver = [&](RequestEvent&& event) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) more_follow.push_back(token->more_follow);
  };
  for (uint64_t id = 1; id <= 3; id++) {
    core->accept(
        std::make_unique<LiveRequest>(RequestId(id), request, 2, receiver, reference.tokenizer(), system_clock()()));
  }
  core->step();
  EXPECT_EQ(more_follow, (std::vector<bool>{true, true, false}));
  core->step();  // in which each of them ends, by itself
  EXPECT_EQ(more_follow, (std::vector<bool>{true, true, false, false, false, false}));
}

TEST_F(EngineFaults, TheTimeOfAStepIsTheDevices) {
  backend.is_ahead = true;
  backend.read_time = std::chrono::milliseconds(20);
  request.max_tokens = 3;
  Collector collector;
  accept(1, collector);
  run_to_the_end();
  EXPECT_GE(collector.wait().usage.prefill_seconds, 0.02);
  EXPECT_GE(collector.wait().usage.decode_seconds, 0.04);
  EXPECT_GE(core->stats().step_seconds, 0.06);
}

TEST_F(EngineFaults, WhatWasSaidIsSentBeforeAnyEnd) {
  backend.is_ahead = true;
  for (const bool is_cancel : {true, false}) {
    Collector collector;
    accept(1, collector);
    core->step();
    core->step();
    EXPECT_EQ(collector.tokens().size(), 1u);
    if (is_cancel) {
      core->cancel(RequestId(1));
      EXPECT_EQ(collector.wait().reason, FinishReason::cancelled);
    } else {
      core->end_all({ErrorCode::draining, "enough"});
      expect_error(collector, ErrorCode::draining);
    }
    EXPECT_EQ(collector.tokens(), std::vector(expected.tokens.begin(), expected.tokens.begin() + 2));
  }
  Collector failing;
  accept(1, failing);
  core->step();
  core->step();
  backend.fail_next_run = true;
  core->step();
  expect_error(failing, ErrorCode::device_failed);
  EXPECT_EQ(failing.tokens().size(), 2u);
}

TEST_F(EngineFaults, ACancelledRequestIsGoneBeforeTheNextStep) {
  Collector first, second;
  accept(1, first);
  accept(2, second);
  core->step();
  core->cancel(RequestId(1));
  EXPECT_EQ(first.wait().reason, FinishReason::cancelled);
  core->cancel(RequestId(1));
  EXPECT_EQ(core->n_requests(), 1u);
  run_to_the_end();
  expect_right(second);
}

}  // namespace
}  // namespace rocmforge
