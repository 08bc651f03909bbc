// Floats in AVX2, and the table. Every loop has a fixed order of sums: element k of a dot product belongs to lane k %
// 8, lanes ascend together, sum_of() folds them; what is left at the end of a row is filled up with zeros.

#include "cpu/isa/avx2.h"
#include "cpu/isa/avx2_vector.h"
#include "cpu/isa/recurrent_rows.h"

namespace rocmforge::cpu {
namespace {

// ---- Loading eight elements of a type, or the first n < 8 and zeros ----

struct F32 {
  static constexpr size_t kBytes = 4;
  static __m256 load(const char* at) { return _mm256_loadu_ps(reinterpret_cast<const float*>(at)); }
  static __m256 load(const char* at, size_t n) {
    return _mm256_maskload_ps(reinterpret_cast<const float*>(at), first_lanes(n));
  }
};

struct F16 {
  static constexpr size_t kBytes = 2;
  static __m256 load(const char* at) { return _mm256_cvtph_ps(load_16_bytes(at)); }
  static __m256 load(const char* at, size_t n) {
    char bytes[16] = {};
    __builtin_memcpy(bytes, at, 2 * n);
    return load(bytes);
  }
};

struct Bf16 {
  static constexpr size_t kBytes = 2;
  static __m256 load(const char* at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(at)), 16));
  }
  static __m256 load(const char* at, size_t n) {
    char bytes[16] = {};
    __builtin_memcpy(bytes, at, 2 * n);
    return load(bytes);
  }
};

__m256 load(const float* at) {
  return _mm256_loadu_ps(at);
}
__m256 load(const float* at, size_t n) {
  return _mm256_maskload_ps(at, first_lanes(n));
}

const char* row_of(const FloatRows& rows, size_t r) {
  return static_cast<const char*>(rows.data) + r * rows.row_bytes;
}

// Calls body(i, load) for every eight elements: load(pointer) gives those at i, zeros beyond n.
template <class Body>
[[gnu::always_inline]] inline void for_eights(size_t n, Body&& body) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) body(i, [](const float* at) { return load(at); });
  if (i < n) body(i, [rest = n - i](const float* at) { return load(at, rest); });
}

void store(float* at, __m256 values, size_t n) {
  if (n >= 8) {
    _mm256_storeu_ps(at, values);
  } else {
    _mm256_maskstore_ps(at, first_lanes(n), values);
  }
}

// ---- Products ----

template <class Type, int n_rows, int n_tokens>
[[gnu::always_inline]] inline void multiply_tile(const FloatRows& rows, size_t r, const Tokens<float>& tokens,
                                                 size_t t) {
  __m256 sums[n_rows][n_tokens];
  const char* weights[n_rows];
  for (int i = 0; i < n_rows; i++) {
    weights[i] = row_of(rows, r + i);
    for (int j = 0; j < n_tokens; j++) sums[i][j] = _mm256_setzero_ps();
  }
  size_t k = 0;
  for (; k + 8 <= rows.n_elements; k += 8) {
    __m256 inputs[n_tokens];
    for (int j = 0; j < n_tokens; j++) inputs[j] = load(tokens.in[t + j] + k);
    for (int i = 0; i < n_rows; i++) {
      const __m256 weight = Type::load(weights[i] + k * Type::kBytes);
      for (int j = 0; j < n_tokens; j++) sums[i][j] = _mm256_fmadd_ps(weight, inputs[j], sums[i][j]);
    }
  }
  if (const size_t rest = rows.n_elements - k; rest > 0) {
    for (int i = 0; i < n_rows; i++) {
      const __m256 weight = Type::load(weights[i] + k * Type::kBytes, rest);
      for (int j = 0; j < n_tokens; j++) {
        sums[i][j] = _mm256_fmadd_ps(weight, load(tokens.in[t + j] + k, rest), sums[i][j]);
      }
    }
  }
  for (int i = 0; i < n_rows; i++) {
    for (int j = 0; j < n_tokens; j++) tokens.out[t + j][tokens.first_row + r + i] = sum_of(sums[i][j]);
  }
}

template <class Type, int n_rows>
[[gnu::always_inline]] inline void multiply_rows(const FloatRows& rows, size_t r, const Tokens<float>& tokens) {
  size_t t = 0;
  for (; t + 3 <= tokens.n; t += 3) multiply_tile<Type, n_rows, 3>(rows, r, tokens, t);
  for (; t < tokens.n; t++) multiply_tile<Type, n_rows, 1>(rows, r, tokens, t);
}

