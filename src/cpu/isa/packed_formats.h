#pragma once
// Packed weights for the vector instruction sets: how each format's codes and scales are unpacked, once for all of
// them. A file of an instruction set includes it with its vectors V (avx2_terms.h, avx512_terms.h); everything here is
// static (see kernels.h).
//
// A lane is a row. A packed word (tensor/packed.h) of all rows of a unit fills a register: lane r has four neighbouring
// bytes of row r, which meet the same four activations of a token in all lanes. So the sums of a unit need no
// horizontal step, and a token's result does not depend on which tokens are computed beside it.
//
// Instructions want one factor unsigned. Centred formats keep their codes unsigned and subtract offset * (sum of
// activations), exactly, in integers; what V does with signed levels is its own affair.
//
// A format has kBlocks blocks of 32 elements in a group; codes<s>() gives the codes of block s, terms<s>() how they
// join a sum. The s are constants, so that shifts and addresses are, too.

#include <immintrin.h>

#include <utility>

#include "cpu/isa/kernels.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {
namespace {

template <class V>
using Codes = typename V::Int[8];  // 32 elements of each row: codes[v] has elements 4 v .. 4 v + 3

// Calls body.operator()<0>(), <1>() ... <n - 1>()
template <class Body, int... s>
[[gnu::always_inline]] inline void unrolled(std::integer_sequence<int, s...>, Body&& body) {
  (body.template operator()<s>(), ...);
}
template <int n, class Body>
[[gnu::always_inline]] inline void unrolled(Body&& body) {
  unrolled(std::make_integer_sequence<int, n>(), body);
}

// ---- What the formats have in common ----

template <size_t n>
struct WordOffsets {
  size_t at[n];
};

template <size_t n>
consteval WordOffsets<n> word_offsets(const PackedCut& cut, size_t word_bytes) {
  WordOffsets<n> offsets = {};
  for (size_t w = 0; w < n; w++) offsets.at[w] = cut.position(w) * word_bytes;
  return offsets;
}

template <class V, DType kDType>
struct Cut {
  using Int = typename V::Int;
  using Float = typename V::Float;

  static constexpr DType dtype = kDType;
  static constexpr PackedCut kCut = *packed_cut(kDType);
  // Constants, so that no function of another header is emitted here.
  static constexpr size_t kBlockBytes = kCut.block_bytes(), kGroupBytes = kCut.group_bytes(V::kRows);
  static constexpr size_t kWordsAt = kCut.words_at(V::kRows), kTailAt = kCut.tail_at(V::kRows);
  // The s-th block that is computed.
  static constexpr int block(int s) { return s; }
  static constexpr auto kWords = word_offsets<kCut.n_words>(kCut, sizeof(Int));
  const char* at;

  [[gnu::always_inline]] Int word(int w) const { return V::load(at + kWordsAt + kWords.at[w]); }
  [[gnu::always_inline]] Float f16_head() const { return V::load_f16(at); }
  [[gnu::always_inline]] Float f16_tail() const { return V::load_f16(at + kTailAt); }
};

// Shifts words; whoever uses it masks bytes afterwards, so that bits of the byte beside do not matter.
template <class V>
[[gnu::always_inline]] inline typename V::Int masked(typename V::Int words, int byte_mask) {
  return words & V::bytes(byte_mask);
}

// Byte i of every word, as an integer.
template <class V>
[[gnu::always_inline]] inline typename V::Int byte_of(typename V::Int words, int i) {
  return V::right(words, 8 * i) & V::words(0xFF);
}
template <class V>
[[gnu::always_inline]] inline typename V::Int signed_byte_of(typename V::Int words, int i) {
  return V::signed_right(V::left(words, 24 - 8 * i), 24);
}

// Nibbles laid out as in Q4_0: words first .. first + 3, low nibbles are elements 0 .. 15, high ones 16 .. 31.
template <class V, class Group>
[[gnu::always_inline]] inline void nibbles_of_block(Codes<V>& codes, const Group& group, int first) {
  for (int v = 0; v < 4; v++) {
    const auto words = group.word(first + v);
    codes[v] = masked<V>(words, 0xF);
    codes[v + 4] = masked<V>(V::right(words, 4), 0xF);
  }
}

template <class V>
[[gnu::always_inline]] inline void look_up(Codes<V>& codes, typename V::Int table) {
  for (int v = 0; v < 8; v++) codes[v] = V::look_up(table, codes[v]);
}

constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// E2M1 doubled, plus 16 to be unsigned.
constexpr int8_t kE2m1Codes[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

// ---- Blocks of 32 ----

template <class V>
struct Q4_0 : Cut<V, DType::q4_0> {
  static constexpr int kBlocks = 1;
  template <int>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    nibbles_of_block<V>(codes, *this, 0);
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::template CentredTerms<15, 8>{this->f16_head()};
  }
};

template <class V>
struct Q4_1 : Cut<V, DType::q4_1> {
  static constexpr int kBlocks = 1;
  template <int>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    nibbles_of_block<V>(codes, *this, 1);
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    const auto halves = this->word(0);
    return typename V::template MinimumTerms<15>{V::f16_of_low(halves), V::f16_of_low(V::right(halves, 16))};
  }
};

