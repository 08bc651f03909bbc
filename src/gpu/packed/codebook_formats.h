#pragma once
// IQ1, IQ2 and IQ3. A unit is 64 weights, four groups in order; quants come from codebooks (packed/codebooks.h).

#include "gpu/packed/codebooks.h"
#include "gpu/packed/unit.h"

namespace rocmforge::gpu::RF_KERNELS {

struct OrderedUnits {
  static constexpr uint32_t kGroups = 4;
  RF_DEVICE static uint64_t place(uint64_t u, uint32_t g) { return 4 * u + g; }
  RF_DEVICE static UnitGroup find(uint64_t n) { return {n / 4, static_cast<uint32_t>(n % 4)}; }
};

// Negates byte j where bit j of `signs` is set; higher bits do not matter. REQUIRES: every byte is 1 .. 127
RF_DEVICE uint32_t negated(uint32_t magnitudes, uint32_t signs) {
  const uint32_t minus = spread4(signs);
  return (magnitudes ^ minus * 0xFF) + minus;
}
// Sixteen weights: two entries of eight magnitudes, eight signs each.
RF_DEVICE Word4 signed_levels(uint64_t first, uint32_t first_signs, uint64_t second, uint32_t second_signs) {
  return {negated(static_cast<uint32_t>(first), first_signs),
          negated(static_cast<uint32_t>(first >> 32), first_signs >> 4),
          negated(static_cast<uint32_t>(second), second_signs),
          negated(static_cast<uint32_t>(second >> 32), second_signs >> 4)};
}
// The same for entries of four.
RF_DEVICE Word4 signed_levels(const Word4& entries, uint32_t first_signs, uint32_t second_signs) {
  return {negated(entries.v[0], first_signs), negated(entries.v[1], first_signs >> 4),
          negated(entries.v[2], second_signs), negated(entries.v[3], second_signs >> 4)};
}
// 2 s + 1
RF_DEVICE float odd(uint32_t s) {
  return static_cast<float>(2 * s + 1);
}

template <>
struct Packed<formats::Iq2Xxs> : OrderedUnits {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 groups;  // indices, signs and scale of 32 weights; the same of the next 32
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), half_at(w.at[1] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t indices = (g < 2 ? raw.groups.v[0] : raw.groups.v[2]) >> 16 * (g % 2);
    const uint32_t word = g < 2 ? raw.groups.v[1] : raw.groups.v[3], signs = word >> 14 * (g % 2);
    const Word4 levels = signed_levels(iq2_xxs_entry(indices & 0xFFu), formats::even_signs(signs & 0x7Fu),
                                       iq2_xxs_entry(indices >> 8 & 0xFFu), formats::even_signs(signs >> 7 & 0x7Fu));
    return {levels, raw.d * odd(word >> 28) * 0.125f, 0.0f};
  }
};

template <>
struct Packed<formats::Iq2Xs> : OrderedUnits {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    uint32_t scales;  // a nibble for each group
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), load_as<uint16_t>(w.at[1] + 2 * u), half_at(w.at[2] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t both = word_at(raw.qs, g);
    const Word4 levels = signed_levels(iq2_xs_entry(both & 0x1FFu), formats::even_signs(both >> 9 & 0x7Fu),
                                       iq2_xs_entry(both >> 16 & 0x1FFu), formats::even_signs(both >> 25));
    return {levels, raw.d * odd(raw.scales >> 4 * g & 0xFu) * 0.125f, 0.0f};
  }
};

