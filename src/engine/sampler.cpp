#include "engine/sampler.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/logit_adjustments.h"
#include "engine/mirostat.h"
#include "engine/tail_bounds.h"
#include "engine/token_filters.h"
#include "engine/token_weights.h"

namespace rocmforge {
namespace {

bool is_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

Result<void> check_range(std::string_view name, double value, double least, double most) {
  if (least <= value && value <= most) return {};
  return Error{ErrorCode::invalid_argument,
               fmt::format("sampling: {} {} is not in {} to {}", name, value, least, most)};
}

// The n best, sorted; all of them when n is 0.
std::vector<Candidate> best_of(std::span<const float> logits, size_t n) {
  std::vector<Candidate> found(logits.size());
  for (size_t i = 0; i < logits.size(); i++) found[i] = {static_cast<uint32_t>(i), logits[i]};
  if (n == 0 || n > found.size()) n = found.size();
  std::nth_element(found.begin(), found.begin() + static_cast<ptrdiff_t>(n - 1), found.end(), is_before);
  found.resize(n);
  std::sort(found.begin(), found.end(), is_before);
  return found;
}

Error not_finite(std::string_view what) {
  return Error{ErrorCode::model_not_finite, fmt::format("sampling: {} is not finite", what)};
}

TokenLogprobs logprobs_of(const RowCandidates& row, uint32_t n_vocab, float logit, uint32_t n) {
  CHECK(n <= kMaxLogprobs);
  TokenLogprobs out{.logprob = logit - row.log_sum_exp};
  for (uint32_t i = 0; i < std::min(n, n_vocab); i++) {
    out.top.push_back({token_of(row.top[i]), row.top[i].logit - row.log_sum_exp});
  }
  return out;
}

Result<void> check_dry(const DryOptions& dry) {
  TRY(check_range("dry_multiplier", dry.multiplier, 0, 100));
  TRY(check_range("dry_base", dry.base, 1, 100));
  TRY(check_range("dry_allowed_length", dry.allowed_length, 0, INT32_MAX));
  TRY(check_range("dry_penalty_last_n", dry.last_n, -1, INT32_MAX));
  TRY(check_range("number of dry_sequence_breakers", static_cast<double>(dry.sequence_breakers.size()), 0,
                  kMaxSequenceBreakers));
  for (const std::string& one : dry.sequence_breakers) {
    TRY(check_range("length of a dry_sequence_breaker", static_cast<double>(one.size()), 0, kMaxSequenceBreakerBytes));
  }
  return {};
}

Result<void> check_finite(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); i++) {
    if (!std::isfinite(logits[i])) return not_finite(fmt::format("the logit of token {}", i));
  }
  return {};
}

// The candidates whose place is certain: adjusted, in their new order.
class SureCandidates {
 public:
  SureCandidates(const RowCandidates& row, const LogitAdjustments& adjustments, const UnseenTokens& unseen,
                 uint32_t n_vocab)
      : sorted_(row.top, std::min(n_vocab, kCandidates)) {
    if (adjustments.empty()) return;
    adjusted_.assign(sorted_.begin(), sorted_.end());
    for (Candidate& c : adjusted_) c.logit = adjustments.apply(c.id, c.logit);
    std::sort(adjusted_.begin(), adjusted_.end(), is_before);
    // A token that was not seen may come before those that are not above the bar.
    if (unseen.exist()) std::erase_if(adjusted_, [&](const Candidate& c) { return !(c.logit > unseen.bar()); });
    sorted_ = adjusted_;
  }
  SureCandidates(const SureCandidates&) = delete;
  SureCandidates& operator=(const SureCandidates&) = delete;

  std::span<const Candidate> sorted() const { return sorted_; }

 private:
  std::vector<Candidate> adjusted_;
  std::span<const Candidate> sorted_;
};

bool has_mirostat(const SamplingOptions& options) {
  return options.mirostat.version != 0 && options.temperature > 0;
}

// How many of n tokens the filters up to top_k leave, mirostat and a temperature of 0 instead of them.
uint32_t n_asked_of(uint32_t n, const SamplingOptions& options) {
  if (options.temperature == 0) return 1;
  return options.top_k == 0 || has_mirostat(options) ? n : std::min(options.top_k, n);
}

