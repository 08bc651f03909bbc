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

// Whether the keys and values of a row at this position are written.
RF_DEVICE bool is_stored(const BatchView& batch, uint32_t row, uint32_t position) {
  return batch.first_stored == nullptr || position >= batch.first_stored[row];
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

// The same of keys and values of different width.
template <class T>
struct CachePlace {
  T *keys, *values;
  RF_DEVICE CachePlace(T* cache, const BatchView& batch, uint32_t row, uint32_t position, uint32_t key_width,
                       uint32_t value_width) {
    const uint64_t page = batch.pages[batch.first_page[row] + position / kPagePositions];
    const uint32_t at = position % kPagePositions;
    T* first = cache + page * kPagePositions * (key_width + value_width);
    keys = first + static_cast<uint64_t>(at) * key_width;
    values = first + static_cast<uint64_t>(kPagePositions) * key_width + static_cast<uint64_t>(at) * value_width;
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
