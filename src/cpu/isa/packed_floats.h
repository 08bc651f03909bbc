#pragma once
// Packed floats for the vector instruction sets. A unit's rows are interleaved, so
// that memory is read forwards in one stream and no horizontal sum is needed. Everything here is static (see
// kernels.h).
//
// Each row has two sums, of even and of odd elements, so that a multiply-add need not wait for the previous one. A
// format loads two neighbouring elements of all rows at a time, in two registers, and multiplies both with the same two
// inputs:
//
//   F32, BF16   even elements of all rows | odd elements of all rows
//   F16         both elements of the first half of the rows | of the second half: as stored, nothing moves

#include "cpu/isa/packed_matmul.h"

namespace rocmforge::cpu {
namespace {

constexpr int kPairs = 16;  // per block

template <class V>
struct F32 : Cut<V, DType::f32> {
  using Float = typename V::Float;
  static constexpr size_t kPairBytes = 8 * V::kRows;

  [[gnu::always_inline]] static void load(Float (&pair)[2], const char* at) {
    pair[0] = V::as_float(V::load(at));
    pair[1] = V::as_float(V::load(at + kPairBytes / 2));
  }
  [[gnu::always_inline]] static void add_to(Float (&sums)[2], const Float (&pair)[2], const float* in) {
    for (int i = 0; i < 2; i++) sums[i] = V::multiply_add(pair[i], V::repeat(in + i), sums[i]);
  }
  [[gnu::always_inline]] static Float total(const Float (&sums)[2]) { return V::add(sums[0], sums[1]); }
};

template <class V>
struct Bf16 : F32<V> {
  using Float = typename V::Float;
  static constexpr DType dtype = DType::bf16;
  static constexpr size_t kPairBytes = 4 * V::kRows;

  [[gnu::always_inline]] static void load(Float (&pair)[2], const char* at) {
    const typename V::Int words = V::load(at);
    pair[0] = V::as_float(V::left(words, 16));
    pair[1] = V::as_float(words & V::words(static_cast<int>(0xFFFF0000)));
  }
};

template <class V>
struct F16 : Cut<V, DType::f16> {
  using Float = typename V::Float;
  static constexpr size_t kPairBytes = 4 * V::kRows;

  [[gnu::always_inline]] static void load(Float (&pair)[2], const char* at) {
    pair[0] = V::load_f16(at);
    pair[1] = V::load_f16(at + kPairBytes / 2);
  }
  [[gnu::always_inline]] static void add_to(Float (&sums)[2], const Float (&pair)[2], const float* in) {
    const Float inputs = V::repeat_pair(in);
    for (int i = 0; i < 2; i++) sums[i] = V::multiply_add(pair[i], inputs, sums[i]);
  }
  [[gnu::always_inline]] static Float total(const Float (&sums)[2]) { return V::add_neighbours(sums[0], sums[1]); }
};

template <class Format, class V, int n>
[[gnu::always_inline]] inline void multiply_float_unit(const Tile& tile, const Tokens<void>& tokens) {
  const float* in[n];
  typename V::Float sums[n][2];
  for (int i = 0; i < n; i++) {
    in[i] = static_cast<const float*>(tokens.in[tile.t + i]);
    sums[i][0] = sums[i][1] = V::zero();
  }
  const char* at = tile.unit;
  for (size_t k = 0; k < 2 * kPairs * tile.n_groups; k += 8) {
    unrolled<4>([&]<int p>() __attribute__((always_inline)) {
      const char* pair_at = at + p * Format::kPairBytes;
      if constexpr (n == V::kFloatTokens) {
        for (size_t b = 0; b < Format::kPairBytes; b += kLine) tile.fetch_ahead(pair_at + b);
      }
      typename V::Float pair[2];
      Format::load(pair, pair_at);
      for (int i = 0; i < n; i++) Format::add_to(sums[i], pair, in[i] + k + 2 * p);
    });
    at += 4 * Format::kPairBytes;
  }
  for (int i = 0; i < n; i++) V::store(tokens.out[tile.t + i] + tile.out_row, Format::total(sums[i]));
}

template <template <class> class FormatOf, class V>
void packed_float_matmul(const PackedUnits& units, const Tokens<void>& tokens) {
  using Format = FormatOf<V>;
  for_tiles<V, V::kFloatTokens>(units, tokens, kPairs * Format::kPairBytes,
                                [&]<int n>(const Tile& tile) { multiply_float_unit<Format, V, n>(tile, tokens); });
}

template <template <class> class FormatOf, class V>
constexpr PackedFormat packed_float_format_of() {
  constexpr DType kDType = FormatOf<V>::dtype;
  return {static_cast<uint32_t>(kDType), V::kRows, InputForm::floats, pack<kDType, V>,
          packed_float_matmul<FormatOf, V>};
}

}  // namespace
}  // namespace rocmforge::cpu
