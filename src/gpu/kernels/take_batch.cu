// Copies a batch's words from host to device memory. A load from there takes a microsecond: the first sweep does not
// wait for the number of words, and copies everything that it covers, for which there is room.

#include "gpu/runtime.h"

#include "gpu/kernels/take_batch.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_KERNEL(take_batch, TakeBatchArgs, kTakeBatchThreads) {
  auto* to = reinterpret_cast<Word4*>(args.to);
  const auto* from = reinterpret_cast<const Word4*>(args.from);
  const uint32_t at = block_x() * kTakeBatchThreads + thread_index();
  constexpr uint32_t kSweep = kTakeBatchMaxBlocks * kTakeBatchThreads;  // smaller grids need no second sweep
  const uint32_t length = args.from[kBatchLength];
  const uint32_t n = ((length < args.max_words ? length : args.max_words) + 3) / 4;
  if (at < args.max_words / 4) to[at] = from[at];
  for (uint32_t i = at + kSweep; i < n; i += kSweep) to[i] = from[i];
}

}  // namespace rocmforge::gpu::RF_KERNELS
