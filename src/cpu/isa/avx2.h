#pragma once
// The functions of the AVX2 table.

#include "cpu/isa/kernels.h"

namespace rocmforge::cpu {

inline constexpr size_t kPackedFormats = 28;
extern const PackedFormat avx2_packed_formats[kPackedFormats];

}  // namespace rocmforge::cpu
