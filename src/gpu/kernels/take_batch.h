#pragma once
// The first kernel of a recorded pass: copies the batch from pinned host memory. No separate copy is needed before the
// launch, and each replay reads the current batch.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

struct TakeBatchArgs {
  uint32_t* to;          // device memory; both aligned to 16 bytes
  const uint32_t* from;  // pinned; from[kBatchLength] is the number of words
  uint32_t max_words;    // capacity of both, a multiple of 4
};

inline constexpr uint32_t kBatchLength = 2;
inline constexpr uint32_t kTakeBatchThreads = 128;
inline constexpr uint32_t kTakeBatchMaxBlocks = 16;

inline Grid take_batch_grid(uint32_t max_words) {
  constexpr uint32_t kOfABlock = kTakeBatchThreads * 4;
  const uint32_t n = (max_words + kOfABlock - 1) / kOfABlock;
  return {n < kTakeBatchMaxBlocks ? n : kTakeBatchMaxBlocks};
}

}  // namespace rocmforge::gpu
