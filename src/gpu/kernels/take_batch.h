#pragma once
// A pass that begins with this kernel takes its batch out of the host's memory itself: nothing has to be copied before
// it is launched, and a recorded one finds there what was written since.

#include <cstdint>

#include "gpu/api.h"

namespace rocmforge::gpu {

struct TakeBatchArgs {
  uint32_t* to;          // of the device; both aligned to 16 bytes
  const uint32_t* from;  // pinned; from[kBatchLength] says how many words there are
  uint32_t max_words;    // that both have room for, a multiple of 4
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
