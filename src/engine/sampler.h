#pragma once
// From logits to a token: a pure function of the logits, the options and one random number.
//
// Order: the top_k largest logits, of those the smallest set whose probabilities reach top_p, of those the ones with at
// least min_p of the best one's probability, then temperature, then one draw. Equal logits keep the lower id first.

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/result.h"

namespace rocmforge {

struct SamplingOptions {
  float temperature = 0.8f;  // 0: always the most likely token
  uint32_t top_k = 40;       // 0: all
  float top_p = 0.95f;       // 1: all
  float min_p = 0.05f;       // 0: all
  uint64_t seed = 0;
};

// invalid_argument, naming the option. Written so that NaN is outside every range.
Result<void> check_options(const SamplingOptions& options);

// The same seed and step give the same number in [0, 1), whatever else runs.
double random_unit(uint64_t seed, uint64_t step);

// REQUIRES: options are checked; unit in [0, 1). model_not_finite when a logit is NaN or infinite.
Result<TokenId> sample(std::span<const float> logits, const SamplingOptions& options, double unit);

}  // namespace rocmforge
