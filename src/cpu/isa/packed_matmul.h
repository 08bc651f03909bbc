#pragma once
// The loops over units of packed weights, and packing, for the vectors V of an instruction set (see packed_formats.h).
// Everything here is static.

#include <immintrin.h>

#include "cpu/isa/avx2_vector.h"
#include "cpu/isa/packed_formats.h"

namespace rocmforge::cpu {
namespace {

// One unit times the tokens t .. t + n - 1.
struct Tile {
  const char* unit;
  size_t n_groups;
  size_t t;
  size_t out_row;  // offset of the unit's first output
  size_t ahead;    // bytes ahead to prefetch meanwhile; 0: none

  // REQUIRES: at points into the unit
  [[gnu::always_inline]] void fetch_ahead(const char* at) const { _mm_prefetch(at + ahead, _MM_HINT_T1); }
};
constexpr size_t kLine = 64;
// A tile of at least this many tokens computes so long between two loads that the hardware prefetcher stops, so it
// prefetches in software; with fewer tokens software prefetching is slower. (Three tokens as two and one: half as fast
// from memory.)
constexpr int kFetchingTokens = 3;
constexpr size_t kAhead = 8 << 10;
// With fewer tokens the hardware prefetches, but stops at the end of a page and starts slowly on the next. Prefetching
// one line of every kStartingStep bytes, kStartingAhead ahead, makes it start early; more lines would stop it entirely.
constexpr size_t kStartingStep = 2 << 10, kStartingAhead = 16 << 10;
// An input larger than this does not stay in the L1 cache beside the weights that stream through it. With few tokens
// each group's input is then prefetched: cache misses there would disturb the hardware's prefetching of weights.
constexpr size_t kSmallInput = 6 << 10;

// Calls multiply.operator()<n>(tile) for every unit and every tile of tokens. A unit comes from memory for its first
// tile and from the cache for the others; the last tile prefetches the next unit.
template <class V, int kTokens, class Multiply>
[[gnu::always_inline]] inline void for_tiles(const PackedUnits& units, const Tokens<void>& tokens, size_t group_bytes,
                                             Multiply&& multiply) {
  const size_t unit_bytes = units.n_groups * group_bytes;
  for (size_t u = 0; u < units.n_units; u++) {
    const char* unit = static_cast<const char*>(units.data) + u * unit_bytes;
    Tile tile = {unit, units.n_groups, 0, tokens.first_row + u * V::kRows, 0};
    const auto left = [&] { return tokens.n - tile.t; };
    const bool is_last = u + 1 == units.n_units;
    for (; left() >= kTokens; tile.t += kTokens) {
      tile.ahead = tile.t == 0 ? kAhead : left() < 2 * kTokens && !is_last ? unit_bytes : 0;
      multiply.template operator()<kTokens>(tile);
    }
    tile.ahead = tile.t == 0 ? kAhead : 0;
    if (kTokens > 4 && left() >= 4) multiply.template operator()<4>(tile), tile.t += 4;
    if (left() == 3) multiply.template operator()<3>(tile), tile.t += 3;
    if (left() >= 2) multiply.template operator()<2>(tile), tile.t += 2;
    if (left() >= 1) multiply.template operator()<1>(tile);
  }
}

template <int s, class V, class Format>
[[gnu::always_inline]] inline void codes_of(Codes<V>& codes, const Format& group) {
  if constexpr (Format::kShared == 1) {
    group.template codes<s>(codes);
  } else {
    for (int v = 0; v < 8; v++) codes[v] = Format::template code<s>(group.template load<s>(v));
  }
}

// Blocks that share words, from the first-th on: each word is unpacked once for all of these blocks and all tokens.
template <int first, class V, int n, class Format>
[[gnu::always_inline]] inline void add_blocks_together(typename V::Float (&sums)[n], const Format& group,
                                                       const QuantBlock* const (&in)[n], size_t block_0) {
  typename V::Int dots[Format::kShared][n][2];
  // Calls body.operator()<b, s>() for block s, the b-th of them.
  const auto each_block = [](auto&& body) __attribute__((always_inline)) {
    unrolled<Format::kShared>(
        [&]<int b>() __attribute__((always_inline)) { body.template operator()<b, Format::block(first + b)>(); });
  };
  each_block([&]<int b, int s>() __attribute__((always_inline)) {
    using Terms = decltype(group.template terms<s>());
    for (int i = 0; i < n; i++) Terms::start(dots[b][i], in[i][block_0 + s]);
  });
  unrolled<8>([&]<int v>() __attribute__((always_inline)) {
    const auto loaded = group.template load<Format::block(first)>(v);
    const CodeWords<V> words = {V::held(loaded.low), V::held(loaded.high)};
    each_block([&]<int b, int s>() __attribute__((always_inline)) {
      const auto code = Format::template code<s>(words);
      for (int i = 0; i < n; i++) {
        dots[b][i][v / 4] = V::dot(dots[b][i][v / 4], code, in[i][block_0 + s].q + 4 * v);
      }
    });
  });
  each_block([&]<int b, int s>() __attribute__((always_inline)) {
    const auto terms = group.template terms<s>();
    for (int i = 0; i < n; i++) sums[i] = terms.finish(sums[i], dots[b][i], in[i][block_0 + s]);
  });
}

// Makes the hardware prefetch what follows the n bytes at `at`.
[[gnu::always_inline]] inline void start_fetching(const char* at, size_t n) {
  const auto first = (reinterpret_cast<uintptr_t>(at) + kStartingStep - 1) / kStartingStep * kStartingStep;
  for (uintptr_t to = first; to < reinterpret_cast<uintptr_t>(at) + n; to += kStartingStep) {
    _mm_prefetch(reinterpret_cast<const char*>(to + kStartingAhead), _MM_HINT_T1);
  }
}

template <class Format, class V, int n>
[[gnu::always_inline]] inline void multiply_unit(const Tile& tile, const Tokens<void>& tokens) {
  const QuantBlock* in[n];
  typename V::Float sums[n];
  for (int i = 0; i < n; i++) {
    in[i] = static_cast<const QuantBlock*>(tokens.in[tile.t + i]);
    sums[i] = V::zero();
  }
  constexpr bool kTogether = Format::kShared > 1 && 2 * n * Format::kShared <= V::kMostDots;
  constexpr int n_steps = kTogether ? Format::kBlocks / Format::kShared : Format::kBlocks;
  const bool is_wide = tile.n_groups * Format::kBlocks * sizeof(QuantBlock) > kSmallInput;
  for (size_t g = 0; g < tile.n_groups; g++) {
    const Format group{{tile.unit + g * Format::kGroupBytes}};
    if constexpr (n >= kFetchingTokens) {
      for (size_t b = 0; b < Format::kGroupBytes; b += kLine) tile.fetch_ahead(group.at + b);
    } else {
      start_fetching(group.at, Format::kGroupBytes);
    }
    if (n < kFetchingTokens && is_wide) {
      for (int i = 0; i < n; i++) {
        const auto* next = reinterpret_cast<const char*>(in[i] + (g + 1) * Format::kBlocks);
        for (size_t b = 0; b < Format::kBlocks * sizeof(QuantBlock); b += kLine) _mm_prefetch(next + b, _MM_HINT_T0);
      }
    }
    unrolled<n_steps>([&]<int step>() __attribute__((always_inline)) {
      if constexpr (kTogether) {
        add_blocks_together<step * Format::kShared, V>(sums, group, in, g * Format::kBlocks);
      } else {
        constexpr int s = Format::block(step);
        Codes<V> codes;
        codes_of<s, V>(codes, group);
        const auto terms = group.template terms<s>();
        for (int i = 0; i < n; i++) {
          const QuantBlock& block = in[i][g * Format::kBlocks + s];
          sums[i] = V::add_to(sums[i], terms, codes, block);
        }
      }
    });
  }
  for (int i = 0; i < n; i++) V::store(tokens.out[tile.t + i] + tile.out_row, sums[i]);
}

template <class Format, class V, int n>
[[gnu::noinline]] void multiply_unit_apart(const Tile& tile, const Tokens<void>& tokens) {
  multiply_unit<Format, V, n>(tile, tokens);
}

// Where registers allow, the largest tile is inlined into the loop over units, which makes short rows 5 % faster. All
// others are separate functions.
template <template <class> class FormatOf, class V>
void packed_matmul(const PackedUnits& units, const Tokens<void>& tokens) {
  using Format = FormatOf<V>;
  const auto multiply = [&]<int n>(const Tile& tile) __attribute__((always_inline)) {
    if constexpr (n == V::kInlinedTokens) {
      multiply_unit<Format, V, n>(tile, tokens);
    } else {
      multiply_unit_apart<Format, V, n>(tile, tokens);
    }
  };
  for_tiles<V, Format::kTokens>(units, tokens, Format::kGroupBytes, multiply);
}

// ---- Packing ----

// Packs the rows of a unit from the file's layout: a transposition of words, in square blocks.
template <DType kDType, class V>
void pack(void* unit, const void* rows, size_t n_groups) {
  using C = Cut<V, kDType>;
  constexpr size_t kHead = C::kCut.head_bytes, kTail = C::kCut.tail_bytes, n_words = C::kCut.n_words;
  const size_t row_bytes = n_groups * C::kBlockBytes;
  for (size_t g = 0; g < n_groups; g++) {
    char* to = static_cast<char*>(unit) + g * C::kGroupBytes;
    const char* from = static_cast<const char*>(rows) + g * C::kBlockBytes;
    constexpr size_t kSquares = n_words / 8 * 8;
    for (size_t w = 0; w < kSquares; w += 8) {
      for (size_t r = 0; r < V::kRows; r += 8) {
        transpose_square(from + r * row_bytes + kHead + 4 * w, row_bytes, [&](size_t i, __m256i words) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + C::kWordsAt + C::kWords.at[w + i] + 4 * r), words);
        });
      }
    }
    for (size_t r = 0; r < V::kRows; r++) {
      const char* block = from + r * row_bytes;
      __builtin_memcpy(to + r * kHead, block, kHead);
      for (size_t w = kSquares; w < n_words; w++) {
        __builtin_memcpy(to + C::kWordsAt + C::kWords.at[w] + 4 * r, block + kHead + 4 * w, 4);
      }
      __builtin_memcpy(to + C::kTailAt + r * kTail, block + kHead + 4 * n_words, kTail);
    }
  }
}

template <template <class> class FormatOf, class V>
constexpr PackedFormat packed_format_of() {
  constexpr DType kDType = FormatOf<V>::dtype;
  return {static_cast<uint32_t>(kDType), V::kRows, InputForm::blocks, pack<kDType, V>, packed_matmul<FormatOf, V>};
}

}  // namespace
}  // namespace rocmforge::cpu
