#pragma once
// How likely each of some tokens is beside the first: e^((logit - first logit) / temperature).

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/ids.h"
#include "plan/candidates.h"

namespace rocmforge {

// Those of a row's candidates need no memory but their own.
class TokenWeights {
 public:
  TokenWeights(std::span<const Candidate> sorted, double temperature) {
    if (sorted.size() > few_.size()) many_.resize(sorted.size());
    const std::span<double> all = many_.empty() ? std::span<double>(few_).first(sorted.size()) : std::span(many_);
    for (size_t i = 0; i < sorted.size(); i++) {
      all[i] = std::exp((sorted[i].logit - double{sorted[0].logit}) / temperature);
    }
    all_ = all;
  }
  TokenWeights(const TokenWeights&) = delete;
  TokenWeights& operator=(const TokenWeights&) = delete;

  operator std::span<const double>() const { return all_; }
  std::span<const double> first(size_t n) const { return all_.first(n); }
  size_t size() const { return all_.size(); }
  double operator[](size_t i) const { return all_[i]; }

 private:
  std::array<double, kCandidates> few_;
  std::vector<double> many_;
  std::span<const double> all_;
};

inline double sum_of(std::span<const double> weights) {
  double total = 0;
  for (const double w : weights) total += w;
  return total;
}

// The first index at which the weights so far exceed `rest`; how many there are when they do not.
inline size_t index_at(std::span<const double> weights, double rest) {
  for (size_t i = 0; i < weights.size(); i++) {
    if (rest < weights[i]) return i;
    rest -= weights[i];
  }
  return weights.size();
}

inline TokenId token_of(const Candidate& candidate) {
  return TokenId(static_cast<int32_t>(candidate.id));
}

}  // namespace rocmforge
