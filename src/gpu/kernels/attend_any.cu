// Attention row by row of heads that few families have. See attend_any.h.

#include "gpu/runtime.h"

#include "gpu/kernels/attend_any.h"
#include "gpu/kernels/attend_row.h"

namespace rocmforge::gpu::RF_KERNELS {

template <uint32_t kSize>
struct AnySizes {
  static constexpr uint32_t kKeySize = kSize, kValueSize = kSize < kMaxAnyValueSize ? kSize : kMaxAnyValueSize;
  static constexpr uint32_t kHeads = kSize <= 256 ? kAttendHeads : kAttendAnyWideHeads;
  static constexpr bool kIsAny = true;
};

#define RF_ATTEND_ANY(size)                                            \
  RF_KERNEL_EARLY(attend_any_f32_##size, AttendArgs, kAttendThreads) { \
    attend_row<RowAttention<float, AnySizes<size>>>(args);             \
  }                                                                    \
  RF_KERNEL_EARLY(attend_any_f16_##size, AttendArgs, kAttendThreads) { \
    attend_row<RowAttention<F16, AnySizes<size>>>(args);               \
  }
RF_ATTEND_ANY(128)
RF_ATTEND_ANY(256)
RF_ATTEND_ANY(512)
RF_ATTEND_ANY(576)

}  // namespace rocmforge::gpu::RF_KERNELS
