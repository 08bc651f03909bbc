#pragma once
// Formats whose products quant * scale (both small integers) are exactly representable as halves. Whole pieces
// (packed/strips.h) then go through the matrix instruction, and only common() and lift() remain to be applied to the
// sums.
//
// kBottomsAreAlike: the minima have the same unit as the scales, and are scaled by the same common().
//
// kIsExact<Block>: whether a format is exact. ScaledRow<Block>: a staged row whose decode() gives these products; for
// Q6_K, each as two halves.

#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

// Byte i of a word, in both halves of the result, as a half: 1024 + byte, minus 1024.
RF_DEVICE uint32_t byte_twice(uint32_t word, uint32_t i) {
  return add_halves(__byte_perm(word, 0x64646464u, 0x4040 + 0x101 * i), 0xE400E400u);
}
// The same divided by 16: 64 + byte / 16, minus 64.
RF_DEVICE uint32_t sixteenths_twice(uint32_t word, uint32_t i) {
  return add_halves(__byte_perm(word, 0x54545454u, 0x4040 + 0x101 * i), 0xD400D400u);
}

template <class Block>
inline constexpr bool kIsExact = false;
template <>
inline constexpr bool kIsExact<formats::Q4K> = true;  // 15 times 63
template <>
inline constexpr bool kIsExact<formats::Q5K> = true;  // 31 times 63

// A staged row whose quants times scales are the exact sum of kHalves halves. Groups are decoded in runs of kRun, with
// next() between runs: decode(q, put) gives pairs of the weights of group q of a run as put(h, i, pair), for half h,
// with i = 0 .. 3 for the pairs (0, 2) (1, 3) (4, 6) (5, 7).
// half h, i = 0 .. 3 being the pairs (0, 2) (1, 3) (4, 6) (5, 7).
template <class Block>
struct ScaledRow;

struct ScaledKRow {
  static constexpr uint32_t kHalves = 1, kRun = 2;
  static constexpr bool kBottomsAreAlike = false;
  const uint8_t* at;
  uint32_t scales[2];
  template <class Row>
  RF_DEVICE static uint32_t bottoms(const Row& row, uint32_t) {
    return row.bottoms(0);
  }
  template <class Put>
  RF_DEVICE void scale(uint32_t q, const uint32_t (&first)[2], const uint32_t (&second)[2], const Put& put) const {
    // Quants of odd groups are still shifted left by 4 (16 times too large).
    const uint32_t both = q == 0 ? byte_twice(scales[0], 0) : sixteenths_twice(scales[0], 1);
    RF_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
      put(0, i, multiply_pairs(first[i], both));
      put(0, 2 + i, multiply_pairs(second[i], both));
    }
  }
  RF_DEVICE void next() {
    at += 32;
    scales[0] = __funnelshift_r(scales[0], scales[1], 16);
    scales[1] >>= 16;
  }
};
template <>
struct ScaledRow<formats::Q4K> : ScaledKRow {
  uint2 w, shifted;
  RF_DEVICE explicit ScaledRow(const Strip<formats::Q4K>::Row& row)
      : ScaledKRow{row.at, {row.header.scales[0], row.header.scales[1]}} {}
  template <class Put>
  RF_DEVICE void decode(uint32_t q, const Put& put) {
    if (q == 0) {
      w = words_at(at);
      shifted = {w.x >> 8, w.y >> 8};
    }
    const uint32_t mask = q == 0 ? 0x000F000Fu : 0x00F000F0u;
    scale(q, {w.x & mask, shifted.x & mask}, {w.y & mask, shifted.y & mask}, put);
  }
};
template <>
struct ScaledRow<formats::Q5K> : ScaledKRow {
  uint2 w, qh;
  RF_DEVICE explicit ScaledRow(const Strip<formats::Q5K>::Row& row)
      : ScaledKRow{row.at, {row.header.scales[0], row.header.scales[1]}}, qh(row.qh) {}
  template <class Put>
  RF_DEVICE void decode(uint32_t q, const Put& put) {
    if (q == 0) w = words_at(at);
    const uint32_t mask = q == 0 ? 0x000F000Fu : 0x00F000F0u, bit = q == 0 ? 0x00100010u : 0x01000100u;
    const auto low = [&](uint32_t nibbles, uint32_t fifth) {
      return (nibbles & mask) | (fifth << (q == 0 ? 4 : 7) & bit);
    };
    const auto high = [&](uint32_t nibbles, uint32_t fifth) {
      return (nibbles >> 8 & mask) | (fifth >> (q == 0 ? 4 : 1) & bit);
    };
    scale(q, {low(w.x, qh.x), high(w.x, qh.x)}, {low(w.y, qh.y), high(w.y, qh.y)}, put);
  }
  RF_DEVICE void next() {
    ScaledKRow::next();
    qh = {qh.x >> 2, qh.y >> 2};
  }
};

