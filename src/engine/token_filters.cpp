#include "engine/token_filters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/token_weights.h"

namespace rocmforge {
namespace {

template <class T, class LogitOf>
double deviation_of(std::span<const T> all, LogitOf logit_of) {
  const auto n = static_cast<double>(all.size());
  double mean = 0, squares = 0;
  for (const T& one : all) mean += logit_of(one) / n;
  for (const T& one : all) squares += (logit_of(one) - mean) * (logit_of(one) - mean) / n;
  return std::sqrt(squares);
}

// How many of the first tokens reach `mass`; one more than there are when they do not.
size_t n_reaching(std::span<const double> weights, double mass) {
  double sum = 0;
  for (size_t n = 0; n < weights.size(); n++) {
    if (n > 0 && !(sum < mass)) return n;
    sum += weights[n];
  }
  return sum < mass ? weights.size() + 1 : weights.size();
}

// Of the first n tokens those with min_p of the best one's weight.
size_t n_with_min_p(std::span<const double> weights, size_t n, double min_p) {
  while (n > 1 && weights[n - 1] < min_p) n--;
  return n;
}

size_t n_within_sigmas(std::span<const Candidate> sorted, double sigma, const SamplingOptions& options) {
  if (options.top_n_sigma == 0) return sorted.size();
  const double least = double{sorted[0].logit} - double{options.top_n_sigma} * sigma;
  const auto at = std::ranges::partition_point(sorted, [&](const Candidate& c) { return c.logit >= least; });
  return std::max<size_t>(1, static_cast<size_t>(at - sorted.begin()));
}

// The tokens of typical_p in their old order.
std::vector<Candidate> typical_of(std::span<const Candidate> sorted, double typical_p) {
  const TokenWeights weights(sorted, 1);
  const double total = sum_of(weights);
  std::vector<double> surprise(sorted.size());
  double entropy = 0;
  for (size_t i = 0; i < sorted.size(); i++) {
    surprise[i] = std::log(total) - (double{sorted[i].logit} - sorted[0].logit);
    entropy += weights[i] > 0 ? weights[i] / total * surprise[i] : 0;
  }
  std::vector<size_t> order(sorted.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(std::abs(surprise[i] - entropy), i); });
  std::vector<double> in_order(sorted.size());
  for (size_t i = 0; i < order.size(); i++) in_order[i] = weights[order[i]];
  order.resize(std::min(n_reaching(in_order, typical_p * total), order.size()));
  std::ranges::sort(order);
  std::vector<Candidate> kept;
  for (const size_t i : order) kept.push_back(sorted[i]);
  return kept;
}

// Decided by a second random number, made of the first.
bool has_xtc(const SamplingOptions& options, double unit) {
  return options.xtc_probability > 0 && random_unit(std::bit_cast<uint64_t>(unit), 0) < double{options.xtc_probability};
}

// How many of the likeliest tokens XTC leaves out: all but one of those that have the threshold.
size_t n_left_out(std::span<const double> weights, double total, const SamplingOptions& options) {
  size_t n = 0;
  while (n < weights.size() && weights[n] >= double{options.xtc_threshold} * total) n++;
  return n > 0 ? n - 1 : 0;
}

TokenId draw_at_temperature(std::span<const Candidate> sorted, const SamplingOptions& options, double unit) {
  const TokenWeights weights(sorted, options.temperature);
  return token_of(sorted[std::min(index_at(weights, unit * sum_of(weights)), sorted.size() - 1)]);
}

// The filters from top_p on.
TokenId draw_from_typical(std::span<const Candidate> sorted, const SamplingOptions& options, double unit) {
  const TokenWeights plain(sorted, 1);
  size_t n_kept = sorted.size();
  if (options.top_p < 1) n_kept = std::min(n_kept, n_reaching(plain, options.top_p * sum_of(plain)));
  n_kept = n_with_min_p(plain, n_kept, options.min_p);
  sorted = sorted.first(n_kept);
  if (has_xtc(options, unit))
    sorted = sorted.subspan(n_left_out(plain.first(n_kept), sum_of(plain.first(n_kept)), options));
  return draw_at_temperature(sorted, options, unit);
}

// The filters from typical_p on.
TokenId draw_within_sigmas(std::span<const Candidate> sorted, const SamplingOptions& options, double unit) {
  if (options.typical_p < 1) return draw_from_typical(typical_of(sorted, options.typical_p), options, unit);
  return draw_from_typical(sorted, options, unit);
}

// Counts of kept tokens; one more than are known stands for any number of them.
struct Counts {
  size_t least = 0, most = 0;
};

// The filters over tokens of which the last are known by bounds.
class BoundedDraw {
 public:
  BoundedDraw(std::span<const Candidate> sorted, const Tail& rest, const SamplingOptions& options)
      : sorted_(sorted), rest_(rest), options_(options), plain_(sorted, 1) {}

