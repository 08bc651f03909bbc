#pragma once
// Packed weights times 8-bit activations in AVX2: how each format's codes are unpacked, and how they join a sum.
// Only avx2_packed.cpp includes it (see avx2_vector.h).
//
// A lane is a row. The packed words (tensor/packed.h) of eight rows fill a register: lane r has four neighbouring bytes
// of row r, which meet the same four activations of a token in all lanes. So the eight sums of a unit need no
// horizontal step, and a token's result does not depend on which tokens are computed beside it.
//
//   maddubs   u8 code x s8 activation, pairs added to s16; as many of them as fit are added before
//   madd      widens to s32, and multiplies by the sub-block's scale where that is an integer of 16 elements
//   fmadd     one per 32 elements: accumulator += weight scale * (activation scale * integer sum)
//
// maddubs wants unsigned codes. Centred formats keep their codes unsigned and subtract offset * (sum of activations),
// exactly, in integers; formats with signed levels move the sign to the activations.

#include "cpu/isa/avx2_vector.h"
#include "cpu/isa/kernels.h"
#include "tensor/packed.h"

namespace rocmforge::cpu {
namespace {

using Codes = __m256i[8];  // 32 elements of eight rows: codes[v] has elements 4 v .. 4 v + 3

constexpr int kMaxActivation = 127;

// How many products of maddubs can be added in 16 bits: 8, 4, 2 or 1.
constexpr int products_that_fit(int largest_code) {
  for (int n = 8; n > 1; n /= 2) {
    if (n * 2 * largest_code * kMaxActivation <= 32767) return n;
  }
  return 1;
}

[[gnu::always_inline]] inline __m256i bytes_of(int value) {
  return _mm256_set1_epi8(static_cast<char>(value));
}

// Shifts words; whoever uses it masks bytes afterwards, so that bits of the byte above do not matter.
[[gnu::always_inline]] inline __m256i shift_right(__m256i words, int n) {
  return _mm256_srl_epi32(words, _mm_cvtsi32_si128(n));
}

[[gnu::always_inline]] inline __m256i masked(__m256i words, int byte_mask) {
  return _mm256_and_si256(words, bytes_of(byte_mask));
}

// Sixteen-bit sums of codes[first .. first + n) times the activations they meet.
[[gnu::always_inline]] inline __m256i multiply_codes(const Codes& codes, const QuantBlock& a, int first, int n) {
  __m256i sum = _mm256_maddubs_epi16(codes[first], repeat_word(a.q + 4 * first));
  for (int v = first + 1; v < first + n; v++) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes[v], repeat_word(a.q + 4 * v)));
  }
  return sum;
}

[[gnu::always_inline]] inline __m256 scaled_activation(__m256i integer_sum, const QuantBlock& a) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(integer_sum), _mm256_set1_ps(a.scale));
}

// ---- How one block of 32 elements joins the sum. `Format::Terms` is one of these. ----

// scale * (code - offset)
template <int kLargest, int kOffset>
struct CentredTerms {
  __m256 scale;

  [[gnu::always_inline]] __m256 add_to(__m256 sum, const Codes& codes, const QuantBlock& a) const {
    constexpr int kFit = products_that_fit(kLargest);
    __m256i integers = _mm256_madd_epi16(multiply_codes(codes, a, 0, kFit), _mm256_set1_epi16(1));
    for (int v = kFit; v < 8; v += kFit) {
      integers = _mm256_add_epi32(integers, _mm256_madd_epi16(multiply_codes(codes, a, v, kFit), _mm256_set1_epi16(1)));
    }
    if constexpr (kOffset != 0) {
      const __m256i offset = _mm256_madd_epi16(repeat_word(a.sums), _mm256_set1_epi16(kOffset));
      integers = _mm256_sub_epi32(integers, offset);
    }
    return _mm256_fmadd_ps(scale, scaled_activation(integers, a), sum);
  }
};

// scale * code + minimum
template <int kLargest>
struct MinimumTerms {
  __m256 scale;
  __m256 minimum;

