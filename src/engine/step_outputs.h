#pragma once
// What a step computed, read from the backend when somebody asks, and once.
//
// Threads: one at a time.

#include <span>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"
#include "plan/execution_plan.h"

namespace rocmforge {

class StepOutputs {
 public:
  explicit StepOutputs(const ExecutionPlan& plan) : plan_(&plan) {}

  // A step has run: n_outputs rows, of which the first n_sampled are somebody's logits.
  void begin(uint32_t n_outputs, uint32_t n_sampled);

  uint32_t n_vocab() const { return plan_->spec().n_vocab; }
  // The views are valid until begin(). REQUIRES: row < n_sampled
  Result<const RowCandidates*> candidates(uint32_t row);
  Result<std::span<const float>> logits(uint32_t row);

  // The sampler's choice: from the candidates where they can tell, else from the whole row.
  // REQUIRES: as sample()
  Result<TokenId> choose(uint32_t row, const SamplingOptions& options, std::span<const TokenId> history, double unit);
  Result<TokenLogprobs> logprobs(uint32_t row, TokenId token, uint32_t n);

  // Of any output row: its hidden state after the last norm.
  Result<std::span<const float>> hidden(uint32_t row);

 private:
  Result<void> read_candidates();
  Result<std::span<const float>> read_row(std::vector<float>& rows, SlotId slot, uint32_t row);

  const ExecutionPlan* plan_;
  uint32_t n_outputs_ = 0, n_sampled_ = 0;
  bool has_candidates_ = false;
  std::vector<RowCandidates> candidates_;  // of the largest step so far: nothing to allocate or clear in a step
  std::vector<float> logits_, hidden_;     // empty: not read yet
};

}  // namespace rocmforge