// A draw from all tokens there are, in order.
Choice choose(std::span<const Candidate> sorted, double sigma, uint32_t n_vocab, const SamplingOptions& options,
              const History& history, double unit) {
  if (options.temperature == 0) return {token_of(sorted[0])};
  if (has_mirostat(options)) return *draw_mirostat(sorted, {}, n_vocab, options, history.mirostat_mu, unit);
  return {draw(sorted.first(n_asked_of(static_cast<uint32_t>(sorted.size()), options)), sigma, options, unit)};
}

std::optional<Choice> choose(std::span<const Candidate> sorted, const Tail& rest, Bounds sigma, uint32_t n_vocab,
                             const SamplingOptions& options, const History& history, double unit) {
  if (has_mirostat(options)) return draw_mirostat(sorted, rest, n_vocab, options, history.mirostat_mu, unit);
  const auto token = draw(sorted, rest, sigma, options, unit);
  if (!token) return std::nullopt;
  return Choice{*token};
}

}  // namespace

Result<void> check_options(const SamplingOptions& options) {
  TRY(check_range("temperature", options.temperature, 0, 100));
  TRY(check_range("top_p", options.top_p, 0, 1));
  TRY(check_range("min_p", options.min_p, 0, 1));
  TRY(check_range("repetition_penalty", options.repetition_penalty, 0.01f, 100));
  TRY(check_range("presence_penalty", options.presence_penalty, -2, 2));
  TRY(check_range("frequency_penalty", options.frequency_penalty, -2, 2));
  TRY(check_range("penalty_last_n", options.penalty_last_n, -1, INT32_MAX));
  TRY(check_range("logprobs", options.n_logprobs, 0, kMaxLogprobs));
  TRY(check_range("number of logit biases", static_cast<double>(options.logit_bias.size()), 0, kMaxLogitBiases));
  for (const LogitBias& b : options.logit_bias) TRY(check_range("logit_bias", b.bias, -100, 100));
  TRY(check_range("top_n_sigma", options.top_n_sigma, 0, 100));
  TRY(check_range("typical_p", options.typical_p, 0, 1));
  TRY(check_range("xtc_probability", options.xtc_probability, 0, 1));
  TRY(check_range("xtc_threshold", options.xtc_threshold, 0, 1));
  TRY(check_range("mirostat", options.mirostat.version, 0, 2));
  TRY(check_range("mirostat_tau", options.mirostat.tau, 0, 100));
  TRY(check_range("mirostat_eta", options.mirostat.eta, 0, 1));
  return check_dry(options.dry);
}

double random_unit(uint64_t seed, uint64_t step) {
  // SplitMix64: a counter-based generator, so that nothing has to be carried from step to step.
  uint64_t z = seed + (step + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

Result<Choice> sample(std::span<const float> logits, const SamplingOptions& options, const History& history,
                      double unit) {
  CHECK(!logits.empty() && logits.size() <= INT32_MAX);
  RowCandidates row;
  select_candidates(row, logits);
  const auto found = sample_candidates(row, options, history, static_cast<uint32_t>(logits.size()), unit);
  if (found.ok() && *found) return **found;
  return sample_whole_row(logits, options, history, unit);  // which also says what is not finite
}

Result<Choice> sample_whole_row(std::span<const float> logits, const SamplingOptions& options, const History& history,
                                double unit) {
  CHECK(!logits.empty() && logits.size() <= INT32_MAX);
  TRY(check_finite(logits));
  const auto n_vocab = static_cast<uint32_t>(logits.size());
  const LogitAdjustments adjustments(options, history, n_vocab);
  std::vector<float> adjusted;
  if (!adjustments.empty()) {
    adjusted.assign(logits.begin(), logits.end());
    for (const auto& a : adjustments.all()) adjusted[a.token] = adjustments.apply(a, adjusted[a.token]);
    logits = adjusted;
  }
  const double sigma = options.top_n_sigma == 0 ? 0 : standard_deviation(logits);
  return choose(best_of(logits, n_asked_of(n_vocab, options)), sigma, n_vocab, options, history, unit);
}

Result<std::optional<Choice>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                const History& history, uint32_t n_vocab, double unit) {
  return sample_allowed_candidates(row, options, history, n_vocab, n_vocab, unit);
}

Result<std::optional<Choice>> sample_allowed_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                        const History& history, uint32_t n_allowed, uint32_t n_vocab,
                                                        double unit) {
  CHECK(n_allowed > 0);
  if (std::isnan(row.log_sum_exp)) return not_finite("a logit");
  const LogitAdjustments adjustments(options, history, n_vocab);
  if (adjustments.empty() && options.temperature == 0) return Choice{token_of(row.top[0])};
  const UnseenTokens unseen(row, adjustments, n_allowed);
  const SureCandidates sure(row, adjustments, unseen, n_allowed);
  const std::span<const Candidate> sorted = sure.sorted();
  if (sorted.empty()) return std::nullopt;
  if (options.temperature == 0) return Choice{token_of(sorted[0])};

  const Bounds sigma = options.top_n_sigma == 0 ? Bounds{} : unseen.sigma(sorted);
  const uint32_t n_asked = n_asked_of(n_allowed, options);
  if (n_asked <= sorted.size()) return choose(sorted.first(n_asked), {}, sigma, n_vocab, options, history, unit);
  return choose(sorted, unseen.tail(sorted, n_asked), sigma, n_vocab, options, history, unit);
}

