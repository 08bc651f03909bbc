#pragma once
// The functions of the AVX-512 table.

#include "cpu/isa/avx2.h"

namespace rocmforge::cpu {

extern const PackedFormat avx512_packed_formats[kPackedFormats];

}  // namespace rocmforge::cpu
