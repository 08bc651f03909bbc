#pragma once
// AVX2 vectors for packed_formats.h, and how the sums of a block of 32 elements of eight rows are accumulated. Only
// avx2_packed.cpp includes it (see avx2_vector.h).
//
//   maddubs   u8 code x s8 activation, pairs added to s16; several results are added in s16 as far as they fit
//   madd      widens to s32, and multiplies by the scale where that is an integer per 16 elements
//   fmadd     one per 32 elements: accumulator += weight scale * (activation scale * integer sum)
//
// Signed quants stay signed: their sign is moved to the activations.

#include "cpu/isa/avx2_vector.h"
#include "cpu/isa/packed_formats.h"

namespace rocmforge::cpu {
namespace {

constexpr int kMaxActivation = 127;

// How many products of maddubs can be added in 16 bits: 8, 4, 2 or 1.
constexpr int products_that_fit(int largest_code) {
  for (int n = 8; n > 1; n /= 2) {
    if (n * 2 * largest_code * kMaxActivation <= 32767) return n;
  }
  return 1;
}

struct Avx2 {
  using Int = __m256i;
  using Float = __m256;
  static constexpr uint32_t kRows = 8;
  static constexpr int kTokens = 4;         // of a tile
  static constexpr int kInlinedTokens = 0;  // too few registers
  static constexpr int kFloatTokens = 6;
  static constexpr int kMostDots = 0;  // blocks are processed one by one
  static constexpr bool kCodesStayUp = false;

#define RF_OP [[gnu::always_inline]] static inline
  RF_OP Int load(const char* at) { return load_bytes(at); }
  RF_OP Float load_f16(const char* at) { return _mm256_cvtph_ps(load_16_bytes(at)); }
  RF_OP Int load_u8(const char* at) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  }
  RF_OP Int bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
  RF_OP Int words(int value) { return _mm256_set1_epi32(value); }
  RF_OP Int right(Int x, int n) { return n == 0 ? x : _mm256_srli_epi32(x, n); }
  RF_OP Int signed_right(Int x, int n) { return _mm256_srai_epi32(x, n); }
  RF_OP Int left(Int x, int n) { return n == 0 ? x : _mm256_slli_epi32(x, n); }
  RF_OP Int shifted(Int x, int n) { return n < 0 ? right(x, -n) : left(x, n); }
  RF_OP Int subtract(Int a, Int b) { return _mm256_sub_epi32(a, b); }
  RF_OP Int table(const int8_t (&levels)[16]) { return _mm256_broadcastsi128_si256(load_16_bytes(levels)); }
  RF_OP Int look_up(Int levels, Int codes) { return _mm256_shuffle_epi8(levels, codes); }
  RF_OP Int from_signed(Int levels) { return levels; }
  RF_OP void store(float* to, Float x) { _mm256_storeu_ps(to, x); }
  RF_OP Float zero() { return _mm256_setzero_ps(); }
  RF_OP Float to_float(Int x) { return _mm256_cvtepi32_ps(x); }
  RF_OP Float multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
  RF_OP Float multiply_add(Float a, Float b, Float sum) { return _mm256_fmadd_ps(a, b, sum); }
  RF_OP Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  RF_OP Float as_float(Int x) { return _mm256_castsi256_ps(x); }
  RF_OP Float repeat(const float* at) { return _mm256_broadcast_ss(at); }
  RF_OP Float repeat_pair(const float* at) {
    return _mm256_castpd_ps(_mm256_broadcast_sd(reinterpret_cast<const double*>(at)));
  }
  // The sums of neighbouring lanes of a, then of b.
  RF_OP Float add_neighbours(Float a, Float b) {
    const Float even = _mm256_shuffle_ps(a, b, 0x88), odd = _mm256_shuffle_ps(a, b, 0xDD);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_add_ps(even, odd)), 0xD8));
  }
  RF_OP Float negative(Float x) { return _mm256_sub_ps(_mm256_setzero_ps(), x); }
  // The low halves of eight words.
  RF_OP Float f16_of_low(Int words) {
    const Int low = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF));
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
  }
  // 2^(e - 128): its bits are (e - 1) << 23, or a subnormal's for e = 0 and 1.
  RF_OP Float half_of_e8m0(Int e) {
    const Int normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const Int small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const Int is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
  }
  // Bits 4 v .. 4 v + 3 of every word, as masks of its bytes.
  RF_OP Int four_bits(Int bits, int v) {
    const Int byte = _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8,
                                      8, 8, 12, 12, 12, 12);
    const Int spread = _mm256_shuffle_epi8(bits, _mm256_add_epi8(bytes(v / 2), byte));
    const Int bit = words(v % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
  }
  // The fifth bits of Q5_0 and Q5_1, bit k of a word for element k: adds 0x10 where it is set.
  RF_OP void add_fifth_bits(Int (&codes)[8], Int bits) {
    for (int v = 0; v < 8; v++) {
      codes[v] = _mm256_or_si256(codes[v], _mm256_and_si256(four_bits(bits, v), bytes(0x10)));
    }
  }
  // Negates element k where bit k of a word is set.
  RF_OP void negate(Int (&codes)[8], Int bits) {
    for (int v = 0; v < 8; v++) {
      const Int minus = four_bits(bits, v);
      codes[v] = _mm256_sub_epi8(_mm256_xor_si256(codes[v], minus), minus);
    }
  }
  // Entry `index` of a table, for every lane.
  RF_OP Int gather(const uint32_t* table, Int index) {
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(table), index, 4);
  }
  RF_OP Int add_bytes(Int a, Int b) { return _mm256_add_epi8(a, b); }
  // 1 for every byte that is at least `limit`, else 0; unsigned.
  RF_OP Int at_least(Int x, int limit) {
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_max_epu8(x, bytes(limit)), x), bytes(1));
  }
  // Words that are not `value`; 0 for the others.
  RF_OP Int unless_equal(Int x, int value) { return _mm256_andnot_si256(_mm256_cmpeq_epi32(x, words(value)), x); }

  // Sixteen-bit sums of codes[first .. first + n) times their activations.
  RF_OP Int multiply_codes(const Int (&codes)[8], const QuantBlock& a, int first, int n) {
    Int sum = _mm256_maddubs_epi16(codes[first], repeat_word(a.q + 4 * first));
    for (int v = first + 1; v < first + n; v++) {
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes[v], repeat_word(a.q + 4 * v)));
    }
    return sum;
  }
  // Bytes 2 i and 2 i + 1 of every word, 16 bits each.
  template <int i>
  RF_OP Int byte_pair(Int bytes) {
    constexpr char a = 2 * i, b = a + 1;
    return _mm256_shuffle_epi8(
        bytes, _mm256_broadcastsi128_si256(
                   _mm_setr_epi8(a, -1, b, -1, a + 4, -1, b + 4, -1, a + 8, -1, b + 8, -1, a + 12, -1, b + 12, -1)));
  }
  RF_OP Int subtract_16_bits(Int a, Int b) { return _mm256_sub_epi16(a, b); }
  RF_OP const char* once_loaded(Int, const char* at) { return at; }  // any load order is fine
  template <class Terms>
  RF_OP Float add_to(Float sum, const Terms& terms, const Int (&codes)[8], const QuantBlock& a) {
    return terms.add_to(sum, codes, a);
  }
  RF_OP Float scaled_activation(Int integer_sum, const QuantBlock& a) {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(integer_sum), _mm256_set1_ps(a.scale));
  }