template <class Type>
void matmul(const FloatRows& rows, const Tokens<float>& tokens) {
  size_t r = 0;
  for (; r + 4 <= rows.n_rows; r += 4) multiply_rows<Type, 4>(rows, r, tokens);
  for (; r < rows.n_rows; r++) multiply_rows<Type, 1>(rows, r, tokens);
}

// n_vectors x 8 elements of n_tokens outputs, or the first `rest` of eight; asks for as many elements from `next`.
template <class Type, int n_tokens, int n_vectors>
[[gnu::always_inline]] inline void weighted_sum_tile(const FloatRows& rows, const Tokens<float>& tokens, size_t t,
                                                     size_t i, size_t rest, const float* keep, const char* next) {
  __m256 sums[n_tokens][n_vectors];
  const float* in[n_tokens];
  float* out[n_tokens];
  for (int j = 0; j < n_tokens; j++) {
    in[j] = tokens.in[t + j];
    out[j] = tokens.out[t + j] + tokens.first_row + i;
    for (int v = 0; v < n_vectors; v++) {
      sums[j][v] = _mm256_setzero_ps();
      if (keep == nullptr) continue;
      const __m256 old = rest >= 8 ? load(out[j] + 8 * v) : load(out[j] + 8 * v, rest);
      sums[j][v] = _mm256_mul_ps(old, _mm256_set1_ps(keep[t + j]));
    }
  }
  const char* at = row_of(rows, 0) + i * Type::kBytes;
  for (size_t r = 0; r < rows.n_rows; r++, at += rows.row_bytes) {
    if (next != nullptr) _mm_prefetch(next + r * 8 * n_vectors * Type::kBytes, _MM_HINT_T1);
    __m256 row[n_vectors];
    for (int v = 0; v < n_vectors; v++) {
      row[v] = rest >= 8 ? Type::load(at + 8 * v * Type::kBytes) : Type::load(at + 8 * v * Type::kBytes, rest);
    }
    for (int j = 0; j < n_tokens; j++) {
      const __m256 weight = _mm256_set1_ps(in[j][r]);
      for (int v = 0; v < n_vectors; v++) sums[j][v] = _mm256_fmadd_ps(weight, row[v], sums[j][v]);
    }
  }
  for (int j = 0; j < n_tokens; j++) {
    for (int v = 0; v < n_vectors; v++) store(out[j] + 8 * v, sums[j][v], rest);
  }
}

template <class Type>
void weighted_sum(const FloatRows& rows, const Tokens<float>& tokens, const float* keep, const void* next) {
  const auto add = [&]<int n>(size_t t) {
    const char* ahead = t == 0 ? static_cast<const char*>(next) : nullptr;
    size_t i = 0;
    for (; i + 16 <= rows.n_elements; i += 16) {
      weighted_sum_tile<Type, n, 2>(rows, tokens, t, i, 8, keep, ahead);
      if (ahead != nullptr) ahead += rows.n_rows * 16 * Type::kBytes;
    }
    for (; i < rows.n_elements; i += 8) {
      weighted_sum_tile<Type, n, 1>(rows, tokens, t, i, rows.n_elements - i, keep, nullptr);
    }
  };
  size_t t = 0;
  for (; t + 4 <= tokens.n; t += 4) add.template operator()<4>(t);
  for (; t < tokens.n; t++) add.template operator()<1>(t);
}

// ---- Activations ----

__m256 magnitude(__m256 x) {
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF)));
}

int16_t sum_of_16(__m128i bytes) {
  const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi8(1), bytes);
  __m128i sums = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
  sums = _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums));
  sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 1));
  return static_cast<int16_t>(_mm_cvtsi128_si32(sums));
}

