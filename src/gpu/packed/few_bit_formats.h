#pragma once
// Q1_0, Q2_0 and the ternary formats.

#include "gpu/packed/codebook_formats.h"
#include "gpu/packed/unit.h"

namespace rocmforge::gpu::RF_KERNELS {

// A unit is half a block. A bit stands for -1 or 1: as quants 0 and 2 with an offset of 1.
template <>
struct Packed<formats::Q1_0> : OrderedUnits {
  static constexpr int kOffset = 1;
  struct Raw {
    Word2 qs;
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load_as<Word2>(w.at[0] + 8 * u), half_at(w.at[1] + u / 2 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t bits = word_at(raw.qs, g / 2) >> 16 * (g % 2);
    return {
        {spread4(bits) << 1, spread4(bits >> 4) << 1, spread4(bits >> 8) << 1, spread4(bits >> 12) << 1}, raw.d, 0.0f};
  }
};

// A unit is a block; four neighbouring weights share a byte.
template <>
struct Packed<formats::Q2_0> : OrderedUnits {
  static constexpr int kOffset = 1;
  struct Raw {
    Word4 qs;
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), half_at(w.at[1] + 2 * u)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    Word4 levels;
    RF_UNROLL
    for (int i = 0; i < 4; i++) {
      uint32_t codes = word_at(raw.qs, g) >> 8 * i & 0xFFu;
      codes = (codes | codes << 12) & 0x000F000Fu;
      levels.v[i] = (codes | codes << 6) & 0x03030303u;
    }
    return {levels, raw.d, 0.0f};
  }
};

template <>
struct Packed<formats::Tq2_0> : KRuns {
  static constexpr int kOffset = 1;
  struct Raw {
    Word4 qs;
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), half_at(w.at[1] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) { return {two_bits(raw.qs, g), raw.d, 0.0f}; }
};

// A block's 48 bytes are three words A, B and C of sixteen, with five trits in each byte, and four bytes with four.
// Units 0, 1 and 2 are the first four trits of A, B and C; the last unit is the fifth trits of A, B and C, then the
// four bytes.
template <>
struct Packed<formats::Tq1_0> {
  static constexpr uint32_t kGroups = 4;
  static constexpr int kOffset = 1;
  struct Raw {
    Word4 codes;  // trits as two bits, those of group g in bits 2g, 2g + 1 of each byte
    float d;
  };
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) {
    const auto unit = static_cast<uint32_t>(u % 4);
    return u / 4 * 16 + (unit < 2 ? 2 * g + unit : unit == 2 ? 10 + g : g < 2 ? 8 + g : 12 + g);
  }
  RF_DEVICE static UnitGroup find(uint64_t n) {
    const auto at = static_cast<uint32_t>(n % 16);
    const uint32_t unit = at < 8 ? at % 2 : at >= 10 && at < 14 ? 2 : 3;
    return {n / 16 * 4 + unit, at < 8 ? at / 2 : at < 10 ? at - 8 : at < 14 ? at - 10 : at - 12};
  }
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    const uint8_t* qs = w.at[0] + u / 4 * 48;
    const auto unit = static_cast<uint32_t>(u % 4);
    Raw raw{load16(qs + (unit < 3 ? 16 * unit : 0)), half_at(w.at[2] + u / 4 * 2)};
    if (unit < 3) {
      RF_UNROLL
      for (uint32_t& word : raw.codes.v) {
        word = trits(word, 1) | trits(word, 3) << 2 | trits(word, 9) << 4 | trits(word, 27) << 6;
      }
    } else {
      const Word4 second = load16(qs + 16), third = load16(qs + 32);
      const uint32_t qh = load_as<uint32_t>(w.at[1] + u / 4 * 4);
      uint32_t power = 1;
      RF_UNROLL
      for (int i = 0; i < 4; i++, power *= 3) {
        raw.codes.v[i] = trits(raw.codes.v[i], 81) | trits(second.v[i], 81) << 2 | trits(third.v[i], 81) << 4 |
                         trits(qh, power) << 6;
      }
    }
    return raw;
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    return {KRuns::two_bits(raw.codes, g), raw.d, 0.0f};
  }

 private:
  // Of four bytes, the trit that multiplication by `by` brings to the front (tensor/formats/tq1_0.h).
  RF_DEVICE static uint32_t trits(uint32_t bytes, uint32_t by) {
    const uint32_t even = ((bytes & 0x00FF00FFu) * by & 0x00FF00FFu) * 3;
    const uint32_t odd_ones = ((bytes >> 8 & 0x00FF00FFu) * by & 0x00FF00FFu) * 3;
    return (even >> 8 & 0x00030003u) | (odd_ones & 0x03000300u);
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
