#pragma once
// Attention row by row with matrix instructions: a wave's work on a tile of positions whose keys and values are in its
// registers. Kernels differ in how they load them.

#include "gpu/fragment/mma_heads.h"
#include "gpu/kernels/attend_matrix.h"
#include "gpu/kernels/attend_split.h"
#include "gpu/kernels/row_scale.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

template <uint32_t kHeadSize>
struct WaveAttention {
  using F = MmaHeads;
  using Shared = AttendShared<F::kHeads, kHeadSize>;
  static constexpr uint32_t kKeyBlocks = kHeadSize / 32, kValueBlocks = kHeadSize / 64;
  // tiles are loaded in this many parts: all that registers hold
  static constexpr uint32_t kParts = kHeadSize <= 128 ? 2 : 1;
  static constexpr uint32_t kTile = kParts * F::kPositions;
  static constexpr uint32_t kStride = kAttendWaves * kTile;  // positions that the block processes at a time
  static_assert(kChunkStep % kTile == 0 && kPagePositions % kTile == 0 && kMinChunkPositions >= kStride);
  static_assert(F::kHeads == kMatrixHeads);

  const AttendArgs& args;
  Word4 queries[kKeyBlocks];
  F::C sums[kValueBlocks][4];
  float largest[2], total[2];  // for the two heads of this lane's scores; totals of its own positions only
  bool is_scaled;              // the queries of a head were scaled down to fit halves (kernels/row_scale.h)
  float undo[2];               // factors that undo this on the scores of the two heads

  RF_DEVICE explicit WaveAttention(const AttendArgs& all) : args(all) {}

  // Issues all of a lane's loads before the first value is used.
  RF_DEVICE void load_queries(uint32_t row, const BlockHeads& heads) {
    const uint32_t h = F::query_head();
    const float* q = args.q + (static_cast<uint64_t>(row) * args.n_heads + heads.first + h) * args.head_size;
    Float4 raw[kKeyBlocks][2] = {};
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * kKeyBlocks; i++) {
      const uint32_t d = i / 2 * 32 + F::key_element();
      if (h < heads.n && d < args.head_size) raw[i / 2][i % 2] = float4_at(q + d + i % 2 * 4);
    }
    uint32_t most = 0;
    RF_UNROLL
    for (uint32_t i = 0; i < 8 * kKeyBlocks; i++) {
      float& v = raw[i / 8][i / 4 % 2].v[i % 4];
      v *= args.scale;
      most = larger(most, magnitude(v));
    }
    is_scaled = ballot(overflows_half(most)) != 0;
    if (is_scaled) scale_queries(raw, most);
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * kKeyBlocks; i++) {
      const float* four = raw[i / 2][i % 2].v;
      uint32_t* to = queries[i / 2].v + i % 2 * 2;
      to[0] = F::both(four[0], four[1]);
      to[1] = F::both(four[2], four[3]);
    }
  }
  // most: the largest magnitude among this lane's elements. Four lanes share a head.
  RF_DEVICE void scale_queries(Float4 (&raw)[kKeyBlocks][2], uint32_t most) {
    for (uint32_t mask = 1; mask < 4; mask *= 2) most = larger(most, shuffle_xor(most, mask));
    const float scale = scale_for_halves(most);
    RF_UNROLL
    for (uint32_t i = 0; i < 8 * kKeyBlocks; i++) raw[i / 8][i / 4 % 2].v[i % 4] *= scale;
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) undo[h] = undo_scale(shuffle(scale, F::column(h) * 4));
  }

  RF_DEVICE void begin_chunk() {
    RF_UNROLL
    for (uint32_t b = 0; b < kValueBlocks; b++) {
      RF_UNROLL
      for (uint32_t m = 0; m < 4; m++) sums[b][m] = {};
    }
    largest[0] = largest[1] = kLowest;
    total[0] = total[1] = 0;
  }

  // A step of the online softmax.
  RF_DEVICE void to_weights(F::C* scores, uint32_t tile, Span span) {
    if (is_scaled) {
      RF_UNROLL
      for (uint32_t p = 0; p < kParts; p++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) scores[p].v[i] *= undo[i % 2];
      }
    }
    if (args.softcap != 0) {
      RF_UNROLL
      for (uint32_t p = 0; p < kParts; p++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) scores[p].v[i] = capped(scores[p].v[i], args.softcap);
      }
    }
    bool seen[kParts][2];
    float next[2] = {largest[0], largest[1]}, keep[2];
    RF_UNROLL
    for (uint32_t p = 0; p < kParts; p++) {
      RF_UNROLL
      for (uint32_t i = 0; i < 4; i++) {
        const uint32_t position = tile + p * F::kPositions + F::row(i);
        seen[p][i / 2] = position >= span.first && position < span.end;
        if (seen[p][i / 2] && scores[p].v[i] > next[i % 2]) next[i % 2] = scores[p].v[i];
      }
    }
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
      RF_UNROLL
      for (uint32_t mask = 4; mask < 32; mask *= 2) {
        const float other = shuffle_xor(next[h], mask);
        next[h] = other > next[h] ? other : next[h];
      }
      keep[h] = exp_f32(largest[h] - next[h]);
      largest[h] = next[h];
    }
    float added[2] = {};
    RF_UNROLL
    for (uint32_t p = 0; p < kParts; p++) {
      RF_UNROLL
      for (uint32_t i = 0; i < 4; i++) {
        scores[p].v[i] = exp_f32(seen[p][i / 2] ? scores[p].v[i] - next[i % 2] : kLowest);
        added[i % 2] += scores[p].v[i];
      }
    }
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) total[h] = fma_f32(total[h], keep[h], added[h]);
    RF_UNROLL
    for (uint32_t b = 0; b < kValueBlocks; b++) {
      RF_UNROLL
      for (uint32_t m = 0; m < 4; m++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) sums[b][m].v[i] *= keep[i % 2];
      }
    }
  }

  RF_DEVICE void leave(Shared& shared, uint32_t n_heads) {
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
      for (uint32_t mask = 4; mask < 32; mask *= 2) total[h] += shuffle_xor(total[h], mask);
      const uint32_t head = F::column(h);
      if (head >= n_heads) continue;
      if (lane() / 4 == 0) {
        shared.largest[wave()][head] = largest[h];
        shared.total[wave()][head] = total[h];
      }
      RF_UNROLL
      for (uint32_t b = 0; b < kValueBlocks; b++) {
        float* to = &shared.sums[wave()][head][b * 64 + F::value_element()];
        Float4 eight[2];
        RF_UNROLL
        for (uint32_t m = 0; m < 4; m++) {
          RF_UNROLL
          for (uint32_t i = h; i < 4; i += 2) eight[F::element(m, i) / 4].v[F::element(m, i) % 4] = sums[b][m].v[i];
        }
        *reinterpret_cast<Float4*>(to) = eight[0];
        *reinterpret_cast<Float4*>(to + 4) = eight[1];
      }
    }
  }
};

}  // namespace rocmforge::gpu::RF_KERNELS
