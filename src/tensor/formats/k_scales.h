#pragma once
// The scales of Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes.
//
//   byte       bits 0-5 (0-3 in the last row)   the rest
//   0 .. 3     scale of sub-block 0 .. 3        upper two bits of the scale of sub-block 4 .. 7
//   4 .. 7     minimum of sub-block 0 .. 3      upper two bits of the minimum of sub-block 4 .. 7
//   8 .. 11    low four bits of the scale of    low four bits of the minimum of
//              sub-block 4 .. 7                 sub-block 4 .. 7

#include "tensor/fit.h"

namespace rocmforge::formats {

using KScale = fit::PartScale;  // both 0 .. 63

RF_HOST_DEVICE inline KScale load_k_scale(const uint8_t* packed, int s) {  // packed: 12
  if (s < 4) return {static_cast<uint8_t>(packed[s] & 63), static_cast<uint8_t>(packed[s + 4] & 63)};
  return {static_cast<uint8_t>((packed[s + 4] & 0xF) | packed[s - 4] >> 6 << 4),
          static_cast<uint8_t>(packed[s + 4] >> 4 | packed[s] >> 6 << 4)};
}

inline void store_k_scales(uint8_t* packed, const KScale* scales) {  // packed: 12, scales: 8
  for (int s = 0; s < 4; s++) {
    const KScale first = scales[s];
    const KScale last = scales[s + 4];
    packed[s] = static_cast<uint8_t>(first.scale | last.scale >> 4 << 6);
    packed[s + 4] = static_cast<uint8_t>(first.minimum | last.minimum >> 4 << 6);
    packed[s + 8] = static_cast<uint8_t>((last.scale & 0xF) | (last.minimum & 0xF) << 4);
  }
}

}  // namespace rocmforge::formats
