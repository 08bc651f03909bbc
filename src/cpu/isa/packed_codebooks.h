#pragma once
// The IQ1, IQ2 and IQ3 formats for the vector instruction sets (see packed_formats.h). Everything here is static.
//
// Each lane looks its own index up: one gather gives the codes of eight neighbouring elements of all rows, or those of
// four (IQ3). Entries of eight keep two elements in a byte, the first four in the low nibbles; a shuffle maps nibbles
// to quants. With 8 rows that takes 4 or 8 gathers for 256 elements, whatever the number of tokens.

#include "cpu/isa/packed_formats.h"
#include "tensor/formats/iq_tables.h"

namespace rocmforge::cpu {
namespace {

// Of a tile: looking codes up takes longer than multiplying them by one token.
constexpr int kCodebookTokens = 8;

template <size_t n>
struct Codebook {
  uint32_t at[n];
};

// From fields of a few bits to the entries that are gathered.
template <int n, class Entry>
consteval Codebook<n> codebook(const formats::Codes<n>& codes, Entry&& entry) {
  Codebook<n> book = {};
  for (int i = 0; i < n; i++) book.at[i] = entry(codes.at[i]);
  return book;
}
consteval uint32_t eight_nibbles(uint32_t code) {
  uint32_t entry = 0;
  for (int k = 0; k < 8; k++) entry |= (code >> 2 * k & 3) << (k % 4 * 8 + k / 4 * 4);
  return entry;
}
consteval uint32_t four_magnitudes(uint32_t code, const int8_t (&magnitudes)[8]) {
  uint32_t entry = 0;
  for (int k = 0; k < 4; k++) entry |= static_cast<uint32_t>(magnitudes[code >> 3 * k & 7]) << 8 * k;
  return entry;
}
constexpr int8_t kIq3XxsMagnitudes[8] = {4, 12, 20, 28, 36, 44, 52, 62},
                 kIq3SMagnitudes[8] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr int8_t kIq2Magnitudes[16] = {8, 25, 43};
// (-1, 0 or 1, shifted by an eighth) times 8: up, and down from entry 4 on.
constexpr int8_t kShiftedTernary[16] = {-7, 1, 9, 0, -9, -1, 7};

constexpr auto kIq1Book = codebook(formats::kIq1Codes, [](uint32_t code) consteval { return eight_nibbles(code); });
constexpr auto kIq2XxsBook =
    codebook(formats::kIq2XxsCodes, [](uint32_t code) consteval { return eight_nibbles(code); });
constexpr auto kIq2XsBook = codebook(formats::kIq2XsCodes, [](uint32_t code) consteval { return eight_nibbles(code); });
constexpr auto kIq2SBook = codebook(formats::kIq2SCodes, [](uint32_t code) consteval { return eight_nibbles(code); });
constexpr auto kIq3XxsBook =
    codebook(formats::kIq3XxsCodes, [](uint32_t code) consteval { return four_magnitudes(code, kIq3XxsMagnitudes); });
constexpr auto kIq3SBook =
    codebook(formats::kIq3SCodes, [](uint32_t code) consteval { return four_magnitudes(code, kIq3SMagnitudes); });

// Elements 8 k .. 8 k + 7 of a block.
template <class V, int k, size_t n>
[[gnu::always_inline]] inline void eight_codes(Codes<V>& codes, const Codebook<n>& book, typename V::Int index) {
  const auto entry = V::gather(book.at, index);
  codes[2 * k] = masked<V>(entry, 0xF);
  codes[2 * k + 1] = masked<V>(V::right(entry, 4), 0xF);
}

// Adds the eighth bit to bytes of seven: the number of set bits is even.
template <class V>
[[gnu::always_inline]] inline typename V::Int even_signs(typename V::Int sevens) {
  constexpr int8_t o = -128;
  constexpr int8_t kOdd[16] = {0, o, o, 0, o, 0, 0, o, o, 0, 0, o, 0, o, o, 0};
  const auto table = V::table(kOdd);
  const auto low = V::look_up(table, masked<V>(sevens, 0xF)),
             high = V::look_up(table, masked<V>(V::right(sevens, 4), 7));
  return sevens | (low ^ high);
}

// Four fields of seven bits, in the lower 28 bits of a word.
template <class V>
[[gnu::always_inline]] inline typename V::Int four_sevens(typename V::Int words) {
  const auto field = [&](int k) { return V::left(words, k) & V::words(0x7F << 8 * k); };
  return field(0) | field(1) | field(2) | field(3);
}

// Magnitudes to quants in the form that QuantTerms take.
template <class V, int kLargest>
[[gnu::always_inline]] inline void give_signs(Codes<V>& codes, typename V::Int signs) {
  V::negate(codes, signs);
  for (int v = 0; v < 8; v++) codes[v] = V::template unsigned_of<kLargest>(codes[v]);
}

// 2 s + 1 of a word's lower n_bits.
template <class V>
[[gnu::always_inline]] inline typename V::Int odd_scale(typename V::Int words, int n_bits) {
  return V::left(words & V::words((1 << n_bits) - 1), 1) | V::words(1);
}

template <class V>
[[gnu::always_inline]] inline typename V::Float times(typename V::Float x, float factor) {
  return V::multiply(x, V::repeat(&factor));
}

// ---- IQ1 ----

template <class V>
struct Iq1S : Cut<V, DType::iq1_s> {
  static constexpr int kBlocks = 8, kTokens = kCodebookTokens;
  template <int s>
  [[gnu::always_inline]] auto half() const {  // of the word that has the upper bits of block s
    return V::right(this->word(8 + s / 2), s % 2 * 16);
  }
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    const auto low = this->word(s), high = half<s>();
    unrolled<4>([&]<int k>() __attribute__((always_inline)) {
      eight_codes<V, k>(codes, kIq1Book, byte_of<V>(low, k) | (V::shifted(high, 8 - 3 * k) & V::words(0x700)));
    });
  }
  // scale * (code - 1 +- 1 / 8)
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto high = half<s>();
    const auto scale = V::multiply(this->f16_head(), V::to_float(odd_scale<V>(V::right(high, 12), 3)));
    const auto offset = V::subtract(V::words(-7), V::right(high, 14) & V::words(2));
    return typename V::template MinimumTerms<2>{scale, V::multiply(times<V>(scale, 0.125f), V::to_float(offset))};
  }
};

