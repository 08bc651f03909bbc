#include "engine/step_outputs.h"

#include <fmt/core.h>

#include <cmath>

#include "base/check.h"
#include "plan/not_finite.h"

namespace rocmforge {
namespace {

// Without looking at another one.
bool takes_the_largest(const SamplingOptions& options) {
  return options.temperature == 0 && options.logit_bias.empty() && options.repetition_penalty == 1 &&
         options.presence_penalty == 0 && options.frequency_penalty == 0;
}

}  // namespace

void StepOutputs::begin(uint32_t n_outputs, uint32_t n_sampled) {
  n_outputs_ = n_outputs;
  n_sampled_ = n_sampled;
  candidates_ = {};
  logits_.clear();
  hidden_.clear();
}

Result<void> StepOutputs::wait() {
  CHECK(n_sampled_ > 0);
  if (!candidates_.empty()) return {};
  candidates_ = TRY(plan_->backend().read_candidates(n_sampled_, plan_->logits()));
  // A device has written them past the caches: what every choice looks at is fetched for all rows at once.
  for (const RowCandidates& row : candidates_) {
    __builtin_prefetch(&row.top[0]);
    __builtin_prefetch(&row.log_sum_exp);
  }
  return {};
}

// What a device wrote that is about to fail must not be taken for tokens.
Result<const RowCandidates*> StepOutputs::candidates(uint32_t row, uint32_t n_used) {
  CHECK(row < n_sampled_);
  TRY(wait());
  const RowCandidates& of_row = candidates_[row];
  if (std::isnan(of_row.log_sum_exp)) return &of_row;  // nobody takes one of these
  for (const Candidate& candidate : std::span(of_row.top).first(n_used)) {
    if (candidate.id >= n_vocab()) {
      return Error{ErrorCode::device_failed,
                   fmt::format("engine: the device gave token {} of {}", candidate.id, n_vocab())};
    }
  }
  return &of_row;
}

Result<std::span<const float>> StepOutputs::logits(uint32_t row) {
  return read_row(logits_, plan_->logits(), row);
}

Result<TokenId> StepOutputs::choose(uint32_t row, const SamplingOptions& options, std::span<const TokenId> history,
                                    double unit) {
  const RowCandidates& best = *TRY(candidates(row, takes_the_largest(options) ? 1 : kCandidates));
  const auto chosen = sample_candidates(best, options, history, n_vocab(), unit);
  if (!chosen.ok()) return explained(chosen.error());
  if (*chosen) return **chosen;
  auto token = sample_whole_row(TRY(logits(row)), options, history, unit);
  if (!token.ok()) return explained(std::move(token).error());
  return *token;
}

Result<TokenId> StepOutputs::choose(uint32_t row, const SamplingOptions& options, std::span<const TokenId> history,
                                    double unit, TokenConstraint& constraint) {
  const RowCandidates& best = *TRY(candidates(row, kCandidates));
  const auto chosen = sample_candidates(best, options, history, n_vocab(), unit,
                                        [&](TokenId token) { return constraint.allows(token); });
  if (!chosen.ok()) return explained(chosen.error());
  if (*chosen) return **chosen;
  const std::vector<TokenId> allowed = TRY(constraint.allowed(n_vocab()));
  if (allowed.empty()) {
    return Error{ErrorCode::invalid_argument, "engine: no token of the vocabulary can go on with the text"};
  }
  auto token = sample_allowed(TRY(logits(row)), options, history, unit, allowed);
  if (!token.ok()) return explained(std::move(token).error());
  return *token;
}

Result<TokenLogprobs> StepOutputs::logprobs(uint32_t row, TokenId token, uint32_t n) {
  if (auto found = rocmforge::logprobs(*TRY(candidates(row, kCandidates)), n_vocab(), token, n))
    return *std::move(found);
  return rocmforge::logprobs(TRY(logits(row)), token, n);
}

Error StepOutputs::explained(Error error) {
  if (error.code != ErrorCode::model_not_finite) return error;
  if (!cause_) cause_ = why_not_finite(*plan_);
  error.message += fmt::format("; {}", *cause_);
  return error;
}

Result<std::span<const float>> StepOutputs::hidden(uint32_t row) {
  return read_row(hidden_, plan_->hidden(), row);
}

Result<std::span<const float>> StepOutputs::read_row(std::vector<float>& rows, SlotId slot, uint32_t row) {
  CHECK(row < n_outputs_);
  const size_t width = plan_->slots()[slot.value].width;
  if (rows.empty()) {
    rows.resize(n_outputs_ * width);
    if (auto read = plan_->backend().read(rows, slot); !read.ok()) {
      rows.clear();
      return std::move(read).error();
    }
  }
  return std::span<const float>(rows).subspan(row * width, width);
}

}  // namespace rocmforge
