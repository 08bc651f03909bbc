#pragma once
// Attention row by row (kernels/attend.h) with matrix instructions, over a cache of F16: queries and softmax weights
// are rounded to halves, sums stay f32. For NVIDIA GPUs.

#include <cstdint>

#include "gpu/kernels/attend.h"

namespace rocmforge::gpu {

// Kernels attend_matrix_SIZE: AttendArgs, kAttendThreads; heads of up to SIZE elements, in multiples of eight.
inline constexpr uint32_t kMatrixHeads = 8;  // query heads of a block

inline bool has_attend_matrix(uint32_t head_size) {
  return head_size % 8 == 0;
}

}  // namespace rocmforge::gpu
