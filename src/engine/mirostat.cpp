#include "engine/mirostat.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/check.h"
#include "engine/token_weights.h"

namespace rocmforge {
namespace {

constexpr size_t kTokensOfEstimate = 100;

// The exponent of Zipf's law: the least squares fit of ln(p_i / p_(i+1)) = s * ln((i + 2) / (i + 1)).
double zipf_exponent(std::span<const Candidate> sorted, double temperature) {
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < std::min(sorted.size(), kTokensOfEstimate); i++) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = (double{sorted[i].logit} - sorted[i + 1].logit) / temperature;
    products += t * b;
    squares += t * t;
  }
  return squares > 0 ? products / squares : 0;
}

double n_by_zipf(double s, double mu, double n_vocab) {
  const double epsilon = s - 1;
  // The sum of i^-s over the vocabulary as an integral; at s = 1 its limit.
  const double scale = epsilon == 0 ? 1 / std::log(n_vocab) : epsilon / (1 - std::pow(n_vocab, -epsilon));
  const double k = std::pow(scale * std::exp2(mu), 1 / s);
  if (!(k >= 1)) return 1;
  return std::min(std::floor(k), n_vocab);
}

// Of the likeliest tokens those with at least `least` of the weight; one at least.
size_t n_with_weight(std::span<const double> weights, double least) {
  size_t n = 1;
  while (n < weights.size() && weights[n] >= least) n++;
  return n;
}

Choice draw_from(std::span<const double> weights, std::span<const Candidate> sorted, const MirostatOptions& options,
                 double mu, double unit) {
  const double total = sum_of(weights);
  const size_t at = std::min(index_at(weights, unit * total), weights.size() - 1);
  const double surprise = -std::log2(std::max(weights[at], DBL_MIN) / total);
  return {token_of(sorted[at]), mu - double{options.eta} * (surprise - double{options.tau})};
}

}  // namespace

std::optional<Choice> draw_mirostat(std::span<const Candidate> sorted, const Tail& rest, uint32_t n_vocab,
                                    const SamplingOptions& options, std::optional<double> known_mu, double unit) {
  CHECK(!sorted.empty());
  const double mu = known_mu.value_or(2 * double{options.mirostat.tau});
  const bool has_rest = rest.n_tokens > 0;
  const TokenWeights weights(sorted, options.temperature);
  if (options.mirostat.version == 1) {
    if (has_rest && sorted.size() < kTokensOfEstimate) return std::nullopt;
    const double n = n_by_zipf(zipf_exponent(sorted, options.temperature), mu, n_vocab);
    if (has_rest && n > static_cast<double>(sorted.size())) return std::nullopt;
    const auto n_kept = static_cast<size_t>(std::min(n, static_cast<double>(sorted.size())));
    return draw_from(weights.first(n_kept), sorted, options.mirostat, mu, unit);
  }
  const double share = std::exp2(-mu), known = sum_of(weights);
  if (!has_rest)
    return draw_from(weights.first(n_with_weight(weights, share * known)), sorted, options.mirostat, mu, unit);
  const Bounds of_rest = rest.mass_at(options.temperature);
  const double least = share * (known + of_rest.least) * (1 - kRoundingMargin);
  const double most = share * (known + of_rest.most) * (1 + kRoundingMargin);
  const size_t n_kept = n_with_weight(weights, least);
  // The likeliest of the rest is at most as likely as the last of `sorted`.
  if (n_kept == sorted.size() || n_with_weight(weights, most) != n_kept) return std::nullopt;
  return draw_from(weights.first(n_kept), sorted, options.mirostat, mu, unit);
}

}  // namespace rocmforge