void quantize_block(QuantBlock& to, const float* from) {
  __m256 values[4];
  for (int i = 0; i < 4; i++) values[i] = load(from + 8 * i);
  // Compared as integers: NaN above infinity above every number.
  __m256i bits = _mm256_setzero_si256();
  for (int i = 0; i < 4; i++) bits = _mm256_max_epi32(bits, _mm256_castps_si256(magnitude(values[i])));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  four = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 1));
  const int32_t largest_bits = _mm_cvtsi128_si32(four);

  to = QuantBlock{};
  if (largest_bits >= 0x7F800000) {
    to.scale = to.sum = __builtin_nanf("");
    return;
  }
  const float scale = _mm_cvtss_f32(_mm_castsi128_ps(four)) / 127.0f;
  if (scale < 0x1p-100f) return;
  const __m256 inverse = _mm256_set1_ps(1.0f / scale);
  __m256i q[4];
  for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse));
  // Packing works on the two halves of a register: the words come out as 0 2 4 6 1 3 5 7.
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.q), ordered);
  to.scale = scale;
  to.sums[0] = sum_of_16(_mm256_castsi256_si128(ordered));
  to.sums[1] = sum_of_16(_mm256_extracti128_si256(ordered, 1));
  for (int h = 0; h < 2; h++) to.negative_sums[h] = -to.sums[h];
  to.sum = scale * static_cast<float>(to.sums[0] + to.sums[1]);
}

void quantize(QuantBlock* to, const float* from, size_t n_blocks) {
  for (size_t b = 0; b < n_blocks; b++) quantize_block(to[b], from + b * kQuantElements);
}

void to_f16(uint16_t* to, const float* from, size_t n) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(load(from + i), kNearest));
  }
  if (i < n) {
    uint16_t rest[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), _mm256_cvtps_ph(load(from + i, n - i), kNearest));
    __builtin_memcpy(to + i, rest, 2 * (n - i));
  }
}

// Eight numbers rounded to the nearest bf16, ties to even, in the upper halves of words; a NaN becomes a quiet one.
[[gnu::always_inline]] inline __m256i rounded_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

void to_bf16(uint16_t* to, const float* from, size_t n) {
  const auto upper = [](__m256i words) {
    const __m256i halves = _mm256_srli_epi32(words, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  };
  for_eights(n, [&](size_t i, auto at) {
    const __m128i eight = upper(rounded_to_bf16(at(from + i)));
    if (n - i >= 8) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), eight);
    uint16_t rest[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), eight);
    __builtin_memcpy(to + i, rest, 2 * (n - i));
  });
}

// e^x as in scalar.cpp, with fused steps.
[[gnu::always_inline]] inline __m256 exponential(__m256 x) {
  const __m256 kRound = _mm256_set1_ps(0x1.8p23f);
  const __m256 is_tiny = _mm256_cmp_ps(x, _mm256_set1_ps(-87.3f), _CMP_LT_OQ);
  x = _mm256_min_ps(_mm256_set1_ps(88.0f), x);  // the second operand when one is a NaN
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(1.44269504f), kRound);
  const __m256 n = _mm256_sub_ps(shifted, kRound);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
  p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127));
  p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  return _mm256_andnot_ps(is_tiny, p);
}

float largest(const float* values, size_t n) {
  __m256 lanes = _mm256_set1_ps(values[0]);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) lanes = _mm256_max_ps(lanes, load(values + i));
  for (; i < n; i++) lanes = _mm256_max_ps(lanes, _mm256_set1_ps(values[i]));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

float add_scores(RunningSoftmax& softmax, float* scores, size_t n, float scale) {
  const float new_largest = largest(scores, n);
  const __m256 most = _mm256_set1_ps(softmax.largest > new_largest ? softmax.largest : new_largest);
  const auto power = [&](__m256 x) {
    return exponential(_mm256_mul_ps(_mm256_set1_ps(scale), _mm256_sub_ps(x, most)));
  };
  const float keep = _mm256_cvtss_f32(power(_mm256_set1_ps(softmax.largest)));
  __m256 sums = _mm256_setzero_ps();
  for_eights(n, [&](size_t i, auto at) {
    __m256 e = power(at(scores + i));
    if (n - i < 8) e = _mm256_and_ps(e, _mm256_castsi256_ps(first_lanes(n - i)));
    sums = _mm256_add_ps(sums, e);
    store(scores + i, e, n - i);
  });
  softmax = {_mm256_cvtss_f32(most), softmax.sum * keep + sum_of(sums)};
  return keep;
}

void rms_norm(float* to, const float* from, const float* weight, size_t n, float epsilon) {
  __m256 squares = _mm256_setzero_ps();
  for_eights(n, [&](size_t i, auto at) {
    const __m256 x = at(from + i);
    squares = _mm256_fmadd_ps(x, x, squares);
  });
  const __m128 mean = _mm_set_ss(sum_of(squares) / static_cast<float>(n) + epsilon);
  const __m256 scale = _mm256_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(mean)));
  for_eights(n, [&](size_t i, auto at) {
    store(to + i, _mm256_mul_ps(_mm256_mul_ps(at(from + i), scale), at(weight + i)), n - i);
  });
}