template <class V>
struct Q5_0 : Cut<V, DType::q5_0> {
  static constexpr int kBlocks = 1;
  template <int>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    nibbles_of_block<V>(codes, *this, 1);
    V::add_fifth_bits(codes, this->word(0));
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::template CentredTerms<31, 16>{this->f16_head()};
  }
};

template <class V>
struct Q5_1 : Cut<V, DType::q5_1> {
  static constexpr int kBlocks = 1;
  template <int>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    nibbles_of_block<V>(codes, *this, 2);
    V::add_fifth_bits(codes, this->word(1));
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    const auto halves = this->word(0);
    return typename V::template MinimumTerms<31>{V::f16_of_low(halves), V::f16_of_low(V::right(halves, 16))};
  }
};

template <class V>
struct Q8_0 : Cut<V, DType::q8_0> {
  static constexpr int kBlocks = 1;
  template <int>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    for (int v = 0; v < 8; v++) codes[v] = V::from_signed(this->word(v));
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::SignedTerms{this->f16_head()};
  }
};

template <class V>
struct Iq4Nl : Cut<V, DType::iq4_nl> {
  static constexpr int kBlocks = 1;
  template <int>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    nibbles_of_block<V>(codes, *this, 0);
    look_up<V>(codes, V::from_signed(V::table(kIq4Levels)));
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::SignedTerms{this->f16_head()};
  }
};

template <class V>
struct Mxfp4 : Cut<V, DType::mxfp4> {
  static constexpr int kBlocks = 1;
  template <int>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    nibbles_of_block<V>(codes, *this, 0);
    look_up<V>(codes, V::table(kE2m1Codes));
  }
  template <int>
  [[gnu::always_inline]] auto terms() const {
    return typename V::template CentredTerms<28, 16>{V::half_of_e8m0(V::load_u8(this->at))};
  }
};

// ---- Blocks of 256 ----

// The scales and minima of Q4_K and Q5_K: eight of six bits each in words 1 .. 3, units in word 0.
template <class V, DType kDType>
struct KScaled : Cut<V, kDType> {
  using typename Cut<V, kDType>::Int;
  using typename Cut<V, kDType>::Float;
  static constexpr int kBlocks = 8;

  [[gnu::always_inline]] explicit KScaled(const char* group) : Cut<V, kDType>{group} {
    const Int units = this->word(0), first = this->word(1), second = this->word(2), last = this->word(3);
    unit = V::f16_of_low(units);
    minimum_unit = V::negative(V::f16_of_low(V::right(units, 16)));
    scales[0] = masked<V>(first, 0x3F);
    minima[0] = masked<V>(second, 0x3F);
    scales[1] = masked<V>(last, 0xF) | masked<V>(V::right(first, 2), 0x30);
    minima[1] = masked<V>(V::right(last, 4), 0xF) | masked<V>(V::right(second, 2), 0x30);
  }
  template <int s, int kLargest>
  [[gnu::always_inline]] auto terms_up_to() const {
    const Float scale = V::multiply(unit, V::to_float(byte_of<V>(scales[s / 4], s % 4)));
    const Float minimum = V::multiply(minimum_unit, V::to_float(byte_of<V>(minima[s / 4], s % 4)));
    return typename V::template MinimumTerms<kLargest>{scale, minimum};
  }

  Float unit, minimum_unit;
  Int scales[2], minima[2];
};

template <class V>
struct Q4K : KScaled<V, DType::q4_k> {
  using KScaled<V, DType::q4_k>::KScaled;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    for (int v = 0; v < 8; v++) codes[v] = masked<V>(V::right(this->word(4 + s / 2 * 8 + v), s % 2 * 4), 0xF);
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    return this->template terms_up_to<s, 15>();
  }
};

template <class V>
struct Q5K : KScaled<V, DType::q5_k> {
  using KScaled<V, DType::q5_k>::KScaled;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    for (int v = 0; v < 8; v++) {
      const auto low = masked<V>(V::right(this->word(12 + s / 2 * 8 + v), s % 2 * 4), 0xF);
      codes[v] = low | masked<V>(V::shifted(this->word(4 + v), 4 - s), 0x10);
    }
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    return this->template terms_up_to<s, 31>();
  }
};

