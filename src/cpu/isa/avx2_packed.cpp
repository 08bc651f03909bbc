// The loops over packed weights in AVX2: products and packing, for every format of avx2_formats.h.

#include "cpu/isa/avx2.h"
#include "cpu/isa/avx2_formats.h"

namespace rocmforge::cpu {
namespace {

// One unit times n tokens: the codes are unpacked once for all of them.
template <class Format, int n>
[[gnu::always_inline]] inline void multiply_unit(const char* unit, size_t n_groups, const QuantBlock* const* in,
                                                 float* const* out, size_t out_row) {
  __m256 sums[n];
  for (int t = 0; t < n; t++) sums[t] = _mm256_setzero_ps();
  for (size_t g = 0; g < n_groups; g++) {
    const Format group(unit + g * Format::kGroupBytes);
    for (int s = 0; s < Format::kBlocks; s++) {
      Codes codes;
      group.codes(codes, s);
      const auto terms = group.terms(s);
      for (int t = 0; t < n; t++) sums[t] = terms.add_to(sums[t], codes, in[t][g * Format::kBlocks + s]);
    }
  }
  for (int t = 0; t < n; t++) _mm256_storeu_ps(out[t] + out_row, sums[t]);
}

template <class Format>
void matmul(const PackedUnits& units, const Tokens<QuantBlock>& tokens) {
  const size_t unit_bytes = units.n_groups * Format::kGroupBytes;
  for (size_t u = 0; u < units.n_units; u++) {
    const char* unit = static_cast<const char*>(units.data) + u * unit_bytes;
    const size_t out_row = tokens.first_row + u * kPackedRows;
    const auto multiply = [&]<int n>(size_t t) {
      multiply_unit<Format, n>(unit, units.n_groups, tokens.in + t, tokens.out + t, out_row);
    };
    size_t t = 0;
    for (; t + 4 <= tokens.n; t += 4) multiply.template operator()<4>(t);
    if (t + 2 <= tokens.n) multiply.template operator()<2>(t), t += 2;
    if (t < tokens.n) multiply.template operator()<1>(t);
  }
}

// ---- Packing ----

// Eight rows of eight words into eight words of eight rows.
[[gnu::always_inline]] inline void transpose(__m256i (&rows)[8]) {
  __m256i pairs[8], quads[8];
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
  for (int i = 0; i < 4; i++) {
    rows[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
  }
}

template <DType kDType>
void pack(void* unit, const void* rows, size_t n_groups) {
  using C = Cut<kDType>;
  constexpr size_t kHead = C::kCut.head_bytes, kTail = C::kCut.tail_bytes, kWords = C::kCut.n_words;
  const size_t row_bytes = n_groups * C::kBlockBytes;
  for (size_t g = 0; g < n_groups; g++) {
    char* to = static_cast<char*>(unit) + g * C::kGroupBytes;
    const char* from = static_cast<const char*>(rows) + g * C::kBlockBytes;
    size_t w = 0;
    for (; w + 8 <= kWords; w += 8) {
      __m256i square[8];
      for (size_t r = 0; r < 8; r++) square[r] = load_bytes(from + r * row_bytes + kHead + 4 * w);
      transpose(square);
      for (size_t i = 0; i < 8; i++) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + C::kWordsAt + 32 * (w + i)), square[i]);
      }
    }
    for (size_t r = 0; r < 8; r++) {
      const char* block = from + r * row_bytes;
      __builtin_memcpy(to + r * kHead, block, kHead);
      for (size_t i = w; i < kWords; i++) {
        __builtin_memcpy(to + C::kWordsAt + 4 * (8 * i + r), block + kHead + 4 * i, 4);
      }
      __builtin_memcpy(to + C::kTailAt + r * kTail, block + kHead + 4 * kWords, kTail);
    }
  }
}

template <DType kDType, class Format>
constexpr PackedFormat entry() {
  return {static_cast<uint32_t>(kDType), pack<kDType>, matmul<Format>};
}

}  // namespace

constexpr PackedFormat avx2_packed_formats[kAvx2PackedFormats] = {
    entry<DType::q4_0, Q4_0>(),   entry<DType::q4_1, Q4_1>(),    entry<DType::q5_0, Q5_0>(),
    entry<DType::q5_1, Q5_1>(),   entry<DType::q8_0, Q8_0>(),    entry<DType::q2_k, Q2K>(),
    entry<DType::q3_k, Q3K>(),    entry<DType::q4_k, Q4K>(),     entry<DType::q5_k, Q5K>(),
    entry<DType::q6_k, Q6K>(),    entry<DType::iq4_nl, Iq4Nl>(), entry<DType::iq4_xs, Iq4Xs>(),
    entry<DType::mxfp4, Mxfp4>(),
};

}  // namespace rocmforge::cpu
