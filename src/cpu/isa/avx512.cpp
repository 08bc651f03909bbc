// Floats in AVX-512, and the table: what is not here is as in AVX2. Element k of a dot product belongs to lane k % 16,
// lanes ascend together, a fixed tree folds them; what is left at the end of a row is filled up with zeros.

#include "cpu/isa/avx512.h"

#include <immintrin.h>

#include "cpu/isa/recurrent_rows.h"

namespace rocmforge::cpu {
namespace {

// All ones for the first n lanes, or for all of them.
[[gnu::always_inline]] inline __mmask16 first_lanes(size_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1u << n) - 1);
}

// ---- Loading sixteen elements of a type; those that the mask leaves out are zeros and not read ----

struct F32 {
  static constexpr size_t kBytes = 4;
  [[gnu::always_inline]] static __m512 load(const char* at) { return _mm512_loadu_ps(at); }
  [[gnu::always_inline]] static __m512 load(const char* at, __mmask16 lanes) {
    return _mm512_maskz_loadu_ps(lanes, at);
  }
};

struct F16 {
  static constexpr size_t kBytes = 2;
  [[gnu::always_inline]] static __m512 load(const char* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  [[gnu::always_inline]] static __m512 load(const char* at, __mmask16 lanes) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, at));
  }
};

struct Bf16 {
  static constexpr size_t kBytes = 2;
  [[gnu::always_inline]] static __m512 widened(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  [[gnu::always_inline]] static __m512 load(const char* at) {
    return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  [[gnu::always_inline]] static __m512 load(const char* at, __mmask16 lanes) {
    return widened(_mm256_maskz_loadu_epi16(lanes, at));
  }
};

[[gnu::always_inline]] inline const char* row_of(const FloatRows& rows, size_t r) {
  return static_cast<const char*>(rows.data) + r * rows.row_bytes;
}

// ---- Products ----

// Four sums at once: lanes l and l + 8, then l and l + 4, then l and l + 2, then l and l + 1, as for one.
[[gnu::always_inline]] inline __m128 sums_of(__m512 a, __m512 b, __m512 c, __m512 d) {
  const auto eight = [](__m512 x) { return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)); };
  const auto fours = [](__m256 x, __m256 y) {  // x's in the low half, y's in the high one
    return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
  };
  const __m256 ab = fours(eight(a), eight(b)), cd = fours(eight(c), eight(d));
  const __m256 low = _mm256_shuffle_ps(ab, cd, 0x44), high = _mm256_shuffle_ps(ab, cd, 0xEE);
  const __m256 two = _mm256_add_ps(low, high);  // a0 a1 c0 c1 | b0 b1 d0 d1
  const __m128 ac = _mm256_castps256_ps128(two), bd = _mm256_extractf128_ps(two, 1);
  const __m128 even = _mm_shuffle_ps(ac, bd, 0x88), odd = _mm_shuffle_ps(ac, bd, 0xDD);
  const __m128 acbd = _mm_add_ps(even, odd);
  return _mm_shuffle_ps(acbd, acbd, 0xD8);
}

// Rows r .. r + n_rows - 1, of which the last may be given again and again; n_stored of the products are kept.
template <class Type, int n_tokens>
[[gnu::always_inline]] inline void multiply_tile(const char* const (&weights)[4], size_t n_elements, size_t n_stored,
                                                 const Tokens<float>& tokens, size_t t, size_t r) {
  __m512 sums[n_tokens][4];
  const float* in[n_tokens];
  for (int j = 0; j < n_tokens; j++) {
    in[j] = tokens.in[t + j];
    for (int i = 0; i < 4; i++) sums[j][i] = _mm512_setzero_ps();
  }
  size_t k = 0;
  for (; k + 16 <= n_elements; k += 16) {
    __m512 row[4];
    for (int i = 0; i < 4; i++) row[i] = Type::load(weights[i] + k * Type::kBytes);
    for (int j = 0; j < n_tokens; j++) {
      const __m512 input = _mm512_loadu_ps(in[j] + k);
      for (int i = 0; i < 4; i++) sums[j][i] = _mm512_fmadd_ps(row[i], input, sums[j][i]);
    }
  }
  if (k < n_elements) {
    const __mmask16 lanes = first_lanes(n_elements - k);
    for (int i = 0; i < 4; i++) {
      const __m512 row = Type::load(weights[i] + k * Type::kBytes, lanes);
      for (int j = 0; j < n_tokens; j++) {
        sums[j][i] = _mm512_fmadd_ps(row, _mm512_maskz_loadu_ps(lanes, in[j] + k), sums[j][i]);
      }
    }
  }
  const auto stored = static_cast<__mmask8>((1u << n_stored) - 1);
  for (int j = 0; j < n_tokens; j++) {
    _mm_mask_storeu_ps(tokens.out[t + j] + tokens.first_row + r, stored,
                       sums_of(sums[j][0], sums[j][1], sums[j][2], sums[j][3]));
  }
}

