// BF16 with AVX512-BF16: inputs are rounded to bf16, and one instruction multiplies pairs. The table is AVX-512's but
// for that.
//
// The instruction takes numbers below 2^-126, and sums that become so small, as zero.

#include "cpu/isa/avx512.h"
#include "cpu/isa/avx512_terms.h"
#include "cpu/isa/packed_matmul.h"

namespace rocmforge::cpu {
namespace {

constexpr size_t kPairBytes = 4 * Avx512::kRows;
constexpr int kPairs = 16;  // of a block

// Two sums for each row, of even pairs of elements and of odd ones.
template <int n>
[[gnu::always_inline]] inline void multiply_unit(const Tile& tile, const Tokens<void>& tokens) {
  const char* in[n];
  __m512 sums[n][2];
  for (int i = 0; i < n; i++) {
    in[i] = static_cast<const char*>(tokens.in[tile.t + i]);
    sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  }
  const char* at = tile.unit;
  for (size_t k = 0; k < 4 * kPairs * tile.n_groups; k += 16) {
    unrolled<4>([&]<int p>() __attribute__((always_inline)) {
      if constexpr (n == Avx512::kFloatTokens) tile.fetch_ahead(at + p * kPairBytes);
      const auto weights = reinterpret_cast<__m512bh>(Avx512::load(at + p * kPairBytes));
      for (int i = 0; i < n; i++) {
        const auto inputs = reinterpret_cast<__m512bh>(Avx512::repeat_word(in[i] + k + 4 * p));
        sums[i][p % 2] = _mm512_dpbf16_ps(sums[i][p % 2], weights, inputs);
      }
    });
    at += 4 * kPairBytes;
  }
  for (int i = 0; i < n; i++) {
    _mm512_storeu_ps(tokens.out[tile.t + i] + tile.out_row, _mm512_add_ps(sums[i][0], sums[i][1]));
  }
}

void matmul(const PackedUnits& units, const Tokens<void>& tokens) {
  for_tiles<Avx512, Avx512::kFloatTokens>(units, tokens, kPairs * kPairBytes,
                                          [&]<int n>(const Tile& tile) { multiply_unit<n>(tile, tokens); });
}

struct Table {
  Kernels kernels = avx512_kernels();
  PackedFormat packed[kPackedFormats];

  Table() {
    for (size_t i = 0; i < kPackedFormats; i++) {
      packed[i] = avx512_packed_formats[i];
      if (packed[i].dtype != static_cast<uint32_t>(DType::bf16)) continue;
      packed[i].input = InputForm::bf16;
      packed[i].matmul = matmul;
    }
    kernels.name = "avx512bf16";
    kernels.packed = packed;
  }
};

}  // namespace

const Kernels& avx512bf16_kernels() {
  static const Table table;
  return table.kernels;
}

}  // namespace rocmforge::cpu
