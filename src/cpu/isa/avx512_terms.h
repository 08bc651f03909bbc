#pragma once
// AVX-512 vectors for packed_formats.h, and how the sums of a block of 32 elements of sixteen rows are accumulated.
// Only avx512_packed.cpp and avx512bf16.cpp include it: everything is static (see kernels.h).
//
//   dpbusd    u8 code x s8 activation, four products added to s32
//   fmadd     one per 32 elements (formats with scales of 16: one per half, then one)
//
// Codes are unsigned. Integer sums start at -offset * (sum of activations). Signed quants get an offset of 128.

#include "cpu/isa/avx2_vector.h"
#include "cpu/isa/packed_formats.h"

namespace rocmforge::cpu {
namespace {

struct Avx512 {
  using Int = __m512i;
  using Float = __m512;

  static constexpr uint32_t kRows = 16;
  static constexpr int kTokens = 8;         // of a tile
  static constexpr int kInlinedTokens = 8;  // of the tile that is inlined into the loop over units
  static constexpr int kFloatTokens = 8;
  static constexpr int kMostDots = 16;  // integer sums that fit in registers

#define RF_OP [[gnu::always_inline]] static inline
  typedef uint32_t Unsigned __attribute__((vector_size(64)));
  typedef int32_t Signed __attribute__((vector_size(64)));

