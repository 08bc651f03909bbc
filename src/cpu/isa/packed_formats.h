#pragma once
// Packed weights for the vector instruction sets: how each format's codes and scales are unpacked, written once for all
// of them. The file of an instruction set includes it with its vectors V (avx2_terms.h, avx512_terms.h); everything
// here is static (see kernels.h).
//
// One lane is one row. A packed word (tensor/packed.h) of all rows of a unit fills a register: lane r has four
// neighbouring bytes of row r, and all lanes multiply with the same four activations of a token. So the sums of a unit
// need no horizontal step, and a token's result does not depend on the tokens computed with it.
//
// The instructions require one unsigned factor. Formats with an offset keep their codes unsigned and subtract offset *
// (sum of activations), exactly, in integers; V decides how it handles signed quants.
//
// A format has kBlocks blocks of 32 elements in a group; codes<s>() gives the codes of block s, terms<s>() how they are
// accumulated. s is a template argument, so that shifts and addresses are constants. Where kShared blocks have their
// codes in the same words, load<s>(v) loads the words of the v-th codes, code<s>(words) extracts them, and with few
// tokens such blocks are processed together.
//
// With few tokens the time is that of memory, which is fastest when every line is read once, in order, and at an even
// pace. The constructor loads the beginning of a group, and no other load is moved before it.

#include <utility>

#include "cpu/isa/kernels.h"
#include "tensor/formats/iq4_nl.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {
namespace {

// The lower bits of codes, and the upper bits of formats that store them apart.
template <class V>
struct CodeWords {
  typename V::Int low, high;
};

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

// ---- Common to the formats ----

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
  // The s-th block in order of computation.
  static constexpr int block(int s) { return s; }
  static constexpr int kShared = 1;
  static constexpr int kTokens = V::kTokens;  // of a tile
  static constexpr auto kWords = word_offsets<kCut.n_words>(kCut, sizeof(Int));
  const char* at;

  // Loads after this call are not moved before the loads of these words.
  template <class... Word>
  [[gnu::always_inline]] void load_first(Word... words) {
    ((at = V::once_loaded(words, at)), ...);
  }
  [[gnu::always_inline]] Int word(int w) const { return V::load(at + kWordsAt + kWords.at[w]); }
  [[gnu::always_inline]] Float f16_head() const { return V::load_f16(at); }
  [[gnu::always_inline]] Float f16_tail() const { return V::load_f16(at + kTailAt); }
};

// Shifts words. Bits from neighbouring bytes are shifted in; the caller masks bytes afterwards.
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

// Twice the E2M1 value, with an offset of 16 to be unsigned.
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
    look_up<V>(codes, V::from_signed(V::table(formats::kIq4Levels.at)));
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
    this->load_first(units, first, second, last);
    unit = V::f16_of_low(units);
    minimum_unit = V::negative(V::f16_of_low(V::right(units, 16)));
    scales[0] = masked<V>(first, 0x3F);
    minima[0] = masked<V>(second, 0x3F);
    scales[1] = masked<V>(last, 0xF) | masked<V>(V::right(first, 2), 0x30);
    minima[1] = masked<V>(V::right(last, 4), 0xF) | masked<V>(V::right(second, 2), 0x30);
  }
  // For codes that are still shifted left by `up` bits.
  template <int s, int kLargest, int up = 0>
  [[gnu::always_inline]] auto terms_up_to() const {
    constexpr float kCodeUnit = 1.0f / (1 << up);
    const Float code_unit = up == 0 ? unit : V::multiply(unit, V::repeat(&kCodeUnit));
    const Float scale = V::multiply(code_unit, V::to_float(byte_of<V>(scales[s / 4], s % 4)));
    const Float minimum = V::multiply(minimum_unit, V::to_float(byte_of<V>(minima[s / 4], s % 4)));
    return typename V::template MinimumTerms<(kLargest << up)>{scale, minimum};
  }

  Float unit, minimum_unit;
  Int scales[2], minima[2];
};

template <class V>
struct Q4K : KScaled<V, DType::q4_k> {
  using KScaled<V, DType::q4_k>::KScaled;
  static constexpr int kShared = 2;
  static constexpr int up(int s) { return V::kCodesStayUp ? s % 2 * 4 : 0; }

  template <int s>
  [[gnu::always_inline]] CodeWords<V> load(int v) const {
    const auto low = this->word(4 + s / 2 * 8 + v);
    return {low, low};
  }
  template <int s>
  [[gnu::always_inline]] static auto code(const CodeWords<V>& words) {
    return masked<V>(V::right(words.low, s % 2 * 4 - up(s)), 0xF << up(s));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    return this->template terms_up_to<s, 15, up(s)>();
  }
};

