#pragma once
// How kernels read the common quantized formats from planes (packed/planes.h).
//
// A lane processes a unit: the quants of one 16-byte load, which are one, two or four groups of 16 consecutive weights.
// Packed<Block> defines for its format
//
//   kGroups            groups in a unit
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

// A lookup table from codes 0 .. 15 to signed bytes: `table` has value 0 in its lowest byte.
struct LevelTable {
  uint64_t low, high;  // values 0 .. 7 and 8 .. 15
};
RF_DEVICE Word4 look_up(const Word4& codes, LevelTable table) {
  Word4 out;
  for (int i = 0; i < 4; i++) {
    out.v[i] = 0;
    for (int b = 0; b < 4; b++) {
      const uint32_t code = codes.v[i] >> 8 * b & 0xFu;
      const uint64_t half = code < 8 ? table.low : table.high;
      out.v[i] |= static_cast<uint32_t>(half >> 8 * (code & 7u) & 0xFFu) << 8 * b;
    }
  }
  return out;
}
RF_DEVICE LevelTable iq4_levels() {
  return {0xF6EADDCFBFAD9881ull, 0x7159453526190D01ull};
}
RF_DEVICE LevelTable e2m1_levels() {
  return {0x0C08060403020100ull, 0xF4F8FAFCFDFEFF00ull};
}

// Formats with 32 weights per block in 16 bytes: the low nibbles are the first group, the high ones the second.
struct NibbleBlock {
  static constexpr uint32_t kGroups = 2;
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return 2 * u + g; }
  RF_DEVICE static UnitGroup find(uint64_t n) { return {n / 2, static_cast<uint32_t>(n % 2)}; }
};

template <>
struct Packed<formats::Q4_0> : NibbleBlock {
  static constexpr int kOffset = 8;
  struct Raw {
    Word4 qs;
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), half_at(w.at[1] + 2 * u)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) { return {nibbles(raw.qs, g), raw.d, 0.0f}; }
};

template <>
struct Packed<formats::Q4_1> : NibbleBlock {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    float d, m;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), half_at(w.at[1] + 4 * u), half_at(w.at[1] + 4 * u + 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) { return {nibbles(raw.qs, g), raw.d, -raw.m}; }
};

// Adds the fifth bits of a group, for formats that store one for each of a block's 32 weights.
RF_DEVICE Word4 with_fifth_bits(Word4 levels, uint32_t qh, uint32_t g) {
  for (int i = 0; i < 4; i++) levels.v[i] |= spread4(qh >> (16 * g + 4 * i)) << 4;
  return levels;
}

template <>
struct Packed<formats::Q5_0> : NibbleBlock {
  static constexpr int kOffset = 16;
  struct Raw {
    Word4 qs;
    uint32_t qh;
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), load_as<uint32_t>(w.at[1] + 4 * u), half_at(w.at[2] + 2 * u)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    return {with_fifth_bits(nibbles(raw.qs, g), raw.qh, g), raw.d, 0.0f};
  }
};

template <>
struct Packed<formats::Q5_1> : NibbleBlock {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    uint32_t qh;
    float d, m;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), load_as<uint32_t>(w.at[1] + 4 * u), half_at(w.at[2] + 4 * u),
            half_at(w.at[2] + 4 * u + 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    return {with_fifth_bits(nibbles(raw.qs, g), raw.qh, g), raw.d, -raw.m};
  }
};

template <>
struct Packed<formats::Q8_0> {
  static constexpr uint32_t kGroups = 1;
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    float d;
  };
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t) { return u; }
  RF_DEVICE static UnitGroup find(uint64_t n) { return {n, 0}; }
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), half_at(w.at[1] + u / 2 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t) { return {raw.qs, raw.d, 0.0f}; }
};

template <>
struct Packed<formats::Iq4Nl> : NibbleBlock {
  static constexpr int kOffset = 0;
  using Raw = Packed<formats::Q4_0>::Raw;
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) { return Packed<formats::Q4_0>::load(w, u); }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    return {look_up(nibbles(raw.qs, g), iq4_levels()), raw.d, 0.0f};
  }
};

template <>
struct Packed<formats::Mxfp4> : NibbleBlock {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    float half_scale;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), formats::e8m0_halved(w.at[1][u])};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    return {look_up(nibbles(raw.qs, g), e2m1_levels()), raw.half_scale, 0.0f};
  }
};

template <>
struct Packed<formats::Iq4Xs> : NibbleBlock {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    uint32_t header, scales_low;  // d and the scales' upper bits; their lower ones
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    const uint8_t* header = w.at[1] + u / 8 * 8;
    return {load16(w.at[0] + 16 * u), load_as<uint32_t>(header), load_as<uint32_t>(header + 4)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t u, uint32_t g) {
    const uint32_t s = u % 8;
    const uint32_t bits = (raw.scales_low >> 4 * s & 0xFu) | (raw.header >> (16 + 2 * s) & 3u) << 4;
    const float d = widen(F16{static_cast<uint16_t>(raw.header)});
    return {look_up(nibbles(raw.qs, g), iq4_levels()), d * static_cast<float>(static_cast<int>(bits) - 32), 0.0f};
  }
};

