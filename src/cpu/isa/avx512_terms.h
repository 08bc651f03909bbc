#pragma once
// The vectors of AVX-512 for packed_formats.h, and how a block of 32 elements of sixteen rows joins their sums. Only
// avx512_packed.cpp and avx512bf16.cpp include it: everything is static (see kernels.h).
//
//   dpbusd    u8 code x s8 activation, four products added to s32
//   fmadd     one per 32 elements (formats with scales of 16: one per half, then one)
//
// Codes are unsigned. Offsets are where a sum begins: -offset * (sum of activations). Signed levels get 128 more.

#include "cpu/isa/avx2_vector.h"
#include "cpu/isa/packed_formats.h"

namespace rocmforge::cpu {
namespace {

struct Avx512 {
  using Int = __m512i;
  using Float = __m512;

  static constexpr uint32_t kRows = 16;
  static constexpr int kTokens = 8;  // of a tile
  static constexpr int kFloatTokens = 8;

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
  // Neighbouring lanes of a, then those of b, added.
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
  // The fifth bits of Q5_0 and Q5_1, bit k of a word for element k: adds 0x10 where it is set.
  RF_OP void add_fifth_bits(Int (&codes)[8], Int bits) {
    const Int byte = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    for (int v = 0; v < 8; v++) {
      const Int spread = _mm512_shuffle_epi8(bits, _mm512_add_epi8(bytes(v / 2), byte));
      const Int bit = words(v % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010));
      codes[v] = _mm512_mask_add_epi8(codes[v], _mm512_test_epi8_mask(spread, bit), codes[v], bytes(0x10));
    }
  }

  // start + the products of half h: codes[4 h .. 4 h + 3] and their activations
  RF_OP Int multiply_half(Int start, const Int (&codes)[8], const QuantBlock& a, int h) {
    for (int v = 4 * h; v < 4 * h + 4; v++) start = _mm512_dpbusd_epi32(start, codes[v], repeat_word(a.q + 4 * v));
    return start;
  }
  // -offset * (sum of half h's activations)
  template <int kOffset>
  RF_OP Int start_of(const QuantBlock& a, int h) {
    static_assert(kOffset == 0 || (kOffset & (kOffset - 1)) == 0);
    if constexpr (kOffset == 0) return _mm512_setzero_si512();
    return left(words(a.negative_sums[h]), __builtin_ctz(kOffset | 0x8000'0000));
  }
  RF_OP Int repeat_word(const void* at) {
    int32_t word;
    __builtin_memcpy(&word, at, sizeof word);
    return _mm512_set1_epi32(word);
  }
#undef RF_OP

  // scale * (code - offset)
  template <int, int kOffset>
  struct CentredTerms {
    Float scale;

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      const Int first = multiply_half(start_of<kOffset>(a, 0), codes, a, 0);
      const Int second = multiply_half(start_of<kOffset>(a, 1), codes, a, 1);
      const Float integers = to_float(_mm512_add_epi32(first, second));
      return _mm512_fmadd_ps(scale, multiply(integers, _mm512_set1_ps(a.scale)), sum);
    }
  };

  // scale * code + minimum
  template <int kLargest>
  struct MinimumTerms {
    Float scale, minimum;

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      sum = CentredTerms<kLargest, 0>{scale}.add_to(sum, codes, a);
      return _mm512_fmadd_ps(minimum, _mm512_set1_ps(a.sum), sum);
    }
  };

  using SignedTerms = CentredTerms<255, 128>;

  // Two halves of 16 elements with integer scales: unit * scales[half] * (code - offset)
  template <int, int kOffset>
  struct HalvesTerms {
    Float unit;
    Int scales[2];

    [[gnu::always_inline]] Float of_one(const Int (&codes)[8], const QuantBlock& a) const {
      const Float first = to_float(multiply_half(start_of<kOffset>(a, 0), codes, a, 0));
      const Float second = to_float(multiply_half(start_of<kOffset>(a, 1), codes, a, 1));
      const Float scale[2] = {multiply(unit, to_float(scales[0])), multiply(unit, to_float(scales[1]))};
      return _mm512_fmadd_ps(second, scale[1], multiply(first, scale[0]));
    }
    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      return _mm512_fmadd_ps(of_one(codes, a), _mm512_set1_ps(a.scale), sum);
    }
  };

  // unit * scales[half] * code - minimum_unit * minima[half]
  template <int kLargest>
  struct HalvesMinimumTerms {
    Float unit;
    Int scales[2];
    Float minimum_unit;
    Int minima[2];

    [[gnu::always_inline]] Float add_to(Float sum, const Int (&codes)[8], const QuantBlock& a) const {
      const Float products = HalvesTerms<kLargest, 0>{unit, {scales[0], scales[1]}}.of_one(codes, a);
      const Int pair = minima[0] | left(minima[1], 16);
      const Float offset = to_float(_mm512_madd_epi16(pair, repeat_word(a.sums)));
      return _mm512_fmadd_ps(_mm512_fnmadd_ps(minimum_unit, offset, products), _mm512_set1_ps(a.scale), sum);
    }
  };
};

}  // namespace
}  // namespace rocmforge::cpu
