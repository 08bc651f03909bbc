#pragma once
// The address of a position in a layer's cache (kernels/attend.h), and reading and writing of elements.

#include "gpu/kernels/attend.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE float cached(const float* at) {
  return *at;
}
RF_DEVICE float cached(const F16* at) {
  return widen(*at);
}
RF_DEVICE void put_cached(float* at, float v) {
  *at = v;
}
RF_DEVICE void put_cached(F16* at, float v) {
  *at = narrow(v);
}

// The row of a position's keys; its values are kPagePositions rows later.
RF_DEVICE uint32_t row_of_cache(const BatchView& batch, uint32_t row, uint32_t position) {
  const uint32_t page = batch.pages[batch.first_page[row] + position / kPagePositions];
  return page * 2 * kPagePositions + position % kPagePositions;
}
template <class T>
RF_DEVICE T* cache_row(T* cache, const BatchView& batch, uint32_t row, uint32_t position, uint32_t width) {
  return cache + static_cast<uint64_t>(row_of_cache(batch, row, position)) * width;
}

}  // namespace rocmforge::gpu::RF_KERNELS
