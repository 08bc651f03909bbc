#pragma once
// One sequence on one plan: tokens in, logits out, keys and values kept between calls.
//
// Threads: one at a time.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/step_outputs.h"
#include "kv/page.h"
#include "plan/execution_plan.h"

namespace rocmforge {

struct SessionOptions {
  uint32_t n_context = 0;    // positions; 0: what the plan allows
  uint32_t max_rows = 0;     // tokens per pass of a long prompt; 0: what suits the backend
  uint32_t max_outputs = 1;  // rows of logits per pass: evaluate_all takes that many tokens at a time
  KvType kv_type = KvType::f16;
  uint32_t prefetch_window = 3;
  // Called between the layers of long passes and while weights are read; true ends the call with `cancelled`.
  std::function<bool()> should_stop = {};
};

class Session {
 public:
  // Allocates nothing: the first evaluate() reserves slots and pages.
  // out_of_memory: the session exceeds the plan's budget.
  static Result<Session> create(const ExecutionPlan& plan, const SessionOptions& options);
  Session(Session&&) = default;

  const SessionOptions& options() const { return options_; }  // adjusted to the plan
  uint32_t n_context() const { return options_.n_context; }
  uint32_t n_past() const { return static_cast<uint32_t>(tokens_.size()); }  // number of evaluated positions
  std::span<const TokenId> tokens() const { return tokens_; }                // at these positions

  // Appends tokens. Row 0 of the outputs, valid until the next call, is for choosing the token after the last one.
  // limit_exceeded: the tokens do not fit the context. An error leaves the sequence as it was.
  Result<StepOutputs*> advance(std::span<const TokenId> tokens);
  // Appends tokens and returns the logits after the last one; the view is valid until the next call.
  Result<std::span<const float>> evaluate(std::span<const TokenId> tokens);
  // The logits after each of the tokens, row after row.
  Result<std::span<const float>> evaluate_all(std::span<const TokenId> tokens);

  // Forgets positions from n_tokens on. A model with recurrent layers computes the remaining positions again in the
  // next call.
  void rewind(uint32_t n_tokens);

  MemoryBill memory_bill() const;

 private:
  Session(const ExecutionPlan& plan, const SessionOptions& options);
  PassMemory memory() const;
  Result<void> make_room(size_t n_tokens);
  Result<void> run_for_last(std::span<const TokenId> tokens);
  Result<void> pass(Batch& batch);
  // The tokens of a call whose passes were run are the sequence's.
  void append(std::span<const TokenId> tokens);
  // Of recurrent layers: the state after all positions held, when a rewind has left none.
  Result<void> catch_up();

  const ExecutionPlan* plan_;
  SessionOptions options_;
  std::unique_ptr<PagePool> pool_;
  BlockTable pages_;
  std::vector<TokenId> tokens_;
  // Of recurrent layers: the slot of the state after all tokens (none: zeros), which passes read and never write, and
  // of the one after the passes of this call. After a rewind it is behind by n_behind_ tokens, of which nothing is
  // left.
  std::optional<StateId> state_, written_state_;
  uint32_t n_behind_ = 0;
  bool is_reserved_ = false;
  StepOutputs outputs_;
  std::vector<float> logits_;  // of evaluate_all
};

}  // namespace rocmforge
