#include "engine/step_outputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "plan/not_finite.h"

namespace rocmforge {
namespace {

// Without looking at another one.
bool takes_the_largest(const SamplingOptions& options) {
  return options.temperature == 0 && options.logit_bias.empty() && options.repetition_penalty == 1 &&
         options.presence_penalty == 0 && options.frequency_penalty == 0 && options.dry.multiplier == 0;
}

void to_probabilities(std::span<float> scores) {
  const float largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(double{score} - largest);
  for (float& score : scores) score = static_cast<float>(std::exp(double{score} - largest) / sum);
}

}  // namespace

Result<bool> TokenLimits::allows(TokenId token) const {
  if (is_barred && is_barred(token)) return false;
  return constraint ? constraint->allows(token) : true;
}

Result<std::shared_ptr<const grammar::TokenMask>> TokenLimits::mask(uint32_t n_vocab) const {
  std::shared_ptr<const grammar::TokenMask> all;
  if (constraint) {
    all = TRY(constraint->mask());
    if (!is_barred) return all;
  }
  grammar::TokenMask out(n_vocab);
  for (int32_t id = 0; static_cast<uint32_t>(id) < n_vocab; id++) {
    if ((!all || all->contains(id)) && !(is_barred && is_barred(TokenId(id)))) out.add(id);
  }
  return std::make_shared<const grammar::TokenMask>(std::move(out));
}

void StepOutputs::begin(uint32_t n_outputs, uint32_t n_sampled) {
  n_outputs_ = n_outputs;
  n_sampled_ = n_sampled;
  candidates_ = {};
  undecided_.clear();
  allowed_candidates_ = {};
  logits_.clear();
  hidden_.clear();
  scores_.clear();
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

Result<Choice> StepOutputs::choose(uint32_t row, const SamplingOptions& options, const History& history, double unit) {
  const RowCandidates& best = *TRY(candidates(row, takes_the_largest(options) ? 1 : kCandidates));
  const auto chosen = sample_candidates(best, options, history, n_vocab(), unit);
  if (!chosen.ok()) return explained(chosen.error());
  counts_.n_free++;
  if (*chosen) return **chosen;
  counts_.n_whole_rows++;
  auto token = sample_whole_row(TRY(logits(row)), options, history, unit);
  if (!token.ok()) return explained(std::move(token).error());
  return *token;
}

Result<LimitedChoice> choose_among(const RowCandidates& best, const SamplingOptions& options, const History& history,
                                   uint32_t n_vocab, double unit, const TokenLimits& limits) {
  const bool is_free = limits.constraint == nullptr || TRY(limits.constraint->allows_all(n_vocab));
  if (is_free && !limits.is_barred) return LimitedChoice{.is_free = true};
  LimitedChoice out;
  out.choice = TRY(
      sample_candidates(best, options, history, n_vocab, unit, [&](TokenId token) { return limits.allows(token); }));
  if (!out.choice) out.mask = TRY(limits.mask(n_vocab));
  return out;
}

Result<std::optional<Choice>> StepOutputs::choose_early(uint32_t row, const SamplingOptions& options,
                                                        const History& history, double unit,
                                                        const TokenLimits& limits) {
  if (limits.constraint == nullptr && !limits.is_barred) return std::optional(TRY(choose(row, options, history, unit)));
  auto found = choose_among(*TRY(candidates(row, kCandidates)), options, history, n_vocab(), unit, limits);
  if (!found.ok()) return explained(std::move(found).error());
  return settle(row, *std::move(found), options, history, unit);
}

Result<std::optional<Choice>> StepOutputs::settle(uint32_t row, LimitedChoice found, const SamplingOptions& options,
                                                  const History& history, double unit) {
  if (found.is_free) return std::optional(TRY(choose(row, options, history, unit)));
  if (found.choice) {
    counts_.n_candidates++;
    return found.choice;
  }
  Undecided undecided{.allowed = {.row = row}, .mask = std::move(found.mask)};
  undecided.allowed.mask = undecided.mask->words();
  undecided.allowed.n_allowed = static_cast<uint32_t>(undecided.mask->count(n_vocab()));
  if (undecided.allowed.n_allowed == 0) {
    return Error{ErrorCode::invalid_argument, "engine: no token of the vocabulary can go on with the text"};
  }
  undecided_.push_back(std::move(undecided));
  return std::optional<Choice>();
}

Result<Choice> StepOutputs::choose_allowed(uint32_t row, const SamplingOptions& options, const History& history,
                                           double unit) {
  if (allowed_candidates_.size() < undecided_.size()) {
    std::vector<AllowedTokens> all;
    for (const Undecided& one : undecided_) all.push_back(one.allowed);
    allowed_candidates_ = TRY(plan_->backend().read_allowed_candidates(all, plan_->logits()));
  }
  const auto at = std::ranges::find(undecided_, row, [](const Undecided& one) { return one.allowed.row; });
  CHECK(at != undecided_.end());
  const RowCandidates& best = allowed_candidates_[static_cast<size_t>(at - undecided_.begin())];
  const uint32_t n_allowed = at->allowed.n_allowed;
  for (const Candidate& candidate : best.top) {
    if (!at->mask->contains(static_cast<int32_t>(candidate.id))) {
      return Error{ErrorCode::device_failed,
                   fmt::format("engine: the device gave token {}, which is not allowed", candidate.id)};
    }
  }
  const auto chosen = sample_allowed_candidates(best, options, history, n_allowed, n_vocab(), unit);
  if (!chosen.ok()) return explained(chosen.error());
  if (*chosen) {
    counts_.n_allowed++;
    return **chosen;
  }
  counts_.n_whole_rows++;
  std::vector<TokenId> allowed;
  for (const int32_t id : at->mask->ids()) {
    if (static_cast<uint32_t>(id) < n_vocab()) allowed.emplace_back(id);
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

Result<std::span<const float>> StepOutputs::scores(uint32_t row) {
  CHECK(plan_->scores().has_value());
  const bool are_read = !scores_.empty();
  const auto found = TRY(read_row(scores_, *plan_->scores(), row));
  if (!are_read && plan_->spec().classifier.has_softmax) {
    for (size_t at = 0; at < scores_.size(); at += found.size()) {
      to_probabilities(std::span(scores_).subspan(at, found.size()));
    }
  }
  return found;
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