template <class V>
struct Q5K : KScaled<V, DType::q5_k> {
  using KScaled<V, DType::q5_k>::KScaled;
  static constexpr int kShared = 2;
  template <int s>
  [[gnu::always_inline]] CodeWords<V> load(int v) const {
    return {this->word(12 + s / 2 * 8 + v), this->word(4 + v)};
  }
  template <int s>
  [[gnu::always_inline]] static auto code(const CodeWords<V>& words) {
    return masked<V>(V::shifted(words.high, 4 - s), 0x10) | masked<V>(V::right(words.low, s % 2 * 4), 0xF);
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
    look_up<V>(codes, V::from_signed(V::table(formats::kIq4Levels.at)));
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
  static constexpr int kBlocks = 8, kShared = 4;
  // How far the codes of block s are still shifted left.
  static constexpr int up(int s) { return V::kCodesStayUp ? s % 4 * 2 : 0; }

  [[gnu::always_inline]] explicit Q2K(const char* group) : Cut<V, DType::q2_k>{group} {
    const auto units = this->word(20);
    unit = V::f16_of_low(units);
    minimum_unit = V::f16_of_low(V::right(units, 16));
    for (int i = 0; i < 4; i++) bytes[i] = this->word(i);
    this->load_first(units, bytes[0], bytes[1], bytes[2], bytes[3]);
  }
  template <int s>
  [[gnu::always_inline]] CodeWords<V> load(int v) const {
    const auto low = this->word(4 + s / 4 * 8 + v);
    return {low, low};
  }
  template <int s>
  [[gnu::always_inline]] static auto code(const CodeWords<V>& words) {
    return masked<V>(V::right(words.low, s % 4 * 2 - up(s)), 3 << up(s));
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto scales = V::template byte_pair<s % 2>(masked<V>(bytes[s / 2], 0xF));
    const auto minima = V::template byte_pair<s % 2>(masked<V>(V::right(bytes[s / 2], 4), 0xF));
    return typename V::template PairMinimumTerms<3, up(s)>{unit, scales, minimum_unit, minima};
  }

  typename V::Float unit, minimum_unit;
  typename V::Int bytes[4];
};

template <class V>
struct Q3K : Cut<V, DType::q3_k> {
  static constexpr int kBlocks = 8, kShared = 4;
  [[gnu::always_inline]] explicit Q3K(const char* group) : Cut<V, DType::q3_k>{group}, unit(this->f16_tail()) {
    const typename V::Int low[2] = {this->word(24), this->word(25)}, high = this->word(26);
    this->load_first(low[0], low[1], high);
    for (int i = 0; i < 4; i++) {
      const auto four = masked<V>(V::right(low[i % 2], i / 2 * 4), 0xF);
      scales[i] = four | masked<V>(V::shifted(high, 4 - 2 * i), 0x30);
    }
  }
  template <int s>
  [[gnu::always_inline]] CodeWords<V> load(int v) const {
    return {this->word(8 + s / 4 * 8 + v), this->word(v)};
  }
  template <int s>
  [[gnu::always_inline]] static auto code(const CodeWords<V>& words) {
    return masked<V>(V::shifted(words.high, 2 - s), 4) | masked<V>(V::right(words.low, s % 4 * 2), 3);
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    const auto pair = V::subtract_16_bits(V::template byte_pair<s % 2>(scales[s / 2]), V::words(0x00200020));
    return typename V::template PairTerms<7, 4>{unit, pair};
  }

  typename V::Float unit;
  typename V::Int scales[4];
};

template <class V>
struct Q6K : Cut<V, DType::q6_k> {
  static constexpr int kBlocks = 8, kShared = 2;
  // Blocks 0 and 2 share bytes, and so do 1 and 3: this order reads memory at an even pace.
  static constexpr int block(int s) { return s % 4 == 1 || s % 4 == 2 ? s ^ 3 : s; }
  [[gnu::always_inline]] explicit Q6K(const char* group) : Cut<V, DType::q6_k>{group}, unit(this->f16_tail()) {
    for (int i = 0; i < 4; i++) scales[i] = this->word(48 + i);
    this->load_first(scales[0], scales[1], scales[2], scales[3]);
  }
  template <int s>
  [[gnu::always_inline]] CodeWords<V> load(int v) const {
    constexpr int half = s / 4;
    return {this->word(16 * half + 8 * (s % 2) + v), this->word(32 + 8 * half + v)};
  }
  template <int s>
  [[gnu::always_inline]] static auto code(const CodeWords<V>& words) {
    constexpr int k = s % 4;
    const auto low = masked<V>(V::right(words.low, k / 2 * 4), 0xF);
    return low | masked<V>(V::shifted(words.high, 4 - 2 * k), 0x30);
  }
  template <int s>
  [[gnu::always_inline]] auto terms() const {
    constexpr int i = s % 2 * 2;
    return typename V::template HalvesTerms<63, 32>{
        unit, {signed_byte_of<V>(scales[s / 2], i), signed_byte_of<V>(scales[s / 2], i + 1)}};
  }

  typename V::Float unit;
  typename V::Int scales[4];
};

}  // namespace
}  // namespace rocmforge::cpu
