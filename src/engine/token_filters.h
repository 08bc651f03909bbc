#pragma once
// The filters of sampler.h behind top_k, the temperature and the draw, over tokens in descending order of their
// adjusted logits: of a whole row, or of its candidates with bounds for the rest.

#include <cstddef>
#include <optional>
#include <span>

#include "engine/sampler.h"
#include "engine/tail_bounds.h"

namespace rocmforge {

// The standard deviation of logits, and a bound: top_n_sigma keeps those that are at least best - top_n_sigma * it.
double standard_deviation(std::span<const float> logits);
double standard_deviation(std::span<const Candidate> tokens);

// A draw from tokens that are known, all that top_k has left. REQUIRES: not empty; temperature > 0
TokenId draw(std::span<const Candidate> sorted, double sigma, const SamplingOptions& options, double unit);

// The same when `sorted` is only the beginning of what top_k has left, or sigma is known by bounds: nothing when the
// bounds do not tell. `rest` has no tokens where `sorted` is all.
std::optional<TokenId> draw(std::span<const Candidate> sorted, const Tail& rest, Bounds sigma,
                            const SamplingOptions& options, double unit);

}  // namespace rocmforge
