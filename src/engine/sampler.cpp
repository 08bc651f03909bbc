#include "engine/sampler.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/logit_adjustments.h"
#include "engine/tail_bounds.h"

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

// How likely each of some tokens is beside the first, at a temperature. Those of candidates need no memory but their
// own.
class Weights {
 public:
  Weights(std::span<const Candidate> sorted, double temperature) {
    if (sorted.size() > few_.size()) many_.resize(sorted.size());
    const std::span<double> all = many_.empty() ? std::span<double>(few_).first(sorted.size()) : std::span(many_);
    const double best = sorted[0].logit;
    for (size_t i = 0; i < sorted.size(); i++) all[i] = std::exp((sorted[i].logit - best) / temperature);
    all_ = all;
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  operator std::span<const double>() const { return all_; }
  size_t size() const { return all_.size(); }
  double back() const { return all_.back(); }

 private:
  std::array<double, kCandidates> few_;
  std::vector<double> many_;
  std::span<const double> all_;
};

double sum_of(std::span<const double> weights) {
  double total = 0;
  for (const double w : weights) total += w;
  return total;
}

// How many of the first tokens reach top_p of `total`; one more than there are when they do not.
size_t n_reaching(std::span<const double> weights, double top_p, double total) {
  double sum = 0;
  for (size_t n = 0; n < weights.size(); n++) {
    if (n > 0 && !(sum < top_p * total)) return n;
    sum += weights[n];
  }
  return sum < top_p * total ? weights.size() + 1 : weights.size();
}

// Of the first n tokens those with min_p of the best one's weight.
size_t n_with_min_p(std::span<const double> weights, size_t n, double min_p) {
  while (n > 1 && weights[n - 1] < min_p) n--;
  return n;
}

// The first index at which the weights so far exceed `rest`; how many there are when they do not.
size_t index_at(std::span<const double> weights, double rest) {
  for (size_t i = 0; i < weights.size(); i++) {
    if (rest < weights[i]) return i;
    rest -= weights[i];
  }
  return weights.size();
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

TokenId token_of(const Candidate& candidate) {
  return TokenId(static_cast<int32_t>(candidate.id));
}

// A draw from all tokens that top_k has left.
TokenId draw(std::span<const Candidate> sorted, const SamplingOptions& options, double unit) {
  const Weights plain(sorted, 1);
  size_t n_kept = sorted.size();
  if (options.top_p < 1) n_kept = std::min(n_kept, n_reaching(plain, options.top_p, sum_of(plain)));
  n_kept = n_with_min_p(plain, n_kept, options.min_p);
  const Weights weights(sorted.first(n_kept), options.temperature);
  return token_of(sorted[std::min(index_at(weights, unit * sum_of(weights)), n_kept - 1)]);
}

// The same when `sorted` is only the beginning of what top_k has left, and the rest is known by bounds.
std::optional<TokenId> draw(std::span<const Candidate> sorted, const Tail& tail, const SamplingOptions& options,
                            double unit) {
  const Weights plain(sorted, 1);
  const double known = sum_of(plain);
  const auto n_kept = [&](double total) {
    const size_t n = options.top_p < 1 ? n_reaching(plain, options.top_p, total) : plain.size() + 1;
    if (n <= plain.size()) return n_with_min_p(plain, n, options.min_p);
    const bool is_tail_cut = tail.largest < options.min_p || plain.back() < options.min_p;
    return is_tail_cut ? n_with_min_p(plain, plain.size(), options.min_p) : n;
  };
  const size_t fewest = n_kept(known + tail.mass.least), most = n_kept(known + tail.mass.most);
  const Weights weights(sorted.first(std::min(fewest, sorted.size())), options.temperature);
  double least = sum_of(weights);
  if (fewest == most && most <= sorted.size()) {
    return token_of(sorted[std::min(index_at(weights, unit * least), weights.size() - 1)]);
  }
  double all = least;
  if (most > weights.size()) all = sum_of(Weights(sorted.first(std::min(most, sorted.size())), options.temperature));
  if (most > sorted.size()) {
    const Bounds rest = tail.mass_at(options.temperature);
    all += rest.most;
    if (options.top_p == 1 && options.min_p == 0) least += rest.least;
  }
  const size_t at = index_at(weights, unit * least * (1 - kRoundingMargin));
  if (at == weights.size() || index_at(weights, unit * all * (1 + kRoundingMargin)) != at) return std::nullopt;
  return token_of(sorted[at]);
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
  return {};
}

double random_unit(uint64_t seed, uint64_t step) {
  // SplitMix64: a counter-based generator, so that nothing has to be carried from step to step.
  uint64_t z = seed + (step + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

Result<TokenId> sample(std::span<const float> logits, const SamplingOptions& options, std::span<const TokenId> history,
                       double unit) {
  CHECK(!logits.empty() && logits.size() <= INT32_MAX);
  RowCandidates row;
  select_candidates(row, logits);
  const auto found = sample_candidates(row, options, history, static_cast<uint32_t>(logits.size()), unit);
  if (found.ok() && *found) return **found;
  return sample_whole_row(logits, options, history, unit);  // which also says what is not finite
}

Result<TokenId> sample_whole_row(std::span<const float> logits, const SamplingOptions& options,
                                 std::span<const TokenId> history, double unit) {
  CHECK(!logits.empty() && logits.size() <= INT32_MAX);
  for (size_t i = 0; i < logits.size(); i++) {
    if (!std::isfinite(logits[i])) return not_finite(fmt::format("the logit of token {}", i));
  }
  const LogitAdjustments adjustments(options, history, static_cast<uint32_t>(logits.size()));
  std::vector<float> adjusted;
  if (!adjustments.empty()) {
    adjusted.assign(logits.begin(), logits.end());
    for (const auto& a : adjustments.all()) adjusted[a.token] = adjustments.apply(a, adjusted[a.token]);
    logits = adjusted;
  }
  if (options.temperature == 0) {
    // max_element gives the first of equals: the lower id.
    return TokenId(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  return draw(best_of(logits, options.top_k), options, unit);
}

Result<std::optional<TokenId>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                 std::span<const TokenId> history, uint32_t n_vocab, double unit) {
  CHECK(n_vocab > 0);
  if (std::isnan(row.log_sum_exp)) return not_finite("a logit");
  const LogitAdjustments adjustments(options, history, n_vocab);
  if (adjustments.empty() && options.temperature == 0) return token_of(row.top[0]);
  std::span<const Candidate> sorted(row.top, std::min(n_vocab, kCandidates));
  const UnseenTokens unseen(row, adjustments, n_vocab);
  std::vector<Candidate> adjusted;
  if (!adjustments.empty()) {
    adjusted.assign(sorted.begin(), sorted.end());
    for (Candidate& c : adjusted) c.logit = adjustments.apply(c.id, c.logit);
    std::sort(adjusted.begin(), adjusted.end(), is_before);
    // A token that was not seen may come before those that are not above the bar.
    if (unseen.exist()) std::erase_if(adjusted, [&](const Candidate& c) { return !(c.logit > unseen.bar()); });
    sorted = adjusted;
  }
  if (sorted.empty()) return std::nullopt;
  if (options.temperature == 0) return token_of(sorted[0]);

  const uint32_t n_asked = options.top_k == 0 ? n_vocab : std::min(options.top_k, n_vocab);
  if (n_asked <= sorted.size()) return draw(sorted.first(n_asked), options, unit);
  return draw(sorted, unseen.tail(sorted, n_asked), options, unit);
}

Result<std::optional<TokenId>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                 std::span<const TokenId> history, uint32_t n_vocab, double unit,
                                                 const IsAllowed& is_allowed) {
  CHECK(n_vocab > 0);
  if (std::isnan(row.log_sum_exp)) return not_finite("a logit");
  const LogitAdjustments adjustments(options, history, n_vocab);
  const UnseenTokens unseen(row, adjustments, n_vocab);
  std::vector<Candidate> sorted(row.top, row.top + std::min(n_vocab, kCandidates));
  if (!adjustments.empty()) {
    for (Candidate& c : sorted) c.logit = adjustments.apply(c.id, c.logit);
    std::sort(sorted.begin(), sorted.end(), is_before);
    if (unseen.exist()) std::erase_if(sorted, [&](const Candidate& c) { return !(c.logit > unseen.bar()); });
  }
  const uint32_t n_asked = options.temperature == 0 ? 1
                           : options.top_k == 0     ? n_vocab
                                                    : std::min(options.top_k, n_vocab);
  std::vector<Candidate> allowed;
  size_t n_seen = 0;
  for (; n_seen < sorted.size() && allowed.size() < n_asked; n_seen++) {
    if (TRY(is_allowed(token_of(sorted[n_seen])))) allowed.push_back(sorted[n_seen]);
  }
  if (allowed.empty()) return std::nullopt;
  if (options.temperature == 0) return token_of(allowed[0]);
  if (allowed.size() == n_asked || (n_seen == sorted.size() && !unseen.exist())) return draw(allowed, options, unit);
  return draw(allowed, unseen.tail_of_some(sorted, allowed, n_asked), options, unit);
}

Result<TokenId> sample_allowed(std::span<const float> logits, const SamplingOptions& options,
                               std::span<const TokenId> history, double unit, std::span<const TokenId> allowed) {
  CHECK(!allowed.empty());
  for (size_t i = 0; i < logits.size(); i++) {
    if (!std::isfinite(logits[i])) return not_finite(fmt::format("the logit of token {}", i));
  }
  const LogitAdjustments adjustments(options, history, static_cast<uint32_t>(logits.size()));
  std::vector<Candidate> sorted;
  for (const TokenId id : allowed) {
    const auto token = static_cast<uint32_t>(id.value);
    CHECK(token < logits.size());
    sorted.push_back({token, adjustments.apply(token, logits[token])});
  }
  std::sort(sorted.begin(), sorted.end(), is_before);
  if (options.temperature == 0) return token_of(sorted[0]);
  if (options.top_k != 0 && options.top_k < sorted.size()) sorted.resize(options.top_k);
  return draw(sorted, options, unit);
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