void layer_norm(float* to, const float* from, const float* weight, const float* bias, size_t n, float epsilon) {
  __m256 sum = _mm256_setzero_ps();
  for_eights(n, [&](size_t i, auto at) { sum = _mm256_add_ps(sum, at(from + i)); });
  const __m256 mean = _mm256_set1_ps(sum_of(sum) / static_cast<float>(n));
  __m256 squares = _mm256_setzero_ps();
  for_eights(n, [&](size_t i, auto at) {
    __m256 x = _mm256_sub_ps(at(from + i), mean);
    if (n - i < 8) x = _mm256_and_ps(x, _mm256_castsi256_ps(first_lanes(n - i)));
    squares = _mm256_fmadd_ps(x, x, squares);
  });
  const __m128 variance = _mm_set_ss(sum_of(squares) / static_cast<float>(n) + epsilon);
  const __m256 scale = _mm256_set1_ps(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(variance)));
  for_eights(n, [&](size_t i, auto at) {
    const __m256 x = _mm256_mul_ps(_mm256_mul_ps(_mm256_sub_ps(at(from + i), mean), scale), at(weight + i));
    store(to + i, bias != nullptr ? _mm256_add_ps(x, at(bias + i)) : x, n - i);
  });
}

void add(float* to, const float* from, size_t n) {
  for_eights(n, [&](size_t i, auto at) { store(to + i, _mm256_add_ps(at(to + i), at(from + i)), n - i); });
}

// x / (1 + e^-y) * up
[[gnu::always_inline]] inline __m256 gated(__m256 x, __m256 y, __m256 up) {
  const __m256 e = exponential(_mm256_sub_ps(_mm256_setzero_ps(), y));
  return _mm256_mul_ps(_mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), up);
}

void silu_multiply(float* to, const float* gate, const float* up, size_t n) {
  for_eights(n, [&](size_t i, auto at) {
    const __m256 x = at(gate + i);
    store(to + i, gated(x, x, at(up + i)), n - i);
  });
}

void gelu_multiply(float* to, const float* gate, const float* up, size_t n) {
  for_eights(n, [&](size_t i, auto at) {
    const __m256 x = at(gate + i);
    const __m256 cubic = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0.044715f), _mm256_set1_ps(1.0f));
    const __m256 twice_u = _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(2 * 0.79788456f)), cubic);
    store(to + i, gated(x, twice_u, at(up + i)), n - i);
  });
}

float sum_of_powers(const float* x, size_t n, float most) {
  __m256 sums = _mm256_setzero_ps();
  for_eights(n, [&](size_t i, auto at) {
    const __m256 eight = at(x + i);
    const __m256 zero_or_nan = _mm256_sub_ps(eight, eight);
    __m256 e = _mm256_add_ps(exponential(_mm256_sub_ps(eight, _mm256_set1_ps(most))), zero_or_nan);
    if (n - i < 8) e = _mm256_and_ps(e, _mm256_castsi256_ps(first_lanes(n - i)));
    sums = _mm256_add_ps(sums, e);
  });
  return sum_of(sums);
}

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels kernels = {
      .name = "avx2",
      .matmul_f32 = matmul<F32>,
      .matmul_f16 = matmul<F16>,
      .matmul_bf16 = matmul<Bf16>,
      .packed = avx2_packed_formats,
      .n_packed = kPackedFormats,
      .quantize = quantize,
      .to_bf16 = to_bf16,
      .weighted_sum_f32 = weighted_sum<F32>,
      .weighted_sum_f16 = weighted_sum<F16>,
      .add_scores = add_scores,
      .to_f16 = to_f16,
      .rms_norm = rms_norm,
      .layer_norm = layer_norm,
      .add = add,
      .silu_multiply = silu_multiply,
      .gelu_multiply = gelu_multiply,
      .delta_rows = delta_rows<8>,
      .scan_by_head = scan_rows<8, false>,
      .scan_by_element = scan_rows<8, true>,
      .sum_of_powers = sum_of_powers,
  };
  return kernels;
}

}  // namespace rocmforge::cpu