// One token, row after row: memory streams faster from one place than from four.
template <class Type>
void multiply_long_rows(const FloatRows& rows, const float* in, float* out) {
  for (size_t r = 0; r < rows.n_rows; r++) {
    const char* row = row_of(rows, r);
    __m512 sum = _mm512_setzero_ps();
    size_t k = 0;
    for (; k + 16 <= rows.n_elements; k += 16) {
      sum = _mm512_fmadd_ps(Type::load(row + k * Type::kBytes), _mm512_loadu_ps(in + k), sum);
    }
    if (k < rows.n_elements) {
      const __mmask16 lanes = first_lanes(rows.n_elements - k);
      sum = _mm512_fmadd_ps(Type::load(row + k * Type::kBytes, lanes), _mm512_maskz_loadu_ps(lanes, in + k), sum);
    }
    out[r] = _mm_cvtss_f32(sums_of(sum, sum, sum, sum));
  }
}

template <class Type>
void matmul(const FloatRows& rows, const Tokens<float>& tokens) {
  constexpr size_t kLongRow = 512;
  if (tokens.n == 1 && rows.n_elements >= kLongRow) {
    return multiply_long_rows<Type>(rows, tokens.in[0], tokens.out[0] + tokens.first_row);
  }
  for (size_t r = 0; r < rows.n_rows; r += 4) {
    const size_t n_stored = rows.n_rows - r < 4 ? rows.n_rows - r : 4;
    const char* weights[4];
    for (size_t i = 0; i < 4; i++) weights[i] = row_of(rows, r + (i < n_stored ? i : n_stored - 1));
    const auto multiply = [&]<int n>(size_t t) {
      multiply_tile<Type, n>(weights, rows.n_elements, n_stored, tokens, t, r);
    };
    size_t t = 0;
    for (; t + 6 <= tokens.n; t += 6) multiply.template operator()<6>(t);
    if (t + 4 <= tokens.n) multiply.template operator()<4>(t), t += 4;
    if (t + 2 <= tokens.n) multiply.template operator()<2>(t), t += 2;
    if (t < tokens.n) multiply.template operator()<1>(t);
  }
}

// ---- Attention ----

// n_vectors x 16 elements of n_tokens outputs, or `lanes` of them; asks for as many elements from `next`.
template <class Type, int n_tokens, int n_vectors, bool is_whole>
[[gnu::always_inline]] inline void weighted_sum_tile(const FloatRows& rows, const Tokens<float>& tokens, size_t t,
                                                     size_t i, __mmask16 lanes, const float* keep, const char* next) {
  constexpr size_t kBytes = 16 * n_vectors * Type::kBytes;
  __m512 sums[n_tokens][n_vectors];
  const float* in[n_tokens];
  float* out[n_tokens];
  for (int j = 0; j < n_tokens; j++) {
    in[j] = tokens.in[t + j];
    out[j] = tokens.out[t + j] + tokens.first_row + i;
    for (int v = 0; v < n_vectors; v++) {
      sums[j][v] = _mm512_setzero_ps();
      if (keep == nullptr) continue;
      const __m512 old = is_whole ? F32::load(reinterpret_cast<const char*>(out[j] + 16 * v))
                                  : F32::load(reinterpret_cast<const char*>(out[j] + 16 * v), lanes);
      sums[j][v] = _mm512_mul_ps(old, _mm512_set1_ps(keep[t + j]));
    }
  }
  const char* at = row_of(rows, 0) + i * Type::kBytes;
  for (size_t r = 0; r < rows.n_rows; r++, at += rows.row_bytes) {
    if (next != nullptr) {
      for (size_t line = 0; line < kBytes; line += 64) _mm_prefetch(next + r * kBytes + line, _MM_HINT_T1);
    }
    __m512 row[n_vectors];
    for (int v = 0; v < n_vectors; v++) {
      row[v] = is_whole ? Type::load(at + 16 * v * Type::kBytes) : Type::load(at + 16 * v * Type::kBytes, lanes);
    }
    for (int j = 0; j < n_tokens; j++) {
      const __m512 weight = _mm512_set1_ps(in[j][r]);
      for (int v = 0; v < n_vectors; v++) sums[j][v] = _mm512_fmadd_ps(weight, row[v], sums[j][v]);
    }
  }
  for (int j = 0; j < n_tokens; j++) {
    for (int v = 0; v < n_vectors; v++) {
      if constexpr (is_whole) {
        _mm512_storeu_ps(out[j] + 16 * v, sums[j][v]);
      } else {
        _mm512_mask_storeu_ps(out[j] + 16 * v, lanes, sums[j][v]);
      }
    }
  }
}