template <class V>
struct Iq1M : Cut<V, DType::iq1_m> {
  static constexpr int kBlocks = 8, kTokens = kCodebookTokens;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    const auto low = this->word(s), high = V::right(this->word(8 + s / 2), s % 2 * 16);
    unrolled<4>([&]<int k>() __attribute__((always_inline)) {
      eight_codes<V, k>(codes, kIq1Book, byte_of<V>(low, k) | (V::shifted(high, 8 - 4 * k) & V::words(0x700)));
      const auto is_down = V::subtract(V::words(0), V::right(high, 4 * k + 3) & V::words(1)) & V::bytes(4);
      for (int v = 2 * k; v < 2 * k + 2; v++) codes[v] = codes[v] | is_down;
    });
    look_up<V>(codes, V::template unsigned_of<9>(V::table(kShiftedTernary)));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto a = this->word(12), b = this->word(13);
    const auto unit = (V::right(a, 12) & V::words(0xF)) | (V::right(a, 24) & V::words(0xF0)) |
                      (V::right(b, 4) & V::words(0xF00)) | (V::right(b, 16) & V::words(0xF000));
    const auto scales = V::right(s < 4 ? a : b, s / 2 % 2 * 16 + s % 2 * 6);
    return typename V::template QuantHalvesTerms<9>{times<V>(V::f16_of_low(unit), 0.125f),
                                                    {odd_scale<V>(scales, 3), odd_scale<V>(V::right(scales, 3), 3)}};
  }
};

// ---- IQ2 ----

