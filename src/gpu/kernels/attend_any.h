#pragma once
// Attention row by row of heads that few families have: keys of up to 576 elements and values of up to 512, of the same
// or different sizes, with or without ALiBi.

#include <cstdint>

#include "gpu/kernels/attend.h"

namespace rocmforge::gpu {

// Kernels attend_any_TYPE_SIZE: AttendArgs, kAttendThreads. SIZE is the most elements of a key; a value has at most as
// many, and at most kMaxAnyValueSize.
inline uint32_t attend_any_size(const AttendArgs& args) {
  const uint32_t most = args.head_size > args.value_size ? args.head_size : args.value_size;
  return most <= 128 ? 128 : most <= 256 ? 256 : most <= 512 ? 512 : 576;
}
inline bool needs_attend_any(const AttendArgs& args) {
  return args.head_size > kMaxHeadSize || args.value_size != args.head_size || args.alibi_bias != 0;
}

// Query heads of a block: fewer where a lane holds more of each.
inline constexpr uint32_t kAttendAnyWideHeads = 2;
inline uint32_t attend_any_heads(uint32_t size) {
  return size <= 256 ? kAttendHeads : kAttendAnyWideHeads;
}

}  // namespace rocmforge::gpu
