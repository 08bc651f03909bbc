#pragma once
// Formats whose levels times their scales, both being small integers, are halves without rounding: then whole pieces
// (packed/strips.h) go through the matrix instruction, and only common() and lift() are left for their sums.
//
// kIsExact<Block>: whether a format is one, and then ExactRow<Block> is a staged row whose decode() gives such
// products.

#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

// Byte i of a word, twice, as halves: 1024 + byte, minus 1024.
RF_DEVICE uint32_t byte_twice(uint32_t word, uint32_t i) {
  return add_halves(__byte_perm(word, 0x64646464u, 0x4040 + 0x101 * i), 0xE400E400u);
}
// Sixteenths of it: 64 + byte / 16, minus 64.
RF_DEVICE uint32_t sixteenths_twice(uint32_t word, uint32_t i) {
  return add_halves(__byte_perm(word, 0x54545454u, 0x4040 + 0x101 * i), 0xD400D400u);
}

template <class Block>
inline constexpr bool kIsExact = false;
template <>
inline constexpr bool kIsExact<formats::Q4K> = true;  // 15 times 63
template <>
inline constexpr bool kIsExact<formats::Q5K> = true;  // 31 times 63

template <class Block>
struct ExactRow : Strip<Block>::Row {
  RF_DEVICE explicit ExactRow(const typename Strip<Block>::Row& row) : Strip<Block>::Row(row) {}
  RF_DEVICE void decode(uint32_t q, uint32_t (&first)[2], uint32_t (&second)[2]) {
    Strip<Block>::Row::decode(q, first, second);
    // Levels of odd groups are sixteen times too large.
    const uint32_t word = this->header.scales[q / 4];
    const uint32_t scale = q % 2 == 0 ? byte_twice(word, q % 4) : sixteenths_twice(word, q % 4);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
      first[i] = multiply_pairs(first[i], scale);
      second[i] = multiply_pairs(second[i], scale);
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