  [[gnu::always_inline]] __m256 add_to(__m256 sum, const Codes& codes, const QuantBlock& a) const {
    sum = CentredTerms<kLargest, 0>{scale}.add_to(sum, codes, a);
    return _mm256_fmadd_ps(minimum, _mm256_set1_ps(a.sum), sum);
  }
};

// scale * level, levels -127 .. 127 (or -128: its magnitude still fits)
struct SignedTerms {
  __m256 scale;

  [[gnu::always_inline]] __m256 add_to(__m256 sum, const Codes& codes, const QuantBlock& a) const {
    __m256i integers = _mm256_setzero_si256();
    for (int v = 0; v < 8; v++) {
      const __m256i activations = _mm256_sign_epi8(repeat_word(a.q + 4 * v), codes[v]);
      const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(codes[v]), activations);
      integers = _mm256_add_epi32(integers, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
    }
    return _mm256_fmadd_ps(scale, scaled_activation(integers, a), sum);
  }
};

// Two halves of 16 elements with integer scales: unit * (scale_0 or scale_1) * (code - offset)
template <int kLargest, int kOffset>
struct HalvesTerms {
  __m256 unit;
  __m256i scales;  // 16 bits each: scale_0, scale_1 of row 0, of row 1 ...

  [[gnu::always_inline]] __m256i integers(const Codes& codes, const QuantBlock& a) const {
    constexpr int kFit = products_that_fit(kLargest) < 4 ? products_that_fit(kLargest) : 4;
    const __m256i first = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5,
                                           8, 9, 8, 9, 12, 13, 12, 13);
    const __m256i second = _mm256_or_si256(first, _mm256_set1_epi8(2));
    const __m256i half_scales[2] = {_mm256_shuffle_epi8(scales, first), _mm256_shuffle_epi8(scales, second)};
    __m256i sum = _mm256_setzero_si256();
    for (int v = 0; v < 8; v += kFit) {
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(multiply_codes(codes, a, v, kFit), half_scales[v / 4]));
    }
    if constexpr (kOffset != 0) {
      const __m256i offset = _mm256_madd_epi16(scales, repeat_word(a.sums));
      sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(offset, _mm256_set1_epi32(kOffset)));
    }
    return sum;
  }

  [[gnu::always_inline]] __m256 add_to(__m256 sum, const Codes& codes, const QuantBlock& a) const {
    return _mm256_fmadd_ps(unit, scaled_activation(integers(codes, a), a), sum);
  }
};

// The same, less minimum_unit * (minimum_0 or minimum_1)
template <int kLargest>
struct HalvesMinimumTerms {
  HalvesTerms<kLargest, 0> halves;
  __m256 minimum_unit;
  __m256i minima;

  [[gnu::always_inline]] __m256 add_to(__m256 sum, const Codes& codes, const QuantBlock& a) const {
    sum = halves.add_to(sum, codes, a);
    const __m256i integers = _mm256_madd_epi16(minima, repeat_word(a.sums));
    return _mm256_fnmadd_ps(minimum_unit, scaled_activation(integers, a), sum);
  }
};

// ---- What the formats have in common ----

template <DType kDType>
struct Cut {
  static constexpr PackedCut kCut = *packed_cut(kDType);
  // Constants, so that no function of another header is emitted here.
  static constexpr size_t kBlockBytes = kCut.block_bytes(), kGroupBytes = kCut.group_bytes();
  static constexpr size_t kWordsAt = kCut.words_at(), kTailAt = kCut.tail_at();
  const char* at;

  [[gnu::always_inline]] __m256i word(int w) const { return load_bytes(at + kWordsAt + 32 * w); }
  [[gnu::always_inline]] __m256 f16_head() const { return _mm256_cvtph_ps(load_16_bytes(at)); }
  [[gnu::always_inline]] __m256 f16_tail() const { return _mm256_cvtph_ps(load_16_bytes(at + kTailAt)); }
};

// The halves of eight words, as floats.
[[gnu::always_inline]] inline __m256 f16_of_low(__m256i words) {
  const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF));
  return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}