template <class V>
struct Iq4Xs : Cut<V, DType::iq4_xs> {
  static constexpr int kBlocks = 8;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    nibbles_of_block<V>(codes, *this, 2 + 4 * s);
    look_up<V>(codes, V::from_signed(V::table(kIq4Levels)));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto head = this->word(0);
    const auto low = V::right(this->word(1), 4 * s) & V::words(0xF);
    const auto high = V::right(head, 16 + 2 * s) & V::words(3);
    const auto scale = V::subtract(low | V::left(high, 4), V::words(32));
    return typename V::SignedTerms{V::multiply(V::f16_of_low(head), V::to_float(scale))};
  }
};

template <class V>
struct Q2K : Cut<V, DType::q2_k> {
  static constexpr int kBlocks = 8;
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    for (int v = 0; v < 8; v++) codes[v] = masked<V>(V::right(this->word(4 + s / 4 * 8 + v), s % 4 * 2), 3);
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto bytes = this->word(s / 2), units = this->word(20);
    const auto low = masked<V>(bytes, 0xF), high = masked<V>(V::right(bytes, 4), 0xF);
    constexpr int i = s % 2 * 2;
    return typename V::template HalvesMinimumTerms<3>{V::f16_of_low(units),
                                                      {byte_of<V>(low, i), byte_of<V>(low, i + 1)},
                                                      V::f16_of_low(V::right(units, 16)),
                                                      {byte_of<V>(high, i), byte_of<V>(high, i + 1)}};
  }
};

template <class V>
struct Q3K : Cut<V, DType::q3_k> {
  static constexpr int kBlocks = 8;
  [[gnu::always_inline]] explicit Q3K(const char* group) : Cut<V, DType::q3_k>{group} {
    const typename V::Int low[2] = {this->word(24), this->word(25)}, high = this->word(26);
    for (int i = 0; i < 4; i++) {
      const auto four = masked<V>(V::right(low[i % 2], i / 2 * 4), 0xF);
      scales[i] = four | masked<V>(V::shifted(high, 4 - 2 * i), 0x30);
    }
  }
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    for (int v = 0; v < 8; v++) {
      const auto low = masked<V>(V::right(this->word(8 + s / 4 * 8 + v), s % 4 * 2), 3);
      codes[v] = low | masked<V>(V::shifted(this->word(v), 2 - s), 4);
    }
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    constexpr int i = s % 2 * 2;
    return typename V::template HalvesTerms<7, 4>{this->f16_tail(), {scale<s / 2, i>(), scale<s / 2, i + 1>()}};
  }
  template <int w, int i>
  [[gnu::always_inline]] auto scale() const {
    return V::subtract(byte_of<V>(scales[w], i), V::words(32));
  }

  typename V::Int scales[4];
};

template <class V>
struct Q6K : Cut<V, DType::q6_k> {
  static constexpr int kBlocks = 8;
  // Blocks 0 and 2 share bytes, and so do 1 and 3: memory is read at an even pace.
  static constexpr int block(int s) { return s % 4 == 1 || s % 4 == 2 ? s ^ 3 : s; }
  template <int s>
  [[gnu::always_inline]] void codes(Codes<V>& codes) const {
    constexpr int half = s / 4, k = s % 4;
    for (int v = 0; v < 8; v++) {
      const auto low = masked<V>(V::right(this->word(16 * half + 8 * (k % 2) + v), k / 2 * 4), 0xF);
      codes[v] = low | masked<V>(V::shifted(this->word(32 + 8 * half + v), 4 - 2 * k), 0x30);
    }
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto scales = this->word(48 + s / 2);
    constexpr int i = s % 2 * 2;
    return typename V::template HalvesTerms<63, 32>{this->f16_tail(),
                                                    {signed_byte_of<V>(scales, i), signed_byte_of<V>(scales, i + 1)}};
  }
};

// ---- The loop over the units ----

// One unit times the tokens t .. t + n - 1.
struct Tile {
  const char* unit;
  size_t n_groups;
  size_t t;
  size_t out_row;  // where the unit's first product goes
  // From here to the unit that comes next, whose bytes are fetched meanwhile; 0: nothing is.
  size_t ahead;

  // REQUIRES: at points into the unit
  [[gnu::always_inline]] void fetch_ahead(const char* at) const { _mm_prefetch(at + ahead, _MM_HINT_T1); }
};
constexpr size_t kLine = 64;

