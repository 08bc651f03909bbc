#pragma once
// What a sampler needs of a row of logits: the largest of them, and the sum of their exponentials.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

inline constexpr uint32_t kCandidates = 256;

struct Candidate {
  uint32_t id;
  float logit;
};

// Candidates are sorted: larger logits first, lower ids first among equals; the first is the argmax. A NaN is below
// every number. Of a row shorter than kCandidates the rest repeats its last.
struct RowCandidates {
  Candidate top[kCandidates];
  float log_sum_exp;  // NaN when a logit is
};

struct CandidatesArgs {
  RowCandidates* out;   // n_rows
  const float* logits;  // n_rows x width
  uint32_t width;
};

inline constexpr uint32_t kCandidatesThreads = 256;

inline Grid candidates_grid(uint32_t n_rows) {
  return {n_rows};
}

}  // namespace rocmforge::gpu
