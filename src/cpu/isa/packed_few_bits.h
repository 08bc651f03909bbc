#pragma once
// Formats of one or two bits without codebooks, and NVFP4, for the vector instruction sets (see packed_formats.h).
// Everything here is static.

#include "cpu/isa/packed_formats.h"

namespace rocmforge::cpu {
namespace {

// ---- Ternary ----

template <class V>
struct Tq2_0 : Cut<V, DType::tq2_0> {
  static constexpr int kBlocks = 8, kShared = 4;

  template <int s>
  [[gnu::always_inline]] CodeWords<V> load(int v) const {
    const auto words = this->word(s / 4 * 8 + v);
    return {words, words};
  }
  template <int s>
  [[gnu::always_inline]] static auto code(const CodeWords<V>& words) {
    return masked<V>(V::right(words.low, s % 4 * 2), 3);
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::template CentredTerms<3, 1>{this->f16_tail()};
  }
};

// Block s < 5 has trit s of bytes 0 .. 31; the trits of bytes 32 .. 47 follow, 16 elements each, then those of 48
// .. 51.
template <class V>
struct Tq1_0 : Cut<V, DType::tq1_0> {
  using typename Cut<V, DType::tq1_0>::Int;
  static constexpr int kBlocks = 8;

  // A byte is a fraction in base 3: times 3, modulo 256, brings the next trit to the front. The first one is 1 from
  // 256 / 3 on and 2 from 512 / 3 on.
  template <int k>
  [[gnu::always_inline]] static Int trit(Int bytes) {
    unrolled<k>([&]<int>() __attribute__((always_inline)) { bytes = V::add_bytes(bytes, V::add_bytes(bytes, bytes)); });
    return V::add_bytes(V::at_least(bytes, 86), V::at_least(bytes, 171));
  }
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    unrolled<8>([&]<int v>() __attribute__((always_inline)) {
      constexpr int k = s < 5 ? s : 2 * (s - 5) + v / 4;
      if constexpr (s < 5) {
        codes[v] = trit<k>(this->word(v));
      } else if constexpr (k < 5) {
        codes[v] = trit<k>(this->word(8 + v % 4));
      } else {
        codes[v] = trit<v % 4>(this->word(12));
      }
    });
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::template CentredTerms<2, 1>{this->f16_tail()};
  }
};

// ---- One and two bits ----

// Codes of 0 and 16, so that bits are added as in Q5_0: (16 bit - 8) / 8.
template <class V>
struct Q1_0 : Cut<V, DType::q1_0> {
  static constexpr int kBlocks = 4;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    for (int v = 0; v < 8; v++) codes[v] = V::words(0);
    V::add_fifth_bits(codes, this->word(s));
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    constexpr float kEighth = 0.125f;
    return typename V::template CentredTerms<16, 8>{V::multiply(this->f16_head(), V::repeat(&kEighth))};
  }
};

template <class V>
struct Q2_0 : Cut<V, DType::q2_0> {
  static constexpr int kBlocks = 2;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    unrolled<8>([&]<int v>() __attribute__((always_inline)) {
      const auto four = byte_of<V>(this->word(2 * s + v / 4), v % 4);  // two bits each
      const auto two = four | V::left(four, 6);
      codes[v] = masked<V>(two | V::left(two, 12), 3);
    });
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::template CentredTerms<3, 1>{this->f16_head()};
  }
};

// ---- NVFP4 ----

template <class V>
struct Nvfp4 : Cut<V, DType::nvfp4> {
  static constexpr int kBlocks = 2;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    unrolled<8>([&]<int v>() __attribute__((always_inline)) {
      codes[v] = masked<V>(V::right(this->word(1 + 4 * s + v / 4 * 2 + v % 2), v / 2 % 2 * 4), 0xF);
    });
    look_up<V>(codes, V::table(kE2m1Codes));
  }
  // Half of the scale: quants are doubled. The seven bits of a scale, read as the upper ones of a positive f16, are it
  // times 2^-8.
  [[gnu::always_inline]] static auto half_scale(typename V::Int scale) {
    constexpr float kUnit = 0x1p7f;
    const auto bits = V::unless_equal(scale & V::words(0x7F), 0x7F);
    return V::multiply(V::f16_of_low(V::left(bits, 7)), V::repeat(&kUnit));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto scales = this->word(0);
    return typename V::template FloatHalvesTerms<28, 16>{
        {half_scale(V::right(scales, 16 * s)), half_scale(V::right(scales, 16 * s + 8))}};
  }
};

}  // namespace
}  // namespace rocmforge::cpu
