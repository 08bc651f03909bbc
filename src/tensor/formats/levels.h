#pragma once
// The values that codes of four bits stand for, in formats that look values up.

#include <cstdint>

#include "tensor/portable.h"

namespace rocmforge::formats {

struct FourBitLevels {
  int8_t at[16];

  // The values of codes 4i .. 4i + 3 plus `offset`, as bytes of one word, the first one lowest.
  RF_HOST_DEVICE constexpr uint32_t word(int i, int offset = 0) const {
    uint32_t out = 0;
    for (int b = 0; b < 4; b++) out |= static_cast<uint32_t>((at[4 * i + b] + offset) & 0xFF) << 8 * b;
    return out;
  }
};

}  // namespace rocmforge::formats
