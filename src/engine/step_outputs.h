#pragma once
// What a step computed, read from the backend when somebody asks, and once.
//
// Threads: one at a time.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/choice_counts.h"
#include "engine/sampler.h"
#include "engine/token_constraint.h"
#include "plan/execution_plan.h"

namespace rocmforge {

// Which tokens a choice may take.
struct TokenLimits {
  TokenConstraint* constraint = nullptr;
  std::function<bool(TokenId)> is_barred = {};

  Result<bool> allows(TokenId token) const;
  // All that are, perhaps with others behind the first n_vocab tokens.
  Result<std::shared_ptr<const grammar::TokenMask>> mask(uint32_t n_vocab) const;
};

// A choice among the tokens that limits allow, as far as a row's candidates can tell.
struct LimitedChoice {
  bool is_free = false;  // all tokens are allowed: nothing was chosen
  std::optional<Choice> choice = {};
  std::shared_ptr<const grammar::TokenMask> mask = {};  // where the candidates cannot tell: what is allowed
};
// Any thread that has the constraint to itself. Errors: model_not_finite, and those of the limits.
Result<LimitedChoice> choose_among(const RowCandidates& best, const SamplingOptions& options, const History& history,
                                   uint32_t n_vocab, double unit, const TokenLimits& limits);

class StepOutputs {
 public:
  explicit StepOutputs(const ExecutionPlan& plan) : plan_(&plan) {}

  // A step has run: n_outputs rows, of which the first n_sampled are somebody's logits.
  void begin(uint32_t n_outputs, uint32_t n_sampled);

  uint32_t n_vocab() const { return plan_->spec().n_vocab; }
  // Until the backend has the candidates of all rows: a device may fail as late as here. REQUIRES: n_sampled > 0
  Result<void> wait();
  // The view is valid until begin(). REQUIRES: row < n_outputs
  Result<std::span<const float>> logits(uint32_t row);

  // The sampler's choice: from the candidates where they can tell, else from the whole row.
  // REQUIRES: as sample(); row < n_sampled, for logprobs() too
  Result<Choice> choose(uint32_t row, const SamplingOptions& options, const History& history, double unit);
  // The same among the tokens that the limits allow. invalid_argument: no token of the vocabulary is.
  // choose_early() tries with the candidates; of all rows where these cannot tell, choose_allowed() reads those of the
  // allowed tokens at once.
  Result<std::optional<Choice>> choose_early(uint32_t row, const SamplingOptions& options, const History& history,
                                             double unit, const TokenLimits& limits);
  // choose_early() is this, of choose_among().
  Result<std::optional<Choice>> settle(uint32_t row, LimitedChoice found, const SamplingOptions& options,
                                       const History& history, double unit);
  // REQUIRES: choose_early() or settle() gave nothing for the row, with the same arguments
  Result<Choice> choose_allowed(uint32_t row, const SamplingOptions& options, const History& history, double unit);
  Result<TokenLogprobs> logprobs(uint32_t row, TokenId token, uint32_t n);
  const ChoiceCounts& counts() const { return counts_; }
  void count_forced(size_t n) { counts_.n_forced += n; }

  // A model_not_finite with its cause, as far as it can be found; other errors as they are. The cause is looked for
  // once.
  Error explained(Error error);

  // The candidates of a row, all checked. The view is the backend's, valid until its next pass.
  // REQUIRES: row < n_sampled
  Result<const RowCandidates*> candidates(uint32_t row) { return candidates(row, kCandidates); }

  // Of any output row: its hidden state after the last norm, or the pooled text (ExecutionPlan::hidden).
  Result<std::span<const float>> hidden(uint32_t row);
  // Of any output row: what the classifier says. REQUIRES: the plan has scores
  Result<std::span<const float>> scores(uint32_t row);

 private:
  // Those of a row, of which the first n_used are looked at. The view is the backend's, valid until its next pass.
  Result<const RowCandidates*> candidates(uint32_t row, uint32_t n_used);
  Result<std::span<const float>> read_row(std::vector<float>& rows, SlotId slot, uint32_t row);
  // A row whose candidates cannot tell, and its allowed tokens.
  struct Undecided {
    AllowedTokens allowed;
    std::shared_ptr<const grammar::TokenMask> mask;
  };

  const ExecutionPlan* plan_;
  uint32_t n_outputs_ = 0, n_sampled_ = 0;
  std::span<const RowCandidates> candidates_;  // empty: not read yet, as are those
  std::vector<Undecided> undecided_;
  std::span<const RowCandidates> allowed_candidates_;  // of undecided_
  ChoiceCounts counts_;
  std::vector<float> logits_, hidden_, scores_;
  std::optional<std::string> cause_;  // of numbers that are not finite
};

}  // namespace rocmforge
