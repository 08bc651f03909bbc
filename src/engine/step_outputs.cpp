#include "engine/step_outputs.h"

#include <fmt/core.h>

#include <cmath>

#include "base/check.h"

namespace rocmforge {

void StepOutputs::begin(uint32_t n_outputs, uint32_t n_sampled) {
  n_outputs_ = n_outputs;
  n_sampled_ = n_sampled;
  has_candidates_ = false;
  logits_.clear();
  hidden_.clear();
}

Result<const RowCandidates*> StepOutputs::candidates(uint32_t row) {
  CHECK(row < n_sampled_);
  if (!has_candidates_) TRY(read_candidates());
  return &candidates_[row];
}

// What a device wrote that is about to fail must not be taken for tokens.
Result<void> StepOutputs::read_candidates() {
  if (candidates_.size() < n_sampled_) candidates_.resize(n_sampled_);
  const auto rows = std::span(candidates_).first(n_sampled_);
  TRY(plan_->backend().read_candidates(rows, plan_->logits()));
  for (const RowCandidates& row : rows) {
    if (std::isnan(row.log_sum_exp)) continue;  // nobody takes one of these
    for (const Candidate& candidate : row.top) {
      if (candidate.id >= n_vocab()) {
        return Error{ErrorCode::device_failed,
                     fmt::format("engine: the device gave token {} of {}", candidate.id, n_vocab())};
      }
    }
  }
  has_candidates_ = true;
  return {};
}

Result<std::span<const float>> StepOutputs::logits(uint32_t row) {
  return read_row(logits_, plan_->logits(), row);
}

Result<TokenId> StepOutputs::choose(uint32_t row, const SamplingOptions& options, std::span<const TokenId> history,
                                    double unit) {
  const auto chosen = TRY(sample_candidates(*TRY(candidates(row)), options, history, n_vocab(), unit));
  return chosen ? *chosen : TRY(sample_whole_row(TRY(logits(row)), options, history, unit));
}

Result<TokenLogprobs> StepOutputs::logprobs(uint32_t row, TokenId token, uint32_t n) {
  if (auto found = rocmforge::logprobs(*TRY(candidates(row)), n_vocab(), token, n)) return *std::move(found);
  return rocmforge::logprobs(TRY(logits(row)), token, n);
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