  RF_OP Int load(const char* at) { return _mm512_loadu_si512(at); }
  RF_OP Float load_f16(const char* at) { return _mm512_cvtph_ps(load_bytes(at)); }
  RF_OP Int load_u8(const char* at) { return _mm512_cvtepu8_epi32(load_16_bytes(at)); }
  RF_OP Int bytes(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
  RF_OP Int words(int value) { return _mm512_set1_epi32(value); }
  RF_OP Int right(Int x, int n) { return reinterpret_cast<Int>(reinterpret_cast<Unsigned>(x) >> n); }
  RF_OP Int signed_right(Int x, int n) { return reinterpret_cast<Int>(reinterpret_cast<Signed>(x) >> n); }
  RF_OP Int left(Int x, int n) { return reinterpret_cast<Int>(reinterpret_cast<Unsigned>(x) << n); }
  RF_OP Int shifted(Int x, int n) { return n < 0 ? right(x, -n) : left(x, n); }
  RF_OP Int subtract(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  RF_OP Int table(const int8_t (&levels)[16]) { return _mm512_broadcast_i32x4(load_16_bytes(levels)); }
  RF_OP Int look_up(Int levels, Int codes) { return _mm512_shuffle_epi8(levels, codes); }
  RF_OP Int from_signed(Int levels) { return levels ^ bytes(0x80); }
  RF_OP void store(float* to, Float x) { _mm512_storeu_ps(to, x); }
  RF_OP Float zero() { return _mm512_setzero_ps(); }
  RF_OP Float to_float(Int x) { return _mm512_cvtepi32_ps(x); }
  RF_OP Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
  RF_OP Float multiply_add(Float a, Float b, Float sum) { return _mm512_fmadd_ps(a, b, sum); }
  RF_OP Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  RF_OP Float as_float(Int x) { return _mm512_castsi512_ps(x); }
  RF_OP Float repeat(const float* at) { return _mm512_set1_ps(*at); }
  RF_OP Float repeat_pair(const float* at) {
    return _mm512_castpd_ps(_mm512_broadcastsd_pd(_mm_load_sd(reinterpret_cast<const double*>(at))));
  }
  // The sums of neighbouring lanes of a, then of b.
  RF_OP Float add_neighbours(Float a, Float b) {
    const Int even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_add_ps(_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, even | words(1), b));
  }
  RF_OP Float negative(Float x) { return _mm512_sub_ps(_mm512_setzero_ps(), x); }
  RF_OP Float f16_of_low(Int words) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)); }
  // 2^(e - 128): its bits are (e - 1) << 23, or a subnormal's for e = 0 and 1.
  RF_OP Float half_of_e8m0(Int e) {
    const Int normal = left(subtract(e, words(1)), 23);
    const Int small = _mm512_sllv_epi32(words(0x00200000), e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epi32_mask(e, words(2)), small));
  }
  // Bits 4 v .. 4 v + 3 of every word, as a mask of its bytes.
  RF_OP __mmask64 four_bits(Int bits, int v) {
    const Int byte = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    const Int spread = _mm512_shuffle_epi8(bits, _mm512_add_epi8(bytes(v / 2), byte));
    return _mm512_test_epi8_mask(spread, words(v % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010)));
  }
  // The fifth bits of Q5_0 and Q5_1, bit k of a word for element k: adds 0x10 where it is set.
  RF_OP void add_fifth_bits(Int (&codes)[8], Int bits) {
    for (int v = 0; v < 8; v++) codes[v] = _mm512_mask_add_epi8(codes[v], four_bits(bits, v), codes[v], bytes(0x10));
  }
  // Negates element k where bit k of a word is set.
  RF_OP void negate(Int (&codes)[8], Int bits) {
    const Int none = _mm512_setzero_si512();
    for (int v = 0; v < 8; v++) codes[v] = _mm512_mask_sub_epi8(codes[v], four_bits(bits, v), none, codes[v]);
  }
  // Entry `index` of a table, for every lane.
  RF_OP Int gather(const uint32_t* table, Int index) { return _mm512_i32gather_epi32(index, table, 4); }
  RF_OP Int add_bytes(Int a, Int b) { return _mm512_add_epi8(a, b); }
  // 1 for every byte that is at least `limit`, else 0; unsigned.
  RF_OP Int at_least(Int x, int limit) {
    return _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(x, bytes(limit)), bytes(1));
  }
  // Words that are not `value`; 0 for the others.
  RF_OP Int unless_equal(Int x, int value) {
    return _mm512_maskz_mov_epi32(_mm512_cmpneq_epi32_mask(x, words(value)), x);
  }

  RF_OP Int repeat_word(const void* at) {
    int32_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return _mm512_set1_epi32(word);
  }
  // One instruction. The compiler would make a broadcast and a product, which shortens the processor's look-ahead.
  RF_OP Int dot(Int sum, Int codes, const int8_t* activations) {
    typedef int32_t Word __attribute__((aligned(1), may_alias));
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const Word*>(activations)));
    return sum;
  }
  // Bytes 2 i and 2 i + 1 of every word, 16 bits each.
  template <int i>
  RF_OP Int byte_pair(Int bytes) {
    constexpr char a = 2 * i, b = a + 1;
    return _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(_mm_setr_epi8(a, -1, b, -1, a + 4, -1, b + 4, -1, a + 8,
                                                                           -1, b + 8, -1, a + 12, -1, b + 12, -1)));
  }
  RF_OP Int subtract_16_bits(Int a, Int b) { return _mm512_sub_epi16(a, b); }
  // An address that depends on x: loads from it cannot be moved before that of x.
  RF_OP const char* once_loaded(Int x, const char* at) {
    __asm__("" : "+r"(at) : "v"(x));
    return at;
  }
  // Keeps x in a register: the compiler would load it again for every use.
  RF_OP Int held(Int x) {
    __asm__("" : "+v"(x));
    return x;
  }

  // -offset * (sum of each half's activations)
  template <int kOffset>
  RF_OP void start_at(Int (&dots)[2], const QuantBlock& a) {
    static_assert(kOffset == 0 || (kOffset & (kOffset - 1)) == 0);
    for (int h = 0; h < 2; h++) {
      dots[h] =
          kOffset == 0 ? _mm512_setzero_si512() : left(words(a.negative_sums[h]), __builtin_ctz(kOffset | 0x8000'0000));
    }
  }
  // Terms define where the integer sums of a block's halves start, and how they are added to the result.
  template <class Terms>
  RF_OP Float add_to(Float sum, const Terms& terms, const Int (&codes)[8], const QuantBlock& a) {
    Int dots[2];
    Terms::start(dots, a);
    for (int v = 0; v < 8; v++) dots[v / 4] = dot(dots[v / 4], codes[v], a.q + 4 * v);
    return terms.finish(sum, dots, a);
  }
#define RF_START(offset) \
  [[gnu::always_inline]] static void start(Int(&dots)[2], const QuantBlock& a) { start_at<offset>(dots, a); }
#define RF_FINISH [[gnu::always_inline]] Float finish(Float sum, const Int(&dots)[2], const QuantBlock& a) const
#undef RF_OP

  // scale * (code - offset)
  template <int, int kOffset>
  struct CentredTerms {
    Float scale;

    RF_START(kOffset)
    RF_FINISH {
      const Float integers = to_float(_mm512_add_epi32(dots[0], dots[1]));
      return _mm512_fmadd_ps(scale, multiply(integers, _mm512_set1_ps(a.scale)), sum);
    }
  };

  // scale * code + minimum
  template <int kLargest>
  struct MinimumTerms {
    Float scale, minimum;

    RF_START(0)
    RF_FINISH {
      sum = CentredTerms<kLargest, 0>{scale}.finish(sum, dots, a);
      return _mm512_fmadd_ps(minimum, _mm512_set1_ps(a.sum), sum);
    }
  };

  using SignedTerms = CentredTerms<255, 128>;
  template <int>
  using QuantTerms = SignedTerms;
  template <int>
  [[gnu::always_inline]] static Int unsigned_of(Int quants) {
    return from_signed(quants);
  }

  // Two halves of 16 elements: scales[half] * (code - offset)
  template <int, int kOffset>
  struct FloatHalvesTerms {
    Float scales[2];

    RF_START(kOffset)
    RF_FINISH {
      const Float products = _mm512_fmadd_ps(to_float(dots[1]), scales[1], multiply(to_float(dots[0]), scales[0]));
      return _mm512_fmadd_ps(products, _mm512_set1_ps(a.scale), sum);
    }
  };

  // With integer scales: unit * scales[half] * (code - offset)
  template <int kLargest, int kOffset>
  struct HalvesTerms {
    Float unit;
    Int scales[2];

    RF_START(kOffset)
    RF_FINISH {
      const FloatHalvesTerms<kLargest, kOffset> terms = {
          {multiply(unit, to_float(scales[0])), multiply(unit, to_float(scales[1]))}};
      return terms.finish(sum, dots, a);
    }
  };
  template <int>
  using QuantHalvesTerms = HalvesTerms<255, 128>;

  // Both halves' sums of codes that are still shifted left by `up` bits, 16 bits each.
  template <int up>
  [[gnu::always_inline]] static Int pair_of(const Int (&dots)[2]) {
    return _mm512_mask_blend_epi16(0xAAAA'AAAA, right(dots[0], up), left(dots[1], 16 - up));
  }
  static constexpr bool kCodesStayUp = true;

  // The same with the scales as a pair of 16-bit values, for sums that also fit 16 bits.
  template <int kLargest, int kOffset>
  struct PairTerms {
    static_assert(16 * kLargest * 127 <= 32767);
    Float unit;
    Int scales;

    RF_START(kOffset)
    RF_FINISH {
      const Float products = multiply(unit, to_float(_mm512_madd_epi16(pair_of<0>(dots), scales)));
      return _mm512_fmadd_ps(products, _mm512_set1_ps(a.scale), sum);
    }
  };

  // unit * scales[half] * code - minimum_unit * minima[half]
  template <int kLargest, int up>
  struct PairMinimumTerms {
    static_assert(16 * kLargest * 127 <= 32767);
    Float unit;
    Int scales;
    Float minimum_unit;
    Int minima;

    RF_START(0)
    RF_FINISH {
      const Float products = multiply(unit, to_float(_mm512_madd_epi16(pair_of<up>(dots), scales)));
      const Float offset = to_float(_mm512_madd_epi16(minima, repeat_word(a.sums)));
      return _mm512_fmadd_ps(_mm512_fnmadd_ps(minimum_unit, offset, products), _mm512_set1_ps(a.scale), sum);
    }
  };
#undef RF_START
#undef RF_FINISH
};

}  // namespace
}  // namespace rocmforge::cpu