template <>
struct Packed<formats::Iq2S> : OrderedUnits {
  static constexpr int kOffset = 0;
  struct Raw {
    Word2 qs, signs;
    uint32_t qh;      // two bits for each index
    uint32_t scales;  // a nibble for each group
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    const uint8_t* qs = w.at[0] + u / 4 * 64 + u % 4 * 8;
    const uint8_t* qh = w.at[1] + u / 4 * 16 + u % 4 * 2;
    return {load_as<Word2>(qs), load_as<Word2>(qs + 32), load_as<uint16_t>(qh), load_as<uint16_t>(qh + 8),
            half_at(w.at[2] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t low = word_at(raw.qs, g / 2) >> 16 * (g % 2), high = raw.qh >> 4 * g;
    const uint32_t signs = word_at(raw.signs, g / 2) >> 16 * (g % 2);
    const Word4 levels = signed_levels(iq2_s_entry((low & 0xFFu) | (high & 3u) << 8), signs,
                                       iq2_s_entry((low >> 8 & 0xFFu) | (high >> 2 & 3u) << 8), signs >> 8);
    return {levels, raw.d * odd(raw.scales >> 4 * g & 0xFu) * 0.125f, 0.0f};
  }
};

template <>
struct Packed<formats::Iq3Xxs> : OrderedUnits {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    Word2 signs;
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load16(w.at[0] + 16 * u), load_as<Word2>(w.at[1] + 8 * u), half_at(w.at[2] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t indices = word_at(raw.qs, g), word = word_at(raw.signs, g / 2), signs = word >> 14 * (g % 2);
    Word4 entries;
    RF_UNROLL
    for (int i = 0; i < 4; i++) entries.v[i] = iq3_xxs_entry(indices >> 8 * i & 0xFFu);
    return {signed_levels(entries, formats::even_signs(signs & 0x7Fu), formats::even_signs(signs >> 7 & 0x7Fu)),
            raw.d * odd(word >> 28) * 0.25f, 0.0f};
  }
};

template <>
struct Packed<formats::Iq3S> : OrderedUnits {
  static constexpr int kOffset = 0;
  struct Raw {
    Word4 qs;
    uint32_t qh;  // a bit for each index
    Word2 signs;
    uint32_t scales;  // a nibble for 32 weights
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    const uint8_t* signs = w.at[2] + u / 4 * 36;  // of the block; four bytes of scales follow
    return {load16(w.at[0] + 16 * u),
            load_as<uint16_t>(w.at[1] + 2 * u),
            {{load_as<uint32_t>(signs + u % 4 * 8), load_as<uint32_t>(signs + u % 4 * 8 + 4)}},
            signs[32 + u % 4],
            half_at(w.at[3] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t indices = word_at(raw.qs, g), high = raw.qh >> 4 * g,
                   signs = word_at(raw.signs, g / 2) >> 16 * (g % 2);
    Word4 entries;
    RF_UNROLL
    for (int i = 0; i < 4; i++) entries.v[i] = iq3_s_entry((indices >> 8 * i & 0xFFu) | (high >> i & 1u) << 8);
    return {signed_levels(entries, signs, signs >> 8), raw.d * odd(raw.scales >> g / 2 * 4 & 0xFu), 0.0f};
  }
};

// IQ1 in eighths: a ternary value and its shift of an eighth are -9, -7, -1, 1, 7 or 9, stored with an offset of 9.
struct TernaryUnits : OrderedUnits {
  static constexpr int kOffset = 9;
  RF_DEVICE static Word4 levels(uint32_t first, bool first_down, uint32_t second, bool second_down) {
    const uint32_t shifts[2] = {first_down ? 0 : 0x02020202u, second_down ? 0 : 0x02020202u};
    return {(first << 3 & 0x18181818u) + shifts[0], (first >> 1 & 0x18181818u) + shifts[0],
            (second << 3 & 0x18181818u) + shifts[1], (second >> 1 & 0x18181818u) + shifts[1]};
  }
};

template <>
struct Packed<formats::Iq1S> : TernaryUnits {
  struct Raw {
    Word2 qs;
    uint32_t qh;
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    return {load_as<Word2>(w.at[0] + 8 * u), load_as<uint32_t>(w.at[1] + 4 * u), half_at(w.at[2] + u / 4 * 2)};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t low = word_at(raw.qs, g / 2) >> 16 * (g % 2), qh = raw.qh >> 16 * (g / 2), high = qh >> 6 * (g % 2);
    const bool down = (qh >> 15 & 1u) != 0;
    const Word4 of_group = levels(iq1_entry((low & 0xFFu) | (high & 7u) << 8), down,
                                  iq1_entry((low >> 8 & 0xFFu) | (high >> 3 & 7u) << 8), down);
    return {of_group, raw.d * odd(qh >> 12 & 7u) * 0.125f, 0.0f};
  }
};

template <>
struct Packed<formats::Iq1M> : TernaryUnits {
  struct Raw {
    Word2 qs;
    uint32_t qh;      // a nibble for each index
    uint32_t scales;  // three bits for each group
    float d;
  };
  RF_DEVICE static Raw load(const Planes& w, uint64_t u) {
    const Word2 all = load_as<Word2>(w.at[2] + u / 4 * 8);
    const uint32_t d =
        (all.v[0] >> 12 & 0xFu) | (all.v[0] >> 24 & 0xF0u) | (all.v[1] >> 4 & 0xF00u) | (all.v[1] >> 16 & 0xF000u);
    return {load_as<Word2>(w.at[0] + 8 * u), load_as<uint32_t>(w.at[1] + 4 * u),
            (u % 4 < 2 ? all.v[0] : all.v[1]) >> 16 * (u % 2), widen(F16{static_cast<uint16_t>(d)})};
  }
  RF_DEVICE static Group group(const Raw& raw, uint64_t, uint32_t g) {
    const uint32_t low = word_at(raw.qs, g / 2) >> 16 * (g % 2), high = raw.qh >> 8 * g;
    const Word4 of_group = levels(iq1_entry((low & 0xFFu) | (high & 7u) << 8), (high >> 3 & 1u) != 0,
                                  iq1_entry((low >> 8 & 0xFFu) | (high >> 4 & 7u) << 8), (high >> 7 & 1u) != 0);
    return {of_group, raw.d * odd(raw.scales >> 3 * g & 7u) * 0.125f, 0.0f};
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