template <class Type>
void weighted_sum(const FloatRows& rows, const Tokens<float>& tokens, const float* keep, const void* next) {
  const auto add = [&]<int n>(size_t t) {
    const char* ahead = t == 0 ? static_cast<const char*>(next) : nullptr;
    size_t i = 0;
    for (; i + 64 <= rows.n_elements; i += 64) {
      weighted_sum_tile<Type, n, 4, true>(rows, tokens, t, i, 0, keep, ahead);
      if (ahead != nullptr) ahead += rows.n_rows * 64 * Type::kBytes;
    }
    for (; i < rows.n_elements; i += 16) {
      weighted_sum_tile<Type, n, 1, false>(rows, tokens, t, i, first_lanes(rows.n_elements - i), keep, ahead);
      if (ahead != nullptr) ahead += rows.n_rows * 16 * Type::kBytes;
    }
  };
  size_t t = 0;
  for (; t + 4 <= tokens.n; t += 4) add.template operator()<4>(t);
  if (t + 2 <= tokens.n) add.template operator()<2>(t), t += 2;
  if (t < tokens.n) add.template operator()<1>(t);
}

// e^x as in scalar.cpp, with fused steps. REQUIRES: x <= 88, or a NaN
[[gnu::always_inline]] inline __m512 exponential(__m512 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __mmask16 is_not_tiny = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), kNearest);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  return _mm512_maskz_scalef_ps(is_not_tiny, p, n);
}

float add_scores(RunningSoftmax& softmax, float* scores, size_t n, float scale) {
  const __m512 before = _mm512_set1_ps(softmax.largest);
  __m512 most = before;
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    most = _mm512_mask_max_ps(most, lanes, most, _mm512_maskz_loadu_ps(lanes, scores + i));
  }
  most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
  const auto power = [&](__m512 x) {
    return exponential(_mm512_mul_ps(_mm512_set1_ps(scale), _mm512_sub_ps(x, most)));
  };
  const float keep = _mm512_cvtss_f32(power(before));
  __m512 sums = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 e = power(_mm512_maskz_loadu_ps(lanes, scores + i));
    sums = _mm512_mask_add_ps(sums, lanes, sums, e);
    _mm512_mask_storeu_ps(scores + i, lanes, e);
  }
  softmax = {_mm512_cvtss_f32(most), softmax.sum * keep + _mm_cvtss_f32(sums_of(sums, sums, sums, sums))};
  return keep;
}

// ---- Activations ----