// A scale of eight bits is split into two nibbles.
template <>
struct ScaledRow<formats::Q6K> {
  static constexpr uint32_t kHalves = 2, kRun = 4;
  static constexpr bool kBottomsAreAlike = true;
  const uint8_t *low_at, *high_at;
  uint32_t scales[4];  // stored with an offset of 128
  RF_DEVICE explicit ScaledRow(const Strip<formats::Q6K>::Row& row)
      : low_at(row.at), high_at(row.at + 128), scales{row.scales[0], row.scales[1], row.scales[2], row.scales[3]} {}
  // The minima: -32 times the scales, in units of kLevelUnit.
  RF_DEVICE static uint32_t bottoms(const Strip<formats::Q6K>::Row& row, uint32_t i) {
    return multiply_pairs(row.bottoms(i), 0x80208020u);
  }
  template <class Put>
  RF_DEVICE void decode(uint32_t q, const Put& put) {
    // The third and fourth group are the high nibbles, used in place: 16 times too large.
    const uint32_t mask = q < 2 ? 0x000F000Fu : 0x00F000F0u, bits = q < 2 ? 0x00300030u : 0x03000300u;
    const uint32_t up = q % 2 == 0 ? 4 : 2;
    const uint32_t small = scales[q / 2] & 0x0F0F0F0Fu, large = scales[q / 2] & 0xF0F0F0F0u;
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
      const uint32_t nibbles = word_at(low_at + q % 2 * 32 + 16 * h), high = word_at(high_at + 16 * h);
      const uint32_t levels[2] = {(nibbles & mask) | (high << up & bits),
                                  (nibbles >> 8 & mask) | (high >> (8 - up) & bits)};
      const uint32_t byte = q % 2 * 2 + h;
      const uint32_t lower = q < 2 ? byte_twice(small, byte) : sixteenths_twice(small, byte);
      const uint32_t upper = q < 2 ? nibble_twice(large, byte) : nibble_sixteenths_twice(large, byte);
      RF_UNROLL
      for (uint32_t i = 0; i < 2; i++) {
        put(0, 2 * h + i, multiply_pairs(levels[i], upper));
        put(1, 2 * h + i, multiply_pairs(levels[i], lower));
      }
    }
  }
  RF_DEVICE void next() {
    low_at += 64;
    high_at += 32;
    scales[0] = scales[2];
    scales[1] = scales[3];
  }

 private:
  // The same for bytes with an offset of 128.
  RF_DEVICE static uint32_t nibble_twice(uint32_t word, uint32_t i) {
    return add_halves(__byte_perm(word, 0x64646464u, 0x4040 + 0x101 * i), 0xE480E480u);
  }
  RF_DEVICE static uint32_t nibble_sixteenths_twice(uint32_t word, uint32_t i) {
    return add_halves(__byte_perm(word, 0x54545454u, 0x4040 + 0x101 * i), 0xD480D480u);
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