  std::optional<TokenId> draw(Bounds sigma, double unit) const {
    const Counts within{n_within(sigma.least), n_within(sigma.most)};
    const bool is_known = within.least == within.most && within.most <= sorted_.size();
    if (is_known) return draw_within_sigmas(sorted_.first(within.most), options_, unit);
    if (options_.typical_p < 1) return std::nullopt;
    const Bounds mass = mass_of(within, options_.top_n_sigma == 0);
    const Counts kept{n_kept(within.least, mass.least), n_kept(within.most, mass.most)};
    const std::optional<size_t> n_first = has_xtc(options_, unit) ? n_without_xtc(kept) : 0;
    if (!n_first) return std::nullopt;
    if (kept.least == kept.most && kept.most <= sorted_.size()) {
      return draw_at_temperature(sorted_.subspan(*n_first, kept.most - *n_first), options_, unit);
    }
    return draw_between(kept, *n_first, unit);
  }

 private:
  size_t known(size_t count) const { return std::min(count, sorted_.size()); }

  bool is_rest_uncut() const { return options_.top_n_sigma == 0 && options_.top_p == 1 && options_.min_p == 0; }

  size_t n_within(double sigma) const {
    const size_t n = n_within_sigmas(sorted_, sigma, options_);
    if (n < sorted_.size() || rest_.n_tokens == 0) return n;
    if (options_.top_n_sigma == 0) return n + 1;
    return rest_.largest < std::exp(-double{options_.top_n_sigma} * sigma) ? n : n + 1;
  }

  // The plain weights of so many tokens together, with all or perhaps only a part of the rest.
  Bounds mass_of(Counts counts, bool is_rest_whole) const {
    Bounds mass{sum_of(plain_.first(known(counts.least))), sum_of(plain_.first(known(counts.most)))};
    if (counts.most > sorted_.size()) mass.most += rest_.mass.most;
    if (counts.least > sorted_.size() && is_rest_whole) mass.least += rest_.mass.least;
    return mass;
  }

  // How many of the likeliest tokens XTC leaves out, if the bounds tell.
  std::optional<size_t> n_without_xtc(Counts kept) const {
    const Bounds mass = mass_of(kept, is_rest_uncut());
    const size_t least = n_left_out(plain_.first(known(kept.least)), mass.most, options_);
    const size_t most = n_left_out(plain_.first(known(kept.most)), mass.least, options_);
    const bool may_reach_rest = most + 1 == sorted_.size() && kept.most > sorted_.size();
    if (least != most || may_reach_rest) return std::nullopt;
    return least;
  }

  // Of so many tokens with this mass.
  size_t n_kept(size_t n_within, double mass) const {
    const size_t n = options_.top_p < 1 ? std::min(n_within, n_reaching(plain_, options_.top_p * mass)) : n_within;
    if (n <= sorted_.size()) return n_with_min_p(plain_, n, options_.min_p);
    const bool is_rest_cut = rest_.largest < options_.min_p || plain_[sorted_.size() - 1] < options_.min_p;
    return is_rest_cut ? n_with_min_p(plain_, sorted_.size(), options_.min_p) : n;
  }

  // The same token for every number of kept tokens and every mass of the rest, or none.
  std::optional<TokenId> draw_between(Counts kept, size_t n_first, double unit) const {
    const TokenWeights all(sorted_.first(known(kept.most)), options_.temperature);
    const std::span<const double> weights = all.first(known(kept.least)).subspan(n_first);
    double least = sum_of(weights), most = sum_of(all.first(all.size()).subspan(n_first));
    if (kept.most > sorted_.size()) {
      const Bounds rest = rest_.mass_at(options_.temperature);
      most += rest.most;
      if (kept.least > sorted_.size() && is_rest_uncut()) least += rest.least;
    }
    const size_t at = index_at(weights, unit * least * (1 - kRoundingMargin));
    if (at == weights.size() || index_at(weights, unit * most * (1 + kRoundingMargin)) != at) return std::nullopt;
    return token_of(sorted_[n_first + at]);
  }

  std::span<const Candidate> sorted_;
  const Tail& rest_;
  const SamplingOptions& options_;
  TokenWeights plain_;
};

}  // namespace

double standard_deviation(std::span<const float> logits) {
  return deviation_of(logits, [](float logit) { return double{logit}; });
}

double standard_deviation(std::span<const Candidate> tokens) {
  return deviation_of(tokens, [](const Candidate& c) { return double{c.logit}; });
}

TokenId draw(std::span<const Candidate> sorted, double sigma, const SamplingOptions& options, double unit) {
  CHECK(!sorted.empty());
  return draw_within_sigmas(sorted.first(n_within_sigmas(sorted, sigma, options)), options, unit);
}

std::optional<TokenId> draw(std::span<const Candidate> sorted, const Tail& rest, Bounds sigma,
                            const SamplingOptions& options, double unit) {
  CHECK(!sorted.empty());
  if (rest.n_tokens == 0 && options.top_n_sigma == 0) return draw_within_sigmas(sorted, options, unit);
  return BoundedDraw(sorted, rest, options).draw(sigma, unit);
}

}  // namespace rocmforge
