#pragma once
// Where T5's buckets of distances begin, for the kernels: they compare, so that no logarithm of theirs rounds otherwise
// than distance_bucket() does.

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "gpu/kernels/texts.h"
#include "plan/step.h"

namespace rocmforge::gpu {

inline constexpr uint32_t kMinDistanceBuckets = 8;

// REQUIRES: kMinDistanceBuckets <= n_buckets <= kMaxDistanceBuckets
inline DistanceBuckets distance_buckets(const float* biases, uint32_t n_buckets) {
  CHECK(n_buckets >= kMinDistanceBuckets && n_buckets <= kMaxDistanceBuckets);
  const uint32_t n = n_buckets / 2;
  DistanceBuckets out{.biases = biases, .n_exact = n / 2, .starts = {}};
  std::ranges::fill(out.starts, UINT32_MAX);
  uint32_t distance = out.n_exact;
  for (uint32_t bucket = out.n_exact; bucket < n; bucket++) {
    while (distance_bucket(-int64_t{distance}, n_buckets) < bucket) distance++;
    out.starts[bucket - out.n_exact] = distance;
  }
  return out;
}

}  // namespace rocmforge::gpu