[[gnu::always_inline]] inline __m256 f16_of_high(__m256i words) {
  return f16_of_low(_mm256_srli_epi32(words, 16));
}

// Byte s of eight words, as integers.
[[gnu::always_inline]] inline __m256i byte_of(__m256i words, int s) {
  return _mm256_and_si256(shift_right(words, 8 * s), _mm256_set1_epi32(0xFF));
}

// Nibbles laid out as in Q4_0: words first .. first + 3, low nibbles are elements 0 .. 15, high ones 16 .. 31.
template <class Group>
[[gnu::always_inline]] inline void nibbles_of_block(Codes& codes, const Group& group, int first) {
  for (int v = 0; v < 4; v++) {
    const __m256i words = group.word(first + v);
    codes[v] = masked(words, 0xF);
    codes[v + 4] = masked(_mm256_srli_epi32(words, 4), 0xF);
  }
}

// The fifth bits of Q5_0 and Q5_1: bit k of a word belongs to element k. Gives 0x10 where it is set.
[[gnu::always_inline]] inline void add_fifth_bits(Codes& codes, __m256i bits) {
  for (int v = 0; v < 8; v++) {
    const int b = v / 2;
    const __m256i spread = _mm256_shuffle_epi8(
        bits, _mm256_add_epi8(bytes_of(b), _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0,
                                                            0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)));
    const __m256i bit = _mm256_set1_epi32(v % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
    codes[v] = _mm256_or_si256(codes[v], masked(is_set, 0x10));
  }
}

[[gnu::always_inline]] inline __m256i table_of(const int8_t (&levels)[16]) {
  return _mm256_broadcastsi128_si256(load_16_bytes(levels));
}

[[gnu::always_inline]] inline void look_up(Codes& codes, __m256i table) {
  for (int v = 0; v < 8; v++) codes[v] = _mm256_shuffle_epi8(table, codes[v]);
}

constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// E2M1 doubled, plus 12 to be unsigned.
constexpr int8_t kE2m1Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// ---- The formats: kBlocks blocks of 32 elements in a group, their codes and their terms ----

struct Q4_0 : Cut<DType::q4_0> {
  static constexpr int kBlocks = 1;
  explicit Q4_0(const char* group) : Cut{group} {}
  void codes(Codes& codes, int) const { nibbles_of_block(codes, *this, 0); }
  CentredTerms<15, 8> terms(int) const { return {f16_head()}; }
};

struct Q4_1 : Cut<DType::q4_1> {
  static constexpr int kBlocks = 1;
  explicit Q4_1(const char* group) : Cut{group} {}
  void codes(Codes& codes, int) const { nibbles_of_block(codes, *this, 1); }
  MinimumTerms<15> terms(int) const { return {f16_of_low(word(0)), f16_of_high(word(0))}; }
};

struct Q5_0 : Cut<DType::q5_0> {
  static constexpr int kBlocks = 1;
  explicit Q5_0(const char* group) : Cut{group} {}
  void codes(Codes& codes, int) const {
    nibbles_of_block(codes, *this, 1);
    add_fifth_bits(codes, word(0));
  }
  CentredTerms<31, 16> terms(int) const { return {f16_head()}; }
};

struct Q5_1 : Cut<DType::q5_1> {
  static constexpr int kBlocks = 1;
  explicit Q5_1(const char* group) : Cut{group} {}
  void codes(Codes& codes, int) const {
    nibbles_of_block(codes, *this, 2);
    add_fifth_bits(codes, word(1));
  }
  MinimumTerms<31> terms(int) const { return {f16_of_low(word(0)), f16_of_high(word(0))}; }
};

struct Q8_0 : Cut<DType::q8_0> {
  static constexpr int kBlocks = 1;
  explicit Q8_0(const char* group) : Cut{group} {}
  void codes(Codes& codes, int) const {
    for (int v = 0; v < 8; v++) codes[v] = word(v);
  }
  SignedTerms terms(int) const { return {f16_head()}; }
};

