#include "engine/logit_adjustments.h"

#include <algorithm>
#include <cfloat>

#include "engine/dry.h"

namespace rocmforge {
namespace {

// Those of one token as one.
void merge(std::vector<LogitAdjustments::One>& all) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  size_t n = 0;
  for (const auto& one : all) {
    if (n > 0 && all[n - 1].token == one.token) {
      all[n - 1].bias += one.bias;
      all[n - 1].n_seen += one.n_seen;
      all[n - 1].dry += one.dry;
    } else {
      all[n++] = one;
    }
  }
  all.resize(n);
}

}  // namespace

LogitAdjustments::LogitAdjustments(const SamplingOptions& options, const History& history, uint32_t n_vocab)
    : repetition_(options.repetition_penalty),
      presence_(options.presence_penalty),
      frequency_(options.frequency_penalty) {
  const auto in_vocabulary = [&](TokenId id) { return id.value >= 0 && static_cast<uint32_t>(id.value) < n_vocab; };
  for (const LogitBias& b : options.logit_bias) {
    if (in_vocabulary(b.token)) all_.push_back({static_cast<uint32_t>(b.token.value), b.bias, 0, 0});
  }
  if (repetition_ != 1 || presence_ != 0 || frequency_ != 0) {
    std::span<const TokenId> recent = history.tokens;
    if (options.penalty_last_n >= 0) {
      recent = recent.last(std::min(recent.size(), static_cast<size_t>(options.penalty_last_n)));
    }
    for (const TokenId id : recent) {
      if (in_vocabulary(id)) all_.push_back({static_cast<uint32_t>(id.value), 0, 1, 0});
    }
  }
  for (const DryPenalty& one : dry_penalties(options.dry, history)) {
    if (one.token < n_vocab) all_.push_back({one.token, 0, 0, one.penalty});
  }
  merge(all_);
}

float LogitAdjustments::apply(const One& one, float logit) const {
  float v = logit + one.bias;
  if (one.n_seen > 0) {
    v = v > 0 ? v / repetition_ : v * repetition_;
    v -= static_cast<float>(one.n_seen) * frequency_ + presence_;
  }
  return std::clamp(v - one.dry, -FLT_MAX, FLT_MAX);
}

float LogitAdjustments::apply(uint32_t token, float logit) const {
  const auto found =
      std::lower_bound(all_.begin(), all_.end(), token, [](const One& one, uint32_t t) { return one.token < t; });
  return found != all_.end() && found->token == token ? apply(*found, logit) : logit;
}

}  // namespace rocmforge
