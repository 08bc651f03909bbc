#include "engine/sampler.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace rocmforge {
namespace {

struct Candidate {
  float logit;
  int32_t id;
};

bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

Result<void> check_range(std::string_view name, double value, double least, double most) {
  if (least <= value && value <= most) return {};
  return Error{ErrorCode::invalid_argument,
               fmt::format("sampling: {} {} is not in {} to {}", name, value, least, most)};
}

// The index of the candidate on which `unit` falls when each has a share of `weights`.
size_t draw(std::span<const double> weights, double unit) {
  double total = 0;
  for (const double w : weights) total += w;
  double rest = unit * total;
  for (size_t i = 0; i + 1 < weights.size(); i++) {
    if (rest < weights[i]) return i;
    rest -= weights[i];
  }
  return weights.size() - 1;
}

// The n best, sorted; all of them when n is 0.
std::vector<Candidate> best_candidates(std::span<const float> logits, size_t n) {
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); i++) candidates[i] = {logits[i], static_cast<int32_t>(i)};
  if (n == 0 || n > candidates.size()) n = candidates.size();
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(n - 1), candidates.end(), better);
  candidates.resize(n);
  std::sort(candidates.begin(), candidates.end(), better);
  return candidates;
}

}  // namespace

Result<void> check_options(const SamplingOptions& options) {
  TRY(check_range("temperature", options.temperature, 0, 100));
  TRY(check_range("top_p", options.top_p, 0, 1));
  TRY(check_range("min_p", options.min_p, 0, 1));
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

Result<TokenId> sample(std::span<const float> logits, const SamplingOptions& options, double unit) {
  CHECK(!logits.empty());
  for (size_t i = 0; i < logits.size(); i++) {
    if (!std::isfinite(logits[i])) {
      return Error{ErrorCode::model_not_finite, fmt::format("sampling: the logit of token {} is {}", i, logits[i])};
    }
  }
  if (options.temperature == 0) {
    // max_element gives the first of equals: the lower id.
    return TokenId(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  std::vector<Candidate> candidates = best_candidates(logits, options.top_k);
  const double best = candidates[0].logit;
  std::vector<double> weights(candidates.size());
  double total = 0;
  for (size_t i = 0; i < candidates.size(); i++) total += weights[i] = std::exp(candidates[i].logit - best);

  size_t n_kept = candidates.size();
  if (options.top_p < 1) {
    double sum = 0;
    n_kept = 0;
    while (n_kept < candidates.size() && (n_kept == 0 || sum < options.top_p * total)) sum += weights[n_kept++];
  }
  while (n_kept > 1 && weights[n_kept - 1] < options.min_p) n_kept--;

  for (size_t i = 0; i < n_kept; i++) weights[i] = std::exp((candidates[i].logit - best) / options.temperature);
  return TokenId(candidates[draw(std::span(weights).first(n_kept), unit)].id);
}

}  // namespace rocmforge
