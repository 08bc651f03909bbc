#include "engine/tail_bounds.h"

#include <algorithm>
#include <cmath>

namespace rocmforge {
namespace {

constexpr uint32_t kNoPlace = kCandidates;

// Where a token is among the candidates.
uint32_t place_of(const RowCandidates& row, uint32_t token) {
  const auto* found = std::find_if(row.top, row.top + kCandidates, [&](const Candidate& c) { return c.id == token; });
  return static_cast<uint32_t>(found - row.top);
}

}  // namespace

// With w <= largest for every weight, and their sum m: the sum of w^p lies between m * largest^(p - 1) and
// n * (m / n)^p, the former above the latter when p > 1.
Bounds Tail::mass_at(double temperature) const {
  if (!(mass.most > 0)) return {};
  const double p = 1 / temperature;
  const auto by_largest = [&](double m) { return largest > 0 ? m * std::pow(largest, p - 1) : 0.0; };
  const auto by_mean = [&](double m) { return n_tokens * std::pow(m / n_tokens, p); };
  if (p >= 1) return {by_mean(mass.least), by_largest(mass.most)};
  return {by_largest(mass.least), by_mean(mass.most)};
}

UnseenTokens::UnseenTokens(const RowCandidates& row, const LogitAdjustments& adjustments, uint32_t n_vocab)
    : row_(row), adjustments_(adjustments), n_vocab_(n_vocab), bar_(row.top[kCandidates - 1].logit) {
  const float last = bar_;
  for (const auto& a : adjustments.all()) {
    if (place_of(row, a.token) == kNoPlace) bar_ = std::max(bar_, adjustments.apply(a, last));
  }
}

// Of all tokens, adjusted.
Bounds UnseenTokens::whole_mass(double best) const {
  // What RowCandidates promises of log_sum_exp, twice, and the rounding of a float.
  const double margin = 2e-4 + std::abs(double{row_.log_sum_exp}) * 0x1p-22;
  const auto weight = [&](float logit) { return std::exp(logit - best); };
  Bounds mass{std::exp(row_.log_sum_exp - best - margin), std::exp(row_.log_sum_exp - best + margin)};
  const float last = row_.top[kCandidates - 1].logit;
  for (const auto& a : adjustments_.all()) {
    if (const uint32_t place = place_of(row_, a.token); place != kNoPlace) {
      const float logit = row_.top[place].logit;
      const double change = weight(adjustments_.apply(a, logit)) - weight(logit);
      mass.least += change;
      mass.most += change;
    } else {
      mass.least -= weight(last);
      mass.most += weight(adjustments_.apply(a, last));
    }
  }
  return mass;
}

Tail UnseenTokens::tail_of_some(std::span<const Candidate> sorted, std::span<const Candidate> counted,
                                uint32_t n_asked) const {
  const double best = counted[0].logit;
  double known = 0;
  for (const Candidate& c : sorted) known += std::exp(c.logit - best);
  Tail tail;
  tail.n_tokens =
      std::min<double>(n_asked - static_cast<double>(counted.size()), n_vocab_ - static_cast<double>(sorted.size()));
  tail.largest = std::exp(bar_ - best) * (1 + kRoundingMargin);
  tail.mass = {0, tail.n_tokens * tail.largest};
  const Bounds whole = whole_mass(best);
  const double slack = kRoundingMargin * known;
  if (whole.most - known + slack < tail.mass.most) tail.mass.most = std::max(whole.most - known, 0.0) + slack;
  return tail;
}

Tail UnseenTokens::tail(std::span<const Candidate> sorted, uint32_t n_asked) const {
  const double best = sorted[0].logit;
  double known = 0;
  for (const Candidate& c : sorted) known += std::exp(c.logit - best);
  Tail tail;
  tail.n_tokens = n_asked - static_cast<double>(sorted.size());
  tail.largest = std::exp(bar_ - best) * (1 + kRoundingMargin);
  tail.mass = {0, tail.n_tokens * tail.largest};
  // Written so that a mass that is no number, after an overflow, leaves the bounds as they are.
  const Bounds whole = whole_mass(best);
  const double slack = kRoundingMargin * known;
  if (whole.most - known + slack < tail.mass.most) tail.mass.most = std::max(whole.most - known, 0.0) + slack;
  if (n_asked == n_vocab_ && whole.least - known - slack > 0) tail.mass.least = whole.least - known - slack;
  return tail;
}

// Tokens that were not seen may be as far below as they like. They spread the least when all are at the bar, which is
// below every known one.
Bounds UnseenTokens::sigma(std::span<const Candidate> sorted) const {
  const double n = n_vocab_, n_unseen = n - static_cast<double>(sorted.size());
  double mean = n_unseen * bar_ / n, squares = 0;
  for (const Candidate& c : sorted) mean += c.logit / n;
  for (const Candidate& c : sorted) squares += (c.logit - mean) * (c.logit - mean) / n;
  squares += n_unseen * (bar_ - mean) * (bar_ - mean) / n;
  const double sigma = std::sqrt(squares), slack = kRoundingMargin * (1 + sigma);
  return {std::max(0.0, sigma - slack), n_unseen == 0 ? sigma + slack : HUGE_VAL};
}

}  // namespace rocmforge