// Four blocks at a time, so that what is done for a block as a whole is done for four; bits are those of AVX2.
void quantize_four(QuantBlock* to, const float* from) {
  const auto lanes_of_four = [](__m512i a, __m512i b, __m512i c, __m512i d, auto&& join) {
    // Each 128 bits: one of a, b, c and d.
    const __m512i ab = join(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = join(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    return join(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  };
  __m512 values[4][2];
  __m512i most[4];
  // Compared as integers: NaN above infinity above every number.
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  for (int b = 0; b < 4; b++) {
    for (int h = 0; h < 2; h++) values[b][h] = _mm512_loadu_ps(from + b * kQuantElements + 16 * h);
    most[b] = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(values[b][0]), magnitude),
                               _mm512_and_si512(_mm512_castps_si512(values[b][1]), magnitude));
  }
  const __m512i sixteen =
      lanes_of_four(most[0], most[1], most[2], most[3], [](__m512i a, __m512i b) { return _mm512_max_epi32(a, b); });
  const __m256i eight = _mm256_max_epi32(_mm512_castsi512_si256(sixteen), _mm512_extracti32x8_epi32(sixteen, 1));
  const __m128i largest = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));

  const __mmask8 is_number = _mm_cmplt_epi32_mask(largest, _mm_set1_epi32(0x7F800000));
  const __m128 scale = _mm_div_ps(_mm_castsi128_ps(largest), _mm_set1_ps(127.0f));
  const __mmask8 counts = _mm_mask_cmp_ps_mask(is_number, scale, _mm_set1_ps(0x1p-100f), _CMP_NLT_UQ);
  // Zeros where nothing counts. A NaN times zero would be none, so those become zero, too.
  const __m128 inverse = _mm_maskz_div_ps(counts, _mm_set1_ps(1.0f), scale);
  const __m512 inverses = _mm512_broadcast_f32x4(inverse);
  __m512i bytes[2];  // of two blocks each
  for (int b = 0; b < 4; b++) {
    const __m512 factor = _mm512_permutexvar_ps(_mm512_set1_epi32(b), inverses);
    const __mmask16 all = counts >> b & 1 ? 0xFFFF : 0;
    const auto rounded = [&](int h) {
      return _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(all, _mm512_mul_ps(values[b][h], factor)));
    };
    const __m256i block = _mm256_set_m128i(rounded(1), rounded(0));
    bytes[b / 2] = b % 2 == 0 ? _mm512_castsi256_si512(block) : _mm512_inserti64x4(bytes[b / 2], block, 1);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to[b].q), block);
  }
  // Each 128 bits are half a block.
  const __m512i zero = _mm512_setzero_si512(), ones = _mm512_set1_epi8(1);
  const __m512i low = _mm512_dpbusd_epi32(zero, ones, bytes[0]), high = _mm512_dpbusd_epi32(zero, ones, bytes[1]);
  const __m512i sums = lanes_of_four(low, high, low, high, [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); });
  alignas(64) int32_t halves[4][4];  // half h of block b: halves[b % 2 * 2 + h][b / 2]
  _mm512_store_si512(halves, sums);
  alignas(16) float scales[4];
  _mm_store_ps(scales, _mm_mask_blend_ps(is_number, _mm_set1_ps(__builtin_nanf("")), _mm_maskz_mov_ps(counts, scale)));
  for (int b = 0; b < 4; b++) {
    const int32_t first = halves[b % 2 * 2][b / 2], second = halves[b % 2 * 2 + 1][b / 2];
    to[b].scale = scales[b];
    to[b].sum = scales[b] * static_cast<float>(first + second);
    to[b].sums[0] = static_cast<int16_t>(first);
    to[b].sums[1] = static_cast<int16_t>(second);
    to[b].negative_sums[0] = -first;
    to[b].negative_sums[1] = -second;
  }
}

void quantize(QuantBlock* to, const float* from, size_t n_blocks) {
  size_t b = 0;
  for (; b + 4 <= n_blocks; b += 4) quantize_four(to + b, from + b * kQuantElements);
  avx2_kernels().quantize(to + b, from + b * kQuantElements, n_blocks - b);
}

void silu_multiply(float* to, const float* gate, const float* up, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 x = _mm512_maskz_loadu_ps(lanes, gate + i);
    const __m512 power = exponential(_mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_sub_ps(_mm512_setzero_ps(), x)));
    const __m512 gated = _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), power));
    _mm512_mask_storeu_ps(to + i, lanes, _mm512_mul_ps(gated, _mm512_maskz_loadu_ps(lanes, up + i)));
  }
}

float sum_of_powers(const float* x, size_t n, float largest) {
  __m512 sums = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 sixteen = _mm512_maskz_loadu_ps(lanes, x + i);
    const __m512 zero_or_nan = _mm512_sub_ps(sixteen, sixteen);
    const __m512 e = _mm512_add_ps(exponential(_mm512_sub_ps(sixteen, _mm512_set1_ps(largest))), zero_or_nan);
    sums = _mm512_mask_add_ps(sums, lanes, sums, e);
  }
  return _mm_cvtss_f32(sums_of(sums, sums, sums, sums));
}

Kernels make_kernels() {
  Kernels kernels = avx2_kernels();
  kernels.name = "avx512";
  kernels.matmul_f32 = matmul<F32>;
  kernels.matmul_f16 = matmul<F16>;
  kernels.matmul_bf16 = matmul<Bf16>;
  kernels.packed = avx512_packed_formats;
  kernels.weighted_sum_f32 = weighted_sum<F32>;
  kernels.weighted_sum_f16 = weighted_sum<F16>;
  kernels.add_scores = add_scores;
  kernels.quantize = quantize;
  kernels.silu_multiply = silu_multiply;
  kernels.delta_rows = delta_rows<16>;
  kernels.scan_by_head = scan_rows<16, false>;
  kernels.scan_by_element = scan_rows<16, true>;
  kernels.sum_of_powers = sum_of_powers;
  return kernels;
}

}  // namespace

const Kernels& avx512_kernels() {
  static const Kernels kernels = make_kernels();
  return kernels;
}

}  // namespace rocmforge::cpu