// Calls multiply.operator()<n>(tile) for every unit and every tile of tokens. With many tokens a unit comes from memory
// for its first tile and from the cache for the others: so the last one of whole size fetches the next unit.
template <class V, int kTokens, class Multiply>
[[gnu::always_inline]] inline void for_tiles(const PackedUnits& units, const Tokens<void>& tokens, size_t group_bytes,
                                             Multiply&& multiply) {
  const size_t unit_bytes = units.n_groups * group_bytes;
  for (size_t u = 0; u < units.n_units; u++) {
    const char* unit = static_cast<const char*>(units.data) + u * unit_bytes;
    Tile tile = {unit, units.n_groups, 0, tokens.first_row + u * V::kRows, 0};
    const auto left = [&] { return tokens.n - tile.t; };
    for (; left() >= kTokens; tile.t += kTokens) {
      tile.ahead = tile.t > 0 && left() < 2 * kTokens ? unit_bytes : 0;
      multiply.template operator()<kTokens>(tile);
    }
    if (kTokens > 4 && left() >= 4) multiply.template operator()<4>(tile), tile.t += 4;
    if (left() >= 2) multiply.template operator()<2>(tile), tile.t += 2;
    if (left() >= 1) multiply.template operator()<1>(tile);
  }
}

// The codes are unpacked once for all tokens of a tile.
template <class Format, class V, int n>
[[gnu::always_inline]] inline void multiply_unit(const Tile& tile, const Tokens<void>& tokens) {
  const QuantBlock* in[n];
  typename V::Float sums[n];
  for (int i = 0; i < n; i++) {
    in[i] = static_cast<const QuantBlock*>(tokens.in[tile.t + i]);
    sums[i] = V::zero();
  }
  for (size_t g = 0; g < tile.n_groups; g++) {
    const Format group{{tile.unit + g * Format::kGroupBytes}};
    unrolled<Format::kBlocks>([&]<int i_block>() __attribute__((always_inline)) {
      constexpr int s = Format::block(i_block);
      if constexpr (n == V::kTokens) {
        constexpr size_t kPart = (Format::kGroupBytes + Format::kBlocks - 1) / Format::kBlocks;
        for (size_t b = 0; b < kPart; b += kLine) tile.fetch_ahead(group.at + i_block * kPart + b);
      }
      Codes<V> codes;
      group.template codes<s>(codes);
      const auto terms = group.template terms<s>();
      for (int i = 0; i < n; i++) sums[i] = terms.add_to(sums[i], codes, in[i][g * Format::kBlocks + s]);
    });
  }
  for (int i = 0; i < n; i++) V::store(tokens.out[tile.t + i] + tile.out_row, sums[i]);
}

template <template <class> class FormatOf, class V>
void packed_matmul(const PackedUnits& units, const Tokens<void>& tokens) {
  using Format = FormatOf<V>;
  for_tiles<V, V::kTokens>(units, tokens, Format::kGroupBytes,
                           [&]<int n>(const Tile& tile) { multiply_unit<Format, V, n>(tile, tokens); });
}

// ---- Packing ----

// The rows of a unit as the file holds them: rows of eight words are turned into words of eight rows, squares at a
// time.
template <DType kDType, class V>
void pack(void* unit, const void* rows, size_t n_groups) {
  using C = Cut<V, kDType>;
  constexpr size_t kHead = C::kCut.head_bytes, kTail = C::kCut.tail_bytes, n_words = C::kCut.n_words;
  const size_t row_bytes = n_groups * C::kBlockBytes;
  for (size_t g = 0; g < n_groups; g++) {
    char* to = static_cast<char*>(unit) + g * C::kGroupBytes;
    const char* from = static_cast<const char*>(rows) + g * C::kBlockBytes;
    constexpr size_t kSquares = n_words / 8 * 8;
    for (size_t w = 0; w < kSquares; w += 8) {
      for (size_t r = 0; r < V::kRows; r += 8) {
        transpose_square(from + r * row_bytes + kHead + 4 * w, row_bytes, [&](size_t i, __m256i words) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + C::kWordsAt + C::kWords.at[w + i] + 4 * r), words);
        });
      }
    }
    for (size_t r = 0; r < V::kRows; r++) {
      const char* block = from + r * row_bytes;
      __builtin_memcpy(to + r * kHead, block, kHead);
      for (size_t w = kSquares; w < n_words; w++) {
        __builtin_memcpy(to + C::kWordsAt + C::kWords.at[w] + 4 * r, block + kHead + 4 * w, 4);
      }
      __builtin_memcpy(to + C::kTailAt + r * kTail, block + kHead + 4 * n_words, kTail);
    }
  }
}

template <template <class> class FormatOf, class V>
constexpr PackedFormat packed_format_of() {
  constexpr DType kDType = FormatOf<V>::dtype;
  return {static_cast<uint32_t>(kDType), V::kRows, InputForm::blocks, pack<kDType, V>, packed_matmul<FormatOf, V>};
}

}  // namespace
}  // namespace rocmforge::cpu
