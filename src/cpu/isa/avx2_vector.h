#pragma once
// Small AVX2 helpers for the AVX2 and AVX-512 files. Only those may include it: everything here is static, because it
// is compiled for instructions that the rest of the program must not use (see kernels.h).

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace rocmforge::cpu {
namespace {

[[gnu::always_inline]] inline __m256i load_bytes(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

[[gnu::always_inline]] inline __m128i load_16_bytes(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}

// Four bytes, repeated in every lane.
[[gnu::always_inline]] inline __m256i repeat_word(const void* at) {
  int32_t word;
  __builtin_memcpy(&word, at, sizeof word);
  return _mm256_set1_epi32(word);
}

// (l0 + l4) + (l2 + l6) + ((l1 + l5) + (l3 + l7)): the order that kernels.h promises.
[[gnu::always_inline]] inline float sum_of(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// All ones in the first n lanes. REQUIRES: n <= 8
[[gnu::always_inline]] inline __m256i first_lanes(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Transposes eight words of each of eight rows, row_bytes apart: calls store(w, words w of all rows).
template <class Store>
[[gnu::always_inline]] inline void transpose_square(const char* from, size_t row_bytes, Store&& store) {
  __m256i rows[8], pairs[8], quads[8];
  for (size_t i = 0; i < 8; i++) rows[i] = load_bytes(from + i * row_bytes);
  for (int i = 0; i < 4; i++) {
    pairs[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 2; i++) {
    const __m256i* p = pairs + 4 * i;
    quads[4 * i + 0] = _mm256_unpacklo_epi64(p[0], p[2]);
    quads[4 * i + 1] = _mm256_unpackhi_epi64(p[0], p[2]);
    quads[4 * i + 2] = _mm256_unpacklo_epi64(p[1], p[3]);
    quads[4 * i + 3] = _mm256_unpackhi_epi64(p[1], p[3]);
  }
  for (size_t i = 0; i < 4; i++) {
    store(i, _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20));
    store(i + 4, _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31));
  }
}

}  // namespace
}  // namespace rocmforge::cpu
