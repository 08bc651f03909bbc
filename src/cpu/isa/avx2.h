#pragma once
// The parts of the AVX2 table.

#include "cpu/isa/kernels.h"

namespace rocmforge::cpu {

struct PackedFormats {
  const PackedFormat* first;
  size_t n;
};

PackedFormats avx2_packed_formats();

}  // namespace rocmforge::cpu