Result<std::optional<Choice>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                const History& history, uint32_t n_vocab, double unit,
                                                const IsAllowed& is_allowed) {
  CHECK(n_vocab > 0);
  if (std::isnan(row.log_sum_exp)) return not_finite("a logit");
  const LogitAdjustments adjustments(options, history, n_vocab);
  const UnseenTokens unseen(row, adjustments, n_vocab);
  const SureCandidates sure(row, adjustments, unseen, n_vocab);
  const std::span<const Candidate> sorted = sure.sorted();
  // The deviation is one of all allowed tokens, so all of them must be known.
  const bool needs_all = options.top_n_sigma != 0 && options.temperature > 0 && !has_mirostat(options);
  const uint32_t n_asked = n_asked_of(n_vocab, options);
  std::vector<Candidate> allowed;
  size_t n_seen = 0;
  for (; n_seen < sorted.size() && (needs_all || allowed.size() < n_asked); n_seen++) {
    if (TRY(is_allowed(token_of(sorted[n_seen])))) allowed.push_back(sorted[n_seen]);
  }
  if (allowed.empty()) return std::nullopt;
  if (options.temperature == 0) return Choice{token_of(allowed[0])};
  const bool are_all_known = n_seen == sorted.size() && !unseen.exist();
  const double deviation = needs_all ? standard_deviation(allowed) : 0;
  const Bounds sigma{are_all_known ? deviation : 0, are_all_known ? deviation : HUGE_VAL};
  const std::span<const Candidate> best = std::span(allowed).first(std::min<size_t>(allowed.size(), n_asked));
  if (best.size() == n_asked || are_all_known) return choose(best, {}, sigma, n_vocab, options, history, unit);
  return choose(best, unseen.tail_of_some(sorted, best, n_asked), sigma, n_vocab, options, history, unit);
}

Result<Choice> sample_allowed(std::span<const float> logits, const SamplingOptions& options, const History& history,
                              double unit, std::span<const TokenId> allowed) {
  CHECK(!allowed.empty());
  TRY(check_finite(logits));
  const auto n_vocab = static_cast<uint32_t>(logits.size());
  const LogitAdjustments adjustments(options, history, n_vocab);
  std::vector<Candidate> sorted;
  for (const TokenId id : allowed) {
    const auto token = static_cast<uint32_t>(id.value);
    CHECK(token < logits.size());
    sorted.push_back({token, adjustments.apply(token, logits[token])});
  }
  std::sort(sorted.begin(), sorted.end(), is_before);
  return choose(sorted, options.top_n_sigma == 0 ? 0 : standard_deviation(sorted), n_vocab, options, history, unit);
}

TokenLogprobs logprobs(std::span<const float> logits, TokenId token, uint32_t n) {
  CHECK(token.value >= 0 && static_cast<size_t>(token.value) < logits.size());
  RowCandidates row;
  select_candidates(row, logits);
  return logprobs_of(row, static_cast<uint32_t>(logits.size()), logits[static_cast<size_t>(token.value)], n);
}

std::optional<TokenLogprobs> logprobs(const RowCandidates& row, uint32_t n_vocab, TokenId token, uint32_t n) {
  for (const Candidate& c : row.top) {
    if (token_of(c) == token) return logprobs_of(row, n_vocab, c.logit, n);
  }
  return std::nullopt;
}

}  // namespace rocmforge