// Q4_K and Q5_K: unit 2 p + h of a block's eight is the 16-byte half h of pair p of sub-blocks (64 weights).
struct KPairs {
  static constexpr uint32_t kGroups = 2;
  static constexpr int kOffset = 0;
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return u / 2 * 4 + 2 * g + u % 2; }
  RF_DEVICE static UnitGroup find(uint64_t n) { return {n / 4 * 2 + n % 2, static_cast<uint32_t>(n / 2 % 2)}; }

  // d, dmin and the twelve bytes of scales, in four words. The scales of a pair of sub-blocks are neighbours in all of
  // them, so both are extracted together.
  RF_DEVICE static Group scaled(const Word4& levels, const Word4& header, uint64_t u, uint32_t g) {
    const uint32_t pair = u % 8 / 2, shift = pair % 2 * 16;
    const uint32_t first = header.v[1] >> shift, second = header.v[2] >> shift, third = header.v[3] >> shift;
    const bool low = pair < 2;
    const uint32_t scales = low ? first & 0x3F3Fu : (third & 0x0F0Fu) | (first >> 2 & 0x3030u);
    const uint32_t minima = low ? second & 0x3F3Fu : (third >> 4 & 0x0F0Fu) | (second >> 2 & 0x3030u);
    const float d = widen(F16{static_cast<uint16_t>(header.v[0])});
    const float dmin = widen(F16{static_cast<uint16_t>(header.v[0] >> 16)});
    return {levels, d * static_cast<float>(scales >> 8 * g & 0xFFu),
            dmin * static_cast<float>(minima >> 8 * g & 0xFFu)};
  }
};

template <>
struct Packed<formats::Q4K> : KPairs {
  struct Raw {
    Word4 qs, header;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), load_as<Word4>(w.at[1] + u / 8 * 16)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t u, uint32_t g) {
    return scaled(nibbles(raw.qs, g), raw.header, u, g);
  }
};

template <>
struct Packed<formats::Q5K> : KPairs {
  struct Raw {
    Word4 qs, qh, header;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), load_as<Word4>(w.at[1] + u / 8 * 32 + u % 2 * 16),
            load_as<Word4>(w.at[2] + u / 8 * 16)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t u, uint32_t g) {
    Word4 levels = nibbles(raw.qs, g);
    const uint32_t s = u % 8 / 2 * 2 + g;
    for (int i = 0; i < 4; i++) levels.v[i] |= (raw.qh.v[i] >> s & 0x01010101u) << 4;
    return scaled(levels, raw.header, u, g);
  }
};

// Q6_K: unit 4 H + 2 a + h of a block's eight holds, of half H (128 weights), the 16-byte half h of runs a (low
// nibbles) and a + 2 (high nibbles) of 32 weights.
template <>
struct Packed<formats::Q6K> {
  static constexpr uint32_t kGroups = 2;
  static constexpr int kOffset = 32;
  struct Raw {
    Word4 ql, qh;
    float d;
    int scales[2];
  };
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return u / 4 * 8 + 2 * (u % 4 / 2 + 2 * g) + u % 2; }
  RF_DEVICE static UnitGroup find(uint64_t n) {
    const uint64_t run = n % 8 / 2;
    return {n / 8 * 4 + run % 2 * 2 + n % 2, static_cast<uint32_t>(run / 2)};
  }
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    const auto* scales = reinterpret_cast<const int8_t*>(w.at[2]);
    return {load16(w.at[0] + 16 * u),
            load_as<Word4>(w.at[1] + u / 4 * 32 + u % 2 * 16),
            half_at(w.at[3] + u / 8 * 2),
            {scales[place(u, 0)], scales[place(u, 1)]}};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t u, uint32_t g) {
    Word4 levels = nibbles(raw.ql, g);
    const uint32_t run = static_cast<uint32_t>(u % 4 / 2) + 2 * g;
    for (int i = 0; i < 4; i++) levels.v[i] |= (raw.qh.v[i] >> 2 * run & 0x03030303u) << 4;
    return {levels, raw.d * static_cast<float>(g == 0 ? raw.scales[0] : raw.scales[1]), 0.0f};
  }
};

// Q2_K and Q3_K: unit 2 H + h of a block's four holds, of half H, the 16-byte half h of all four runs of 32 weights.
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

template <>
struct Packed<formats::Q2K> : KRuns {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    float d, dmin;
    uint32_t scales;  // a byte for each group
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    Raw out{load16(w.at[0] + 16 * u), half_at(w.at[2] + u / 4 * 4), half_at(w.at[2] + u / 4 * 4 + 2), 0};
    for (uint32_t g = 0; g < 4; g++) out.scales |= static_cast<uint32_t>(w.at[1][place(u, g)]) << 8 * g;
    return out;
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    return {two_bits(raw.qs, g), raw.d * static_cast<float>(raw.scales >> 8 * g & 0xFu),
            raw.dmin * static_cast<float>(raw.scales >> (8 * g + 4) & 0xFu)};
  }
};

template <>
struct Packed<formats::Q3K> : KRuns {
  static constexpr int kOffset = 4;
  struct Raw {
    Word4 qs, hmask;
    uint32_t scales[3];
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    const auto* scales = reinterpret_cast<const uint32_t*>(w.at[2] + u / 4 * 12);
    return {load16(w.at[0] + 16 * u),
            load_as<Word4>(w.at[1] + u / 4 * 32 + u % 2 * 16),
            {scales[0], scales[1], scales[2]},
            half_at(w.at[3] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t u, uint32_t g) {
    Word4 levels = two_bits(raw.qs, g);
    const uint32_t run = static_cast<uint32_t>(u % 4 / 2) * 4 + g;
    for (int i = 0; i < 4; i++) levels.v[i] |= (raw.hmask.v[i] >> run & 0x01010101u) << 2;
    const uint32_t s = 2 * run + u % 2;
    const uint32_t low = (s % 8 < 4 ? raw.scales[0] : raw.scales[1]) >> (s % 4 * 8 + s / 8 * 4) & 0xFu;
    const uint32_t high = raw.scales[2] >> (s % 4 * 8 + s / 4 * 2) & 3u;
    return {levels, raw.d * static_cast<float>(static_cast<int>(low | high << 4) - 32), 0.0f};
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
