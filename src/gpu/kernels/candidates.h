#pragma once
// What a sampler needs of rows of logits (plan/candidates.h), on the device.

#include <cstdint>

#include "gpu/api.h"
#include "plan/candidates.h"

namespace rocmforge::gpu {

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
