#pragma once
// A model under the engine's own loop, without its thread, beside sessions of the same model: what tests of sharing,
// preemption and states compare. Header only: for tests that cross rooms.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/cache_size.h"
#include "engine/engine_core.h"
#include "engine/model.h"
#include "engine/session.h"
#include "support/engine_fixture.h"

namespace rocmforge::testing {

inline std::vector<TokenId> joined(std::vector<TokenId> first, const std::vector<TokenId>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

class TokenLoop {
 public:
  explicit TokenLoop(const std::string& path, const ModelOptions& options = {.device = "cpu", .n_threads = 2}) {
    auto opened = Model::open(path, options);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    model_ = std::move(*opened);
    auto tokenizer = model_->tokenizer();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    tokenizer_ = *tokenizer;
  }

  const ExecutionPlan& plan() const { return model_->plan(); }
  Model& model() { return *model_; }

  // As many slots as the engine would take, unless told otherwise.
  void start(SchedulerOptions options) {
    if (options.n_states == 0) divide_cache(options, CacheUnits::of(plan(), KvType::f16), 1ull << 40, 90);
    core_ = std::make_unique<EngineCore>(plan(), options, KvType::f16, system_clock());
  }
  EngineCore& core() { return *core_; }
  CoreStats stats() const { return core_->stats(); }

  // Tokens of no other seed's prompt.
  std::vector<TokenId> tokens(uint32_t n, uint32_t seed) const {
    std::vector<TokenId> out;
    uint64_t state = seed * 7919u + 13;
    for (uint32_t i = 0; i < n; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      out.push_back(TokenId(static_cast<int32_t>((state >> 33) % plan().spec().n_vocab)));
    }
    return out;
  }

  RequestId submit(std::vector<TokenId> prompt, uint32_t n_answer, const Collector& collector) {
    GenerationRequest request{
        .prompt = std::move(prompt), .sampling = greedy(), .max_tokens = n_answer, .ignore_end_of_text = true};
    const RequestId id(++last_id_);
    core_->accept(std::make_unique<LiveRequest>(
        id, std::move(request), n_answer, const_cast<Collector&>(collector).receiver(), *tokenizer_, system_clock()()));
    return id;
  }
  void finish() {
    while (core_->has_work()) core_->step();
  }
  // The answer of a request alone.
  std::vector<TokenId> ask(const std::vector<TokenId>& prompt, uint32_t n_answer) {
    const Collector collector;
    submit(prompt, n_answer, collector);
    finish();
    const FinishEvent& end = collector.wait();
    EXPECT_EQ(end.reason, FinishReason::length) << (end.error ? end.error->message : "");
    usage = end.usage;
    return collector.tokens();
  }
  RequestUsage usage;  // of the last ask()

  // The answer by the definition: a session of its own, a pass for each token.
  std::vector<TokenId> expected(const std::vector<TokenId>& prompt, uint32_t n_answer) {
    core_.reset();  // one user of a backend's memory at a time
    auto session = Session::create(plan(), {.max_rows = 128}).value();
    std::vector<TokenId> answer;
    for (std::vector<TokenId> next = prompt; answer.size() < n_answer; next = {answer.back()}) {
      const auto logits = session.evaluate(next);
      EXPECT_TRUE(logits.ok()) << logits.error().message;
      if (!logits.ok()) break;
      answer.push_back(TokenId(static_cast<int32_t>(std::ranges::max_element(*logits) - logits->begin())));
    }
    return answer;
  }

 private:
  std::unique_ptr<Model> model_;
  const tokenizer::Tokenizer* tokenizer_ = nullptr;
  std::unique_ptr<EngineCore> core_;
  uint64_t last_id_ = 0;
};

}  // namespace rocmforge::testing
