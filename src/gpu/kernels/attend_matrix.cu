// Attention row by row, by matrix instructions. A wave takes a tile of positions at a time, the waves of a block take
// tiles in turn. Keys and values go from memory into registers in the order the instructions want them, once for all
// heads of the block; the next keys are on their way while values are multiplied, and the first keys and values before
// the queries are there.

#include "gpu/runtime.h"

#include "gpu/fragment/mma_heads.h"
#include "gpu/kernels/attend_matrix.h"
#include "gpu/kernels/attend_split.h"

namespace rocmforge::gpu::RF_KERNELS {

template <uint32_t kHeadSize>
struct MatrixAttention {
  using F = MmaHeads;
  using Shared = AttendShared<F::kHeads, kHeadSize>;
  static constexpr uint32_t kKeyBlocks = kHeadSize / 32, kValueBlocks = kHeadSize / 64;
  static constexpr uint32_t kParts = kHeadSize <= 128 ? 2 : 1;  // of a tile: all that registers hold
  static constexpr uint32_t kTile = kParts * F::kPositions;
  static constexpr uint32_t kStride = kAttendWaves * kTile;  // positions of the block at a time
  static_assert(kChunkStep % kTile == 0 && kPagePositions % kTile == 0 && kMinChunkPositions >= kStride);
  static_assert(F::kHeads == kMatrixHeads);

  const AttendArgs& args;
  const BlockHeads heads;
  const RowChunks chunks;
  const uint32_t* pages;  // of the row
  uint32_t width;
  uint32_t held = 0, first_held = 1u << 31;  // pages of the row, one a lane, from this one on; none yet
  uint32_t page = 0;                         // of the tile whose keys are next
  bool has_keys = false, has_values = false;
  Word4 queries[kKeyBlocks];
  Word4 keys[kParts][kKeyBlocks][2], values[kParts][kValueBlocks][4];
  F::C sums[kValueBlocks][4];
  float largest[2], total[2];  // of the two heads this lane has scores of; totals of its own positions

  RF_DEVICE MatrixAttention(const AttendArgs& all, uint32_t row)
      : args(all),
        heads(all, F::kHeads),
        chunks(all, row),
        pages(all.batch.pages + all.batch.first_page[row]),
        width(all.n_kv_heads * all.head_size) {}

  RF_DEVICE void load_queries() {
    const uint32_t h = F::query_head();
    const float* q = args.q + (static_cast<uint64_t>(block_x()) * args.n_heads + heads.first + h) * args.head_size;
    RF_UNROLL
    for (uint32_t b = 0; b < kKeyBlocks; b++) {
      const uint32_t d = b * 32 + F::key_element();
      queries[b] = {};
      if (h >= heads.n || d >= args.head_size) continue;
      RF_UNROLL
      for (uint32_t i = 0; i < 2; i++) {
        const Float4 four = float4_at(q + d + 4 * i);
        queries[b].v[2 * i] = F::both(four.v[0] * args.scale, four.v[1] * args.scale);
        queries[b].v[2 * i + 1] = F::both(four.v[2] * args.scale, four.v[3] * args.scale);
      }
    }
  }

  // To read one where it is needed would take as long as what is on its way from memory already.
  RF_DEVICE void find_page(uint32_t tile) {
    const uint32_t at = tile / kPagePositions;
    if (at - first_held >= kWave) {
      const uint32_t last = (chunks.end - 1) / kPagePositions;
      first_held = at;
      held = pages[at + lane() < last ? at + lane() : last];
    }
    page = shuffle(held, at - first_held);
  }
  // A position that is not there is read as the last that is.
  RF_DEVICE const F16* cached(uint32_t position, uint32_t end) const {
    const uint32_t at = position < end ? position : end - 1;
    return static_cast<const F16*>(args.cache) +
           (static_cast<uint64_t>(page) * 2 * kPagePositions + at % kPagePositions) * width +
           heads.kv_head * args.head_size;
  }
  RF_DEVICE void load_keys(uint32_t tile, uint32_t end) {
    RF_UNROLL
    for (uint32_t i = 0; i < 2 * kParts; i++) {
      const F16* at = cached(tile + i / 2 * F::kPositions + F::key_position(i % 2), end) + F::key_element();
      RF_UNROLL
      for (uint32_t b = 0; b < kKeyBlocks; b++) {
        Word4& eight = keys[i / 2][b][i % 2];
        eight = {};
        if (b * 32 + F::key_element() < args.head_size) eight = load16(at + b * 32);
      }
    }
  }
  RF_DEVICE void load_values(uint32_t tile, uint32_t end) {
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * kParts; i++) {
      const F16* at = cached(tile + i / 4 * F::kPositions + F::value_position(i % 4), end) +
                      static_cast<uint64_t>(kPagePositions) * width + F::value_element();
      RF_UNROLL
      for (uint32_t b = 0; b < kValueBlocks; b++) {
        Word4& eight = values[i / 4][b][i % 4];
        eight = {};
        if (b * 64 + F::value_element() < args.head_size) eight = load16(at + b * 64);
      }
    }
  }