template <class V>
struct Iq2Xxs : Cut<V, DType::iq2_xxs> {
  static constexpr int kBlocks = 8, kTokens = kCodebookTokens;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    const auto indices = this->word(2 * s);
    unrolled<4>([&]<int k>()
                    __attribute__((always_inline)) { eight_codes<V, k>(codes, kIq2XxsBook, byte_of<V>(indices, k)); });
    look_up<V>(codes, V::table(kIq2Magnitudes));
    give_signs<V, 43>(codes, even_signs<V>(four_sevens<V>(this->word(2 * s + 1))));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto scale = V::to_float(odd_scale<V>(V::right(this->word(2 * s + 1), 28), 4));
    return typename V::template QuantTerms<43>{V::multiply(times<V>(this->f16_head(), 0.125f), scale)};
  }
};

// The scales of IQ2_XS and IQ2_S: two nibbles for each block, from word kScales on.
template <class V, DType kDType, int kScales>
struct Iq2Scaled : Cut<V, kDType> {
  static constexpr int kBlocks = 8, kTokens = kCodebookTokens;
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto scales = V::right(this->word(kScales + s / 4), s % 4 * 8);
    return typename V::template QuantHalvesTerms<43>{times<V>(this->f16_head(), 0.125f),
                                                     {odd_scale<V>(scales, 4), odd_scale<V>(V::right(scales, 4), 4)}};
  }
};

template <class V>
struct Iq2Xs : Iq2Scaled<V, DType::iq2_xs, 16> {
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    const auto a = this->word(2 * s), b = this->word(2 * s + 1);
    unrolled<4>([&]<int k>() __attribute__((always_inline)) {
      eight_codes<V, k>(codes, kIq2XsBook, V::right(k < 2 ? a : b, k % 2 * 16) & V::words(0x1FF));
    });
    look_up<V>(codes, V::table(kIq2Magnitudes));
    const auto sevens = (V::right(a, 9) & V::words(0x7F)) | (V::right(a, 17) & V::words(0x7F00)) |
                        (V::left(b, 7) & V::words(0x7F0000)) | (V::right(b, 1) & V::words(0x7F000000));
    give_signs<V, 43>(codes, even_signs<V>(sevens));
  }
};

template <class V>
struct Iq2S : Iq2Scaled<V, DType::iq2_s, 18> {
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    const auto low = this->word(s), high = byte_of<V>(this->word(16 + s / 4), s % 4);
    unrolled<4>([&]<int k>() __attribute__((always_inline)) {
      eight_codes<V, k>(codes, kIq2SBook, byte_of<V>(low, k) | (V::shifted(high, 8 - 2 * k) & V::words(0x300)));
    });
    look_up<V>(codes, V::table(kIq2Magnitudes));
    give_signs<V, 43>(codes, this->word(8 + s));
  }
};

// ---- IQ3 ----

template <class V>
struct Iq3Xxs : Cut<V, DType::iq3_xxs> {
  static constexpr int kBlocks = 8, kTokens = kCodebookTokens;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    unrolled<8>([&]<int v>() __attribute__((always_inline)) {
      codes[v] = V::gather(kIq3XxsBook.at, byte_of<V>(this->word(2 * s + v / 4), v % 4));
    });
    give_signs<V, 62>(codes, even_signs<V>(four_sevens<V>(this->word(16 + s))));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto scale = V::to_float(odd_scale<V>(V::right(this->word(16 + s), 28), 4));
    return typename V::template QuantTerms<62>{V::multiply(times<V>(this->f16_head(), 0.25f), scale)};
  }
};

template <class V>
struct Iq3S : Cut<V, DType::iq3_s> {
  static constexpr int kBlocks = 8, kTokens = kCodebookTokens;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    const auto high = byte_of<V>(this->word(16 + s / 4), s % 4);
    unrolled<8>([&]<int v>() __attribute__((always_inline)) {
      const auto low = byte_of<V>(this->word(2 * s + v / 4), v % 4);
      codes[v] = V::gather(kIq3SBook.at, low | (V::shifted(high, 8 - v) & V::words(0x100)));
    });
    give_signs<V, 15>(codes, this->word(18 + s));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto scale = V::to_float(odd_scale<V>(V::right(this->word(26), 4 * s), 4));
    return typename V::template QuantTerms<15>{V::multiply(this->f16_head(), scale)};
  }
};

}  // namespace
}  // namespace rocmforge::cpu
