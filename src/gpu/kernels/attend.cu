// Attention row by row over the cached positions of its sequence, and the store of new ones. See attend.h.

#include "gpu/runtime.h"

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_row.h"
#include "gpu/kernels/kv_cache.h"

namespace rocmforge::gpu::RF_KERNELS {

template <class T>
RF_DEVICE void store_rows(const StoreKvArgs& args) {
  const uint32_t i = block_y() * kStoreKvThreads + thread_index();
  const uint32_t row = block_x();
  const uint32_t position = args.batch.positions[row];
  if (!is_stored(args.batch, row, position)) return;
  const CachePlace<T> to(static_cast<T*>(args.cache), args.batch, row, position, args.width, args.value_width);
  if (i < args.width) put_cached(to.keys + i, args.keys[static_cast<uint64_t>(row) * args.width + i]);
  if (i < args.value_width) put_cached(to.values + i, args.values[static_cast<uint64_t>(row) * args.value_width + i]);
}
RF_KERNEL(store_kv_f32, StoreKvArgs, kStoreKvThreads) {
  store_rows<float>(args);
}
RF_KERNEL(store_kv_f16, StoreKvArgs, kStoreKvThreads) {
  store_rows<F16>(args);
}

#define RF_ATTEND(size)                                            \
  RF_KERNEL_EARLY(attend_f32_##size, AttendArgs, kAttendThreads) { \
    attend_row<RowAttention<float, OneSize<size>>>(args);          \
  }                                                                \
  RF_KERNEL_EARLY(attend_f16_##size, AttendArgs, kAttendThreads) { \
    attend_row<RowAttention<F16, OneSize<size>>>(args);            \
  }
RF_ATTEND(64)
RF_ATTEND(128)
RF_ATTEND(256)

}  // namespace rocmforge::gpu::RF_KERNELS
