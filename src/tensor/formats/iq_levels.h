#pragma once
// Shared by the IQ1, IQ2 and IQ3 formats: from a codebook entry to the quants of 8 weights, as the bytes of one 64-bit
// word (the first weight in the lowest byte), and from there to floats.

#include "tensor/formats/iq_tables.h"

namespace rocmforge::formats {

inline constexpr uint64_t kEachByte = 0x0101010101010101;  // times b: b in each of the eight bytes

// Eight fields of two bits, each moved to a byte of its own.
RF_HOST_DEVICE constexpr uint64_t spread_8x2(uint64_t code) {
  code = (code | code << 24) & 0x000000FF000000FF;
  code = (code | code << 12) & 0x000F000F000F000F;
  return (code | code << 6) & 0x0303030303030303;
}

// Twice four fields of three bits, each moved to a byte of its own: the fields of `low` in the lower four bytes.
RF_HOST_DEVICE constexpr uint64_t spread_4x3(uint64_t low, uint64_t high) {
  uint64_t code = low | high << 32;
  code = (code | code << 10) & 0x003F003F003F003F;
  return (code | code << 5) & 0x0707070707070707;
}

// The magnitudes 8, 25, 43 of IQ2 for the fields 0, 1, 2.
RF_HOST_DEVICE constexpr uint64_t iq2_magnitudes(uint32_t code) {
  const uint64_t field = spread_8x2(code);
  return 8 * kEachByte + 17 * field + (field >> 1 & kEachByte);
}

// Signs stored in seven bits: the number of negative weights among eight is even, which gives the eighth sign.
RF_HOST_DEVICE constexpr uint32_t even_signs(uint32_t seven) {
  uint32_t parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | (parity & 1) << 7;
}

// Negates byte j where bit j of `signs` is set. REQUIRES: every byte is 1 .. 127, signs < 256
RF_HOST_DEVICE inline uint64_t with_signs(uint64_t magnitudes, uint32_t signs) {
  const uint64_t bits = signs * kEachByte & 0x8040201008040201;  // bit j in byte j, at different positions
  const uint64_t minus = (bits + 0x7F * kEachByte) >> 7 & kEachByte;
  return (magnitudes ^ minus * 0xFF) + minus;
}

// to[j] = scale * (byte j, signed, + offset)
RF_HOST_DEVICE inline void scale_levels(float* to, float scale, uint64_t levels, int offset = 0) {  // to: 8
  struct Bytes {
    int8_t at[8];
  };
  const auto bytes = __builtin_bit_cast(Bytes, levels);
  for (int j = 0; j < 8; j++) to[j] = scale * static_cast<float>(bytes.at[j] + offset);
}

// Eight weights of IQ1: scale * (-1, 0 or 1, shifted by an eighth up or down).
RF_HOST_DEVICE inline void decode_iq1(float* to, float scale, uint32_t index, bool down) {  // to: 8, index < 2048
  scale_levels(to, scale * 0.125f, spread_8x2(iq1_code(index)) * 8, down ? -9 : -7);
}

}  // namespace rocmforge::formats