#undef RF_OP

  // scale * (code - offset)
  template <int kLargest, int kOffset>
  struct CentredTerms {
    Float scale;

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      constexpr int kFit = products_that_fit(kLargest);
      const Int ones = _mm256_set1_epi16(1);
      Int integers = _mm256_madd_epi16(multiply_codes(codes, a, 0, kFit), ones);
      for (int v = kFit; v < 8; v += kFit) {
        integers = _mm256_add_epi32(integers, _mm256_madd_epi16(multiply_codes(codes, a, v, kFit), ones));
      }
      if constexpr (kOffset != 0) {
        const Int offset = _mm256_madd_epi16(repeat_word(a.sums), _mm256_set1_epi16(kOffset));
        integers = _mm256_sub_epi32(integers, offset);
      }
      return _mm256_fmadd_ps(scale, scaled_activation(integers, a), sum);
    }
  };

  // scale * code + minimum
  template <int kLargest>
  struct MinimumTerms {
    Float scale, minimum;

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      sum = CentredTerms<kLargest, 0>{scale}.add_to(sum, codes, a);
      return _mm256_fmadd_ps(minimum, _mm256_set1_ps(a.sum), sum);
    }
  };

  // scale * quant, quants -127 .. 127 (or -128: its magnitude still fits)
  struct SignedTerms {
    Float scale;

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      Int integers = _mm256_setzero_si256();
      for (int v = 0; v < 8; v++) {
        const Int activations = _mm256_sign_epi8(repeat_word(a.q + 4 * v), codes[v]);
        const Int products = _mm256_maddubs_epi16(_mm256_abs_epi8(codes[v]), activations);
        integers = _mm256_add_epi32(integers, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
      }
      return _mm256_fmadd_ps(scale, scaled_activation(integers, a), sum);
    }
  };

  // Quants of at most kLargest: an offset takes fewer instructions than signs.
  template <int kLargest>
  [[gnu::always_inline]] static Int unsigned_of(Int quants) {
    return add_bytes(quants, bytes(kLargest));
  }
  template <int kLargest>
  using QuantTerms = CentredTerms<2 * kLargest, kLargest>;

  // scales[half] * (code - offset)
  template <int kLargest, int kOffset>
  struct FloatHalvesTerms {
    Float scales[2];

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      constexpr int kFit = products_that_fit(kLargest) < 4 ? products_that_fit(kLargest) : 4;
      Float products = _mm256_setzero_ps();
      for (int h = 0; h < 2; h++) {
        Int integers = _mm256_set1_epi32(kOffset * a.negative_sums[h]);
        for (int v = 4 * h; v < 4 * h + 4; v += kFit) {
          const Int four = multiply_codes(codes, a, v, kFit);
          integers = _mm256_add_epi32(integers, _mm256_madd_epi16(four, _mm256_set1_epi16(1)));
        }
        products = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers), scales[h], products);
      }
      return _mm256_fmadd_ps(products, _mm256_set1_ps(a.scale), sum);
    }
  };

  // Two halves of 16 elements with integer scales, given as a pair of 16-bit values: unit * scales[half] * (code -
  // offset)
  template <int kLargest, int kOffset>
  struct PairTerms {
    Float unit;
    Int scales;

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      constexpr int kFit = products_that_fit(kLargest) < 4 ? products_that_fit(kLargest) : 4;
      Int integers = _mm256_setzero_si256();
      for (int h = 0; h < 2; h++) {
        const Int both = h == 0 ? _mm256_blend_epi16(scales, _mm256_slli_epi32(scales, 16), 0xAA)
                                : _mm256_blend_epi16(_mm256_srli_epi32(scales, 16), scales, 0xAA);
        for (int v = 4 * h; v < 4 * h + 4; v += kFit) {
          integers = _mm256_add_epi32(integers, _mm256_madd_epi16(multiply_codes(codes, a, v, kFit), both));
        }
      }
      if constexpr (kOffset != 0) {
        const Int offset = _mm256_madd_epi16(scales, repeat_word(a.sums));
        integers = _mm256_sub_epi32(integers, _mm256_mullo_epi32(offset, _mm256_set1_epi32(kOffset)));
      }
      return _mm256_fmadd_ps(unit, scaled_activation(integers, a), sum);
    }
  };

  // The same with scales as words.
  template <int kLargest, int kOffset>
  struct HalvesTerms {
    Float unit;
    Int scales[2];

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      const Int pair = _mm256_blend_epi16(scales[0], _mm256_slli_epi32(scales[1], 16), 0xAA);
      return PairTerms<kLargest, kOffset>{unit, pair}.add_to(sum, codes, a);
    }
  };

  template <int kLargest>
  using QuantHalvesTerms = HalvesTerms<2 * kLargest, kLargest>;

  // unit * scales[half] * code - minimum_unit * minima[half]
  template <int kLargest, int>
  struct PairMinimumTerms {
    Float unit;
    Int scales;
    Float minimum_unit;
    Int minima;

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      sum = PairTerms<kLargest, 0>{unit, scales}.add_to(sum, codes, a);
      const Int integers = _mm256_madd_epi16(minima, repeat_word(a.sums));
      return _mm256_fnmadd_ps(minimum_unit, scaled_activation(integers, a), sum);
    }
  };
};

}  // namespace
}  // namespace rocmforge::cpu
