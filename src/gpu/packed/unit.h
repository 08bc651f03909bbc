#pragma once
// How kernels read quantized formats from planes (packed/planes.h).
//
// A lane processes a unit: the quants of one 16-byte load, which are one, two or four groups of 16 consecutive weights.
// Packed<Block> defines for its format
//
//   kGroups            groups in a unit
//   kMiddle            with a minimum: the middle of the quants, from which kernels/stream_fragments.cu counts
//   kOffset            weight = scale * (quant - kOffset) - minimum
//   Raw load(w, u)     unit u of the matrix, as bytes in registers
//   Group group(raw, u, g)   its group g: sixteen quants as signed bytes, scale and minimum
//   place(u, g)        the group's number along the matrix: it holds elements 16 place .. 16 place + 15
//   find(n)            the unit and group with place(u, g) = n
//
// so that dot products and decoding share one implementation. tensor/formats defines the bits.

#include "gpu/packed/planes.h"
#include "gpu/runtime.h"
#include "tensor/formats/all.h"

namespace rocmforge::gpu::RF_KERNELS {

struct Group {
  Word4 levels;  // 16 signed bytes
  float scale;
  float minimum;
};

struct UnitGroup {
  uint64_t unit;
  uint32_t group;
};

template <class Block>
struct Packed;

template <class T>
RF_DEVICE T load_as(const uint8_t* from) {
  return *reinterpret_cast<const T*>(from);
}
RF_DEVICE float half_at(const uint8_t* from) {
  return widen(load_as<F16>(from));
}

struct alignas(8) Word2 {
  uint32_t v[2];
};
// A word by a number that is not known at compile time: AMD's compiler would put an array with such an index into
// memory.
RF_DEVICE uint32_t word_at(const Word2& words, uint32_t i) {
  return i == 0 ? words.v[0] : words.v[1];
}
RF_DEVICE uint32_t word_at(const Word4& words, uint32_t i) {
  const uint32_t low = i % 2 == 0 ? words.v[0] : words.v[1], high = i % 2 == 0 ? words.v[2] : words.v[3];
  return i < 2 ? low : high;
}

// Each byte's low (g = 0) or high nibble.
RF_DEVICE Word4 nibbles(const Word4& bytes, uint32_t g) {
  Word4 out;
  for (int i = 0; i < 4; i++) out.v[i] = bytes.v[i] >> 4 * g & 0x0F0F0F0Fu;
  return out;
}

// Four bits, each moved to the lowest bit of a byte of its own.
RF_DEVICE uint32_t spread4(uint32_t bits) {
  return (bits & 0xFu) * 0x00204081u & 0x01010101u;
}

// A lookup table from codes 0 .. 15 to signed bytes: the first word has the value of code 0 in its lowest byte.
struct LevelTable {
  uint32_t words[4];
};
RF_HOST_DEVICE constexpr LevelTable level_table(const formats::FourBitLevels& levels) {
  return {{levels.word(0), levels.word(1), levels.word(2), levels.word(3)}};
}
RF_DEVICE Word4 look_up(const Word4& codes, const LevelTable& table) {
  Word4 out;
  for (int i = 0; i < 4; i++) out.v[i] = look_up_bytes(table.words, codes.v[i]);
  return out;
}
RF_DEVICE LevelTable iq4_levels() {
  constexpr LevelTable kTable = level_table(formats::kIq4Levels);
  return kTable;
}
RF_DEVICE LevelTable e2m1_levels() {
  constexpr LevelTable kTable = level_table(formats::kE2m1Doubled);
  return kTable;
}

// Formats with 32 weights per block in 16 bytes: the low nibbles are the first group, the high ones the second.
struct NibbleBlock {
  static constexpr uint32_t kGroups = 2;
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return 2 * u + g; }
  RF_DEVICE static UnitGroup find(uint64_t n) { return {n / 2, static_cast<uint32_t>(n % 2)}; }
};

// Q2_K, Q3_K and TQ2_0: unit 2 H + h of a block's four holds, of half H, the 16-byte half h of all four runs of 32
// weights.
struct KRuns {
  static constexpr uint32_t kGroups = 4;
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return u / 2 * 8 + 2 * g + u % 2; }
  RF_DEVICE static UnitGroup find(uint64_t n) { return {n / 8 * 2 + n % 2, static_cast<uint32_t>(n % 8 / 2)}; }
  RF_DEVICE static Word4 two_bits(const Word4& qs, uint32_t g) {
    Word4 out;
    for (int i = 0; i < 4; i++) out.v[i] = qs.v[i] >> 2 * g & 0x03030303u;
    return out;
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
