#pragma once
// How kernels read every quantized format: the interface is in packed/unit.h, formats with codebooks in
// packed/codebook_formats.h, those of one or two bits and ternary ones in packed/few_bit_formats.h.

#include "gpu/packed/codebook_formats.h"
#include "gpu/packed/few_bit_formats.h"
#include "gpu/packed/unit.h"

namespace rocmforge::gpu::RF_KERNELS {

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
  static constexpr int kOffset = 0, kMiddle = 8;
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
  static constexpr int kOffset = 0, kMiddle = 16;
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

// Unit u of a block's two holds groups 2u and 2u + 1, eight bytes each: low nibbles are the first eight weights.
template <>
struct Packed<formats::Nvfp4> : NibbleBlock {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    uint32_t scales;  // two bytes
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), load_as<uint16_t>(w.at[1] + 2 * u)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t first = g == 0 ? raw.qs.v[0] : raw.qs.v[2], second = g == 0 ? raw.qs.v[1] : raw.qs.v[3];
    const Word4 codes{first, second, first >> 4, second >> 4};
    return {look_up(codes, e2m1_levels()), formats::ue4m3_to_float(static_cast<uint8_t>(raw.scales >> 8 * g)) * 0.5f,
            0.0f};
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
  // them, so both are extracted together. A mask chooses between the two halves' layouts: AMD's compiler makes a branch
  // of a condition.
  RF_DEVICE static Group scaled(const Word4& levels, const Word4& header, uint64_t u, uint32_t g) {
    const uint32_t pair = u % 8 / 2, shift = pair % 2 * 16;
    const uint32_t first = header.v[1] >> shift, second = header.v[2] >> shift, third = header.v[3] >> shift;
    const uint32_t low = pair / 2 - 1u;  // all bits for pairs 0 and 1, none for 2 and 3
    const uint32_t scales = (first & 0x3F3Fu & low) | (((third & 0x0F0Fu) | (first >> 2 & 0x3030u)) & ~low);
    const uint32_t minima = (second & 0x3F3Fu & low) | (((third >> 4 & 0x0F0Fu) | (second >> 2 & 0x3030u)) & ~low);
    const float d = widen(F16{static_cast<uint16_t>(header.v[0])});
    const float dmin = widen(F16{static_cast<uint16_t>(header.v[0] >> 16)});
    return {levels, d * static_cast<float>(scales >> 8 * g & 0xFFu),
            dmin * static_cast<float>(minima >> 8 * g & 0xFFu)};
  }
};

template <>
struct Packed<formats::Q4K> : KPairs {
  static constexpr int kMiddle = 8;
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
  static constexpr int kMiddle = 16;
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

template <>
struct Packed<formats::Q2K> : KRuns {
  static constexpr int kOffset = 0, kMiddle = 2;
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
