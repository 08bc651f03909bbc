#pragma once
// Formats whose levels times their scales, both being small integers, are halves without rounding: then whole pieces
// (packed/strips.h) go through the matrix instruction, and only common() and lift() are left for their sums.
//
// ExactStrip<Block> says
//
//   kTerms    halves that a weight is the sum of
//   Row       a staged row, decoded like Strip<Block>'s, except that decode(q, left) gives for each term and each
//             sixteen columns the pairs (0, 2) (1, 3) and (4, 6) (5, 7)

#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint32_t multiply_halves_of(uint32_t a, uint32_t b) {
  const __half2 product = __hmul2(*reinterpret_cast<__half2*>(&a), *reinterpret_cast<__half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&product);
}
// Byte i of a word, twice, as the halves of (byte - kOffset) or, with kSixteenths, of sixteenths of it.
template <uint32_t kOffset, bool kSixteenths>
RF_DEVICE uint32_t scale_halves(uint32_t word, uint32_t i) {
  // 1024 + byte, minus 1024 + offset; 64 + byte / 16, minus as much.
  constexpr uint32_t kHigh = kSixteenths ? 0x54545454u : 0x64646464u;
  constexpr uint32_t kMinus = kSixteenths ? 0xD400u + kOffset : 0xE400u + kOffset;
  return add_halves(__byte_perm(word, kHigh, 0x4040 + 0x101 * i), kMinus | kMinus << 16);
}

template <class Block>
struct ExactStrip {
  static constexpr uint32_t kTerms = 0;
};

// Levels of odd groups are sixteen times too large.
template <class Block>
struct ExactKStrip {
  static constexpr uint32_t kTerms = 1;
  struct Row : Strip<Block>::Row {
    using Strip<Block>::Row::Row;
    RF_DEVICE explicit Row(const typename Strip<Block>::Row& row) : Strip<Block>::Row(row) {}
    RF_DEVICE void decode(uint32_t q, uint32_t (&left)[1][2][2]) {
      Strip<Block>::Row::decode(q, left[0][0], left[0][1]);
      const uint32_t word = this->header.scales[q / 4];
      const uint32_t scale = q % 2 == 0 ? scale_halves<0, false>(word, q % 4) : scale_halves<0, true>(word, q % 4);
      RF_UNROLL
      for (uint32_t i = 0; i < 4; i++) left[0][i / 2][i % 2] = multiply_halves_of(left[0][i / 2][i % 2], scale);
    }
  };
};
template <>
struct ExactStrip<formats::Q4K> : ExactKStrip<formats::Q4K> {};
template <>
struct ExactStrip<formats::Q5K> : ExactKStrip<formats::Q5K> {};

// Six bits times eight are too many for a half: the lower four and the upper two are a term each.
template <>
struct ExactStrip<formats::Q6K> {
  static constexpr uint32_t kTerms = 2;
  struct Row : Strip<formats::Q6K>::Row {
    RF_DEVICE explicit Row(const Strip<formats::Q6K>::Row& row) : Strip<formats::Q6K>::Row(row) {}
    RF_DEVICE void decode(uint32_t q, uint32_t (&left)[2][2][2]) {
      const uint32_t half = q / 4, run = q % 4;
      if (run == 0) {
        for (uint32_t h = 0; h < 2; h++) {
          low[0][h] = word_at(at + 64 * half + 16 * h);
          low[1][h] = word_at(at + 64 * half + 32 + 16 * h);
          high[h] = word_at(at + 128 + 32 * half + 16 * h);
        }
      }
      // Runs 2 and 3 are the high nibbles, which stay where they are: sixteen times too large.
      const uint32_t mask = run < 2 ? 0x000F000Fu : 0x00F000F0u, bits = run < 2 ? 0x00300030u : 0x03000300u;
      const uint32_t up = run % 2 == 0 ? 4 : 2;
      RF_UNROLL
      for (uint32_t h = 0; h < 2; h++) {
        const uint32_t nibbles = low[run % 2][h], upper = high[h], byte = q % 2 * 2 + h;
        const uint32_t scale =
            run < 2 ? scale_halves<128, false>(scales[q / 2], byte) : scale_halves<128, true>(scales[q / 2], byte);
        left[0][h][0] = multiply_halves_of(nibbles & mask, scale);
        left[0][h][1] = multiply_halves_of(nibbles >> 8 & mask, scale);
        left[1][h][0] = multiply_halves_of(upper << up & bits, scale);
        left[1][h][1] = multiply_halves_of(upper >> (8 - up) & bits, scale);
      }
    }
  };
};

}  // namespace rocmforge::gpu::RF_KERNELS