struct Iq4Nl : Cut<DType::iq4_nl> {
  static constexpr int kBlocks = 1;
  explicit Iq4Nl(const char* group) : Cut{group} {}
  void codes(Codes& codes, int) const {
    nibbles_of_block(codes, *this, 0);
    look_up(codes, table_of(kIq4Levels));
  }
  SignedTerms terms(int) const { return {f16_head()}; }
};

struct Iq4Xs : Cut<DType::iq4_xs> {
  static constexpr int kBlocks = 8;
  explicit Iq4Xs(const char* group) : Cut{group}, unit(f16_of_low(word(0))) {}
  void codes(Codes& codes, int s) const {
    nibbles_of_block(codes, *this, 2 + 4 * s);
    look_up(codes, table_of(kIq4Levels));
  }
  SignedTerms terms(int s) const {
    const __m256i low = _mm256_and_si256(shift_right(word(1), 4 * s), _mm256_set1_epi32(0xF));
    const __m256i high = _mm256_and_si256(shift_right(word(0), 16 + 2 * s), _mm256_set1_epi32(3));
    const __m256i scale = _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)), _mm256_set1_epi32(32));
    return {_mm256_mul_ps(unit, _mm256_cvtepi32_ps(scale))};
  }
  __m256 unit;
};

struct Mxfp4 : Cut<DType::mxfp4> {
  static constexpr int kBlocks = 1;
  explicit Mxfp4(const char* group) : Cut{group} {}
  void codes(Codes& codes, int) const {
    nibbles_of_block(codes, *this, 0);
    look_up(codes, table_of(kE2m1Codes));
  }
  // Half the scale, 2^(e - 128): its bits are (e - 1) << 23, or a subnormal's for e = 0 and 1.
  CentredTerms<24, 12> terms(int) const {
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return {_mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small))};
  }
};

// Q4_K and Q5_K: eight scales and minima of six bits in three words (tensor/formats/k_scales.h).
template <DType kDType>
struct KScaled : Cut<kDType> {
  static constexpr int kBlocks = 8;
  explicit KScaled(const char* group) : Cut<kDType>{group} {
    const __m256i units = this->word(0), first = this->word(1), second = this->word(2), last = this->word(3);
    unit = f16_of_low(units);
    minimum_unit = _mm256_sub_ps(_mm256_setzero_ps(), f16_of_high(units));
    scales[0] = masked(first, 0x3F);
    minima[0] = masked(second, 0x3F);
    scales[1] = _mm256_or_si256(masked(last, 0xF), masked(_mm256_srli_epi32(first, 2), 0x30));
    minima[1] = _mm256_or_si256(masked(_mm256_srli_epi32(last, 4), 0xF), masked(_mm256_srli_epi32(second, 2), 0x30));
  }
  __m256 scale(int s) const { return _mm256_mul_ps(unit, _mm256_cvtepi32_ps(byte_of(scales[s / 4], s % 4))); }
  __m256 minimum(int s) const { return _mm256_mul_ps(minimum_unit, _mm256_cvtepi32_ps(byte_of(minima[s / 4], s % 4))); }

  __m256 unit, minimum_unit;
  __m256i scales[2], minima[2];
};

struct Q4K : KScaled<DType::q4_k> {
  using KScaled::KScaled;
  void codes(Codes& codes, int s) const {
    for (int v = 0; v < 8; v++) codes[v] = masked(shift_right(word(4 + s / 2 * 8 + v), s % 2 * 4), 0xF);
  }
  MinimumTerms<15> terms(int s) const { return {scale(s), minimum(s)}; }
};

struct Q5K : KScaled<DType::q5_k> {
  using KScaled::KScaled;
  void codes(Codes& codes, int s) const {
    for (int v = 0; v < 8; v++) {
      const __m256i low = masked(shift_right(word(12 + s / 2 * 8 + v), s % 2 * 4), 0xF);
      const __m256i high = masked(shift_right(word(4 + v), s), 1);
      codes[v] = _mm256_or_si256(low, _mm256_slli_epi32(high, 4));
    }
  }
  MinimumTerms<31> terms(int s) const { return {scale(s), minimum(s)}; }
};

