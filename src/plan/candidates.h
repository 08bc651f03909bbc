#pragma once
// A sampler's view of a row of logits: the top-k candidates and the log-sum-exp of the row. A backend computes it
// without moving the row (backend.h). The structs are plain because GPU kernels fill them.

#include <cstdint>
#include <span>

namespace rocmforge {

inline constexpr uint32_t kCandidates = 256;

struct Candidate {
  uint32_t id;
  float logit;
};

// Candidates are sorted by descending logit, equal logits (-0 equals 0) by ascending id; the first is the argmax. A NaN
// ranks below every number. If a row has fewer than kCandidates logits, the last candidate is repeated.
struct RowCandidates {
  Candidate top[kCandidates];
  float log_sum_exp;  // within 1e-4 of the exact value; NaN if any logit of the row is not finite
};

// REQUIRES: row is not empty
void select_candidates(RowCandidates& out, std::span<const float> row);

// The same, with the caller's function for sums of e^(x - largest). The function returns NaN if any x is not
// finite.
using SumOfPowers = float (*)(const float* x, size_t n, float largest);
void select_candidates(RowCandidates& out, std::span<const float> row, SumOfPowers sum_of_powers);

// Tokens of a row of logits: one bit each, in words of 64 bits. Tokens beyond the last word are not allowed, bits
// beyond the row do not count.
struct AllowedTokens {
  uint32_t row = 0;
  std::span<const uint64_t> mask = {};
  uint32_t n_allowed = 0;  // of the row; at least one
};

// The candidates and the log-sum-exp of the allowed tokens alone; the other logits are not looked at.
// REQUIRES: allowed.n_allowed > 0
void select_candidates(RowCandidates& out, std::span<const float> row, const AllowedTokens& allowed);

}  // namespace rocmforge