  RF_DEVICE void look_ahead(Span span, uint32_t settled) {
    const uint32_t tile = span.first + wave() * kTile;
    if (tile >= span.end) return;
    find_page(tile);
    if (tile + kTile <= settled) load_first(tile, span.end);
  }
  RF_DEVICE void begin(Span span) {
    const uint32_t tile = span.first + wave() * kTile;
    if (!has_keys && tile < span.end) load_first(tile, span.end);
  }
  RF_DEVICE void load_first(uint32_t tile, uint32_t end) {
    has_keys = true;
    load_keys(tile, end);
    if (kParts == 1) return;
    has_values = true;
    load_values(tile, end);
  }

  // begin(span) was called, or this one's `after`.
  RF_DEVICE void attend(Span span, Span after) {
    RF_UNROLL
    for (uint32_t b = 0; b < kValueBlocks; b++) {
      RF_UNROLL
      for (uint32_t m = 0; m < 4; m++) sums[b][m] = {};
    }
    largest[0] = largest[1] = kLowest;
    total[0] = total[1] = 0;
    for (uint32_t tile = span.first + wave() * kTile; tile < span.end; tile += kStride) {
      if (!has_values) load_values(tile, span.end);
      has_values = false;
      const bool is_last = tile + kStride >= span.end;
      const uint32_t next = is_last ? after.first + wave() * kTile : tile + kStride;
      const uint32_t end = is_last ? after.end : span.end;
      const bool goes_on = next < end;
      if (goes_on) find_page(next);
      F::C scores[kParts] = {};
      RF_UNROLL
      for (uint32_t b = 0; b < kKeyBlocks; b++) {
        RF_UNROLL
        for (uint32_t i = 0; i < kParts; i++) F::multiply_keys(scores[i], keys[i][b], queries[b]);
      }
      if (goes_on) load_keys(next, end);
      to_weights(scores, tile, span.end);
      RF_UNROLL
      for (uint32_t i = 0; i < kParts; i++) {
        const F::B weights = F::turned(scores[i]);
        RF_UNROLL
        for (uint32_t b = 0; b < kValueBlocks; b++) F::multiply_values(sums[b], values[i][b], weights);
      }
      if (goes_on && kParts > 1) {
        load_values(next, end);
        has_values = true;
      }
    }
  }

  // A step of the running softmax.
  RF_DEVICE void to_weights(F::C* scores, uint32_t tile, uint32_t end) {
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
        seen[p][i / 2] = position >= chunks.first && position < end;
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
      total[h] *= keep[h];
    }
    RF_UNROLL
    for (uint32_t p = 0; p < kParts; p++) {
      RF_UNROLL
      for (uint32_t i = 0; i < 4; i++) {
        scores[p].v[i] = exp_f32(seen[p][i / 2] ? scores[p].v[i] - next[i % 2] : kLowest);
        total[i % 2] += scores[p].v[i];
      }
    }
    RF_UNROLL
    for (uint32_t b = 0; b < kValueBlocks; b++) {
      RF_UNROLL
      for (uint32_t m = 0; m < 4; m++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4; i++) sums[b][m].v[i] *= keep[i % 2];
      }
    }
  }

  RF_DEVICE void leave(Shared& shared) {
    RF_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
      for (uint32_t mask = 4; mask < 32; mask *= 2) total[h] += shuffle_xor(total[h], mask);
      const uint32_t head = F::column(h);
      if (head >= heads.n) continue;
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

RF_KERNEL_EARLY(attend_matrix_64, AttendArgs, kAttendThreads) {
  attend_row<MatrixAttention<64>>(args);
}
RF_KERNEL_EARLY(attend_matrix_128, AttendArgs, kAttendThreads) {
  attend_row<MatrixAttention<128>>(args);
}
RF_KERNEL_EARLY(attend_matrix_256, AttendArgs, kAttendThreads) {
  attend_row<MatrixAttention<256>>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