// Bytes 2 s and 2 s + 1 of a row's four scale words, in the low and the high half of each lane's 32 bits; which byte of
// the half depends on `low`: as an unsigned number, or in the upper byte for an arithmetic shift.
[[gnu::always_inline]] inline __m256i byte_pair(__m256i words, int s, bool low) {
  const __m256i pair = shift_right(words, s % 2 * 16);
  constexpr char z = static_cast<char>(0x80);  // gives zero
  const __m256i unsigned_order = _mm256_setr_epi8(0, z, 1, z, 4, z, 5, z, 8, z, 9, z, 12, z, 13, z, 0, z, 1, z, 4, z, 5,
                                                  z, 8, z, 9, z, 12, z, 13, z);
  const __m256i signed_order = _mm256_setr_epi8(z, 0, z, 1, z, 4, z, 5, z, 8, z, 9, z, 12, z, 13, z, 0, z, 1, z, 4, z,
                                                5, z, 8, z, 9, z, 12, z, 13);
  return _mm256_shuffle_epi8(pair, low ? unsigned_order : signed_order);
}

struct Q2K : Cut<DType::q2_k> {
  static constexpr int kBlocks = 8;
  explicit Q2K(const char* group) : Cut{group}, unit(f16_of_low(word(20))), minimum_unit(f16_of_high(word(20))) {}
  void codes(Codes& codes, int s) const {
    for (int v = 0; v < 8; v++) codes[v] = masked(shift_right(word(4 + s / 4 * 8 + v), s % 4 * 2), 3);
  }
  HalvesMinimumTerms<3> terms(int s) const {
    const __m256i pair = byte_pair(word(s / 2), s, true);
    return {{unit, _mm256_and_si256(pair, _mm256_set1_epi16(0xF))}, minimum_unit, _mm256_srli_epi16(pair, 4)};
  }
  __m256 unit, minimum_unit;
};

struct Q3K : Cut<DType::q3_k> {
  static constexpr int kBlocks = 8;
  explicit Q3K(const char* group) : Cut{group}, unit(f16_tail()) {
    const __m256i low[2] = {word(24), word(25)};
    const __m256i high = word(26);
    for (int i = 0; i < 4; i++) {
      const __m256i four = masked(shift_right(low[i % 2], i / 2 * 4), 0xF);
      const __m256i two = masked(shift_right(high, 2 * i), 3);
      scales[i] = _mm256_sub_epi8(_mm256_or_si256(four, _mm256_slli_epi32(two, 4)), bytes_of(32));
    }
  }
  void codes(Codes& codes, int s) const {
    for (int v = 0; v < 8; v++) {
      const __m256i low = masked(shift_right(word(8 + s / 4 * 8 + v), s % 4 * 2), 3);
      const __m256i high = masked(shift_right(word(v), s), 1);
      codes[v] = _mm256_or_si256(low, _mm256_slli_epi32(high, 2));
    }
  }
  HalvesTerms<7, 4> terms(int s) const { return {unit, _mm256_srai_epi16(byte_pair(scales[s / 2], s, false), 8)}; }
  __m256 unit;
  __m256i scales[4];
};

struct Q6K : Cut<DType::q6_k> {
  static constexpr int kBlocks = 8;
  explicit Q6K(const char* group) : Cut{group}, unit(f16_tail()) {}
  void codes(Codes& codes, int s) const {
    const int half = s / 4, k = s % 4;
    for (int v = 0; v < 8; v++) {
      const __m256i low = masked(shift_right(word(16 * half + 8 * (k % 2) + v), k / 2 * 4), 0xF);
      const __m256i high = masked(shift_right(word(32 + 8 * half + v), 2 * k), 3);
      codes[v] = _mm256_or_si256(low, _mm256_slli_epi32(high, 4));
    }
  }
  HalvesTerms<63, 32> terms(int s) const { return {unit, _mm256_srai_epi16(byte_pair(word(48 + s / 2), s, false), 8)}; }
  __m256 unit;
};

}  // namespace
}  // namespace rocmforge::cpu
