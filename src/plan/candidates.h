#pragma once
// What a sampler needs of a row of logits: the largest of them, and the sum of all exponentials. A backend gives it
// without moving the row (backend.h); the structs are plain because GPU kernels fill them.

#include <cstdint>
#include <span>

namespace rocmforge {

inline constexpr uint32_t kCandidates = 256;

struct Candidate {
  uint32_t id;
  float logit;
};

// Candidates are sorted: larger logits first, lower ids first among equals (-0 equals 0); the first is the argmax. A
// NaN is below every number. Of a row shorter than kCandidates the rest repeats its last.
struct RowCandidates {
  Candidate top[kCandidates];
  float log_sum_exp;  // within 1e-4 of the exact one's logarithm; NaN when any logit of the row is not finite
};

// REQUIRES: row is not empty
void select_candidates(RowCandidates& out, std::span<const float> row);

// The same, with the caller's way to the sum of e^(x - largest) over some of the row, which is a NaN if any x is not
// finite.
using SumOfPowers = float (*)(const float* x, size_t n, float largest);
void select_candidates(RowCandidates& out, std::span<const float> row, SumOfPowers sum_of_powers);

}  // namespace rocmforge
