// Attention of a tile of rows, page by page of the cache.
//
// A block processes sixteen rows per wave, and one query head. For each page of 64 positions: keys into shared memory,
// scores = queries x keys by fragments, a step of the online softmax by the lanes of each row, values into shared
// memory (transposed, so that positions run along k), sums = rescaled sums + weights x values.
//
// Rows of a tile may belong to several sequences; the sequences are processed one after the other, with rows of others
// masked. Queries that exceed the range of halves are scaled down, row by row (kernels/row_scale.h), and their scores
// scaled up.

#include "gpu/runtime.h"

#include "gpu/fragment/fragment.h"
#include "gpu/kernels/attend_share.h"
#include "gpu/kernels/attend_tiles.h"
#include "gpu/kernels/row_scale.h"

namespace rocmforge::gpu::RF_KERNELS {

constexpr uint32_t kTileWaves = kAttendTilesThreads / kWave;
// Weights are at most 1; as halves they are this many times as large. Hardware may take the smallest halves, the
// subnormal ones, for zeros (gfx90a does), and many small weights can matter.
constexpr float kWeightScale = 16384.0f;
constexpr float kNoScore = -3.402823466e38f;  // finite: differences stay numbers

template <uint32_t kHead>
struct AttendTile {
  static constexpr uint32_t kKeyStride = kHead + 8, kPositionStride = kPagePositions + 8;
  static constexpr uint32_t kKeys = kPagePositions * kKeyStride, kValues = kHead * kPositionStride,
                            kQueries = 16 * kTileWaves * kKeyStride;
  alignas(16) uint16_t cached[kKeys > kValues ? kKeys : kValues];  // also the queries, at first
  alignas(16) uint16_t weights[kTileWaves][16][kPositionStride];
  float scores[kTileWaves][16][kPagePositions + 1];
  float keep[kTileWaves][16];
  uint32_t overflows;          // whether a query needs a scale
  float undo[kTileWaves][16];  // then what scores of a row are multiplied by
  static_assert(kQueries <= kKeys);
};

RF_DEVICE void put_eight(void* to, const Word4& halves) {
  *static_cast<Word4*>(to) = halves;
}

// The softmax state of a row, in each lane that holds part of the row.
struct RunningRow {
  uint32_t first, position;  // it sees those between them, both included
  bool is_mine;              // belongs to the sequence that is being processed
  float largest, total;
};

template <uint32_t kHead, bool kHasAlibi>
RF_DEVICE void attend_rows(AttendTile<kHead>& tile, const AttendTilesArgs& tile_args, uint32_t begin, uint32_t end) {
  using F = Fragment<F16>;
  using T = AttendTile<kHead>;
  const AttendArgs& args = tile_args.attend;
  constexpr uint32_t kRowLanes = kWave / 16, kRowColumns = kPagePositions / kRowLanes;
  constexpr uint32_t kChunks = kHead / 8;  // of eight elements, in a row
  const uint32_t first_row = block_x() * kTileWaves * 16, head = block_y();
  const uint32_t width = args.n_kv_heads * args.head_size;
  const uint32_t offset = head / (args.n_heads / args.n_kv_heads) * args.head_size;

  // A row's queries, times the scale of scores. Rows of other sequences are zeros.
  const auto query = [&](uint32_t row, uint32_t d) {
    const bool there = row >= begin && row < end && d < args.head_size;
    const uint64_t at = (static_cast<uint64_t>(row) * args.n_heads + head) * args.head_size + d;
    return there ? args.q[at] * args.scale : 0.0f;
  };
  const auto put_queries = [&](const auto& put) {
    for (uint32_t i = thread_index(); i < 16 * kTileWaves * kHead; i += kAttendTilesThreads) {
      const uint32_t in_tile = i / kHead, d = i % kHead;
      tile.cached[in_tile * T::kKeyStride + d] = narrow(put(in_tile, query(first_row + in_tile, d))).bits;
    }
  };
  const uint32_t my_row = lane() / kRowLanes, my_column = lane() % kRowLanes * kRowColumns;
  const uint32_t row = first_row + wave() * 16 + my_row;
  if (thread_index() == 0) tile.overflows = 0;
  sync_shared();
  put_queries([&](uint32_t, float q) {
    if (overflows_half(magnitude(q))) tile.overflows = 1;
    return q;
  });
  sync_shared();
  if (tile.overflows != 0) {
    uint32_t largest = 0;
    for (uint32_t d = lane() % kRowLanes; d < kHead; d += kRowLanes)
      largest = larger(largest, magnitude(query(row, d)));
    for (uint32_t mask = 1; mask < kRowLanes; mask *= 2) largest = larger(largest, shuffle_xor(largest, mask));
    const float scale = scale_for_halves(largest);
    if (lane() % kRowLanes == 0) {
      tile.keep[wave()][my_row] = scale;
      tile.undo[wave()][my_row] = undo_scale(scale);
    }
    sync_shared();
    put_queries([&](uint32_t in_tile, float q) { return q * tile.keep[in_tile / 16][in_tile % 16]; });
    sync_shared();
  }
  typename F::A queries[kHead / 16];
  RF_UNROLL
  for (uint32_t k = 0; k < kHead / 16; k++) {
    F::load_a(queries[k], reinterpret_cast<const F16*>(&tile.cached[wave() * 16 * T::kKeyStride + k * 16]),
              T::kKeyStride);
  }

  RunningRow mine{0, 0, row >= begin && row < end, kNoScore, 0.0f};
  if (mine.is_mine) {
    mine.position = args.batch.positions[row];
    mine.first = first_seen(mine.position, args.window, args.chunk);
  }
  typename F::C sums[kHead / 16] = {};
  const float slope = kHasAlibi ? alibi_slope_of(args, head) : 0.0f;

  const uint32_t last = args.batch.positions[end - 1], earliest = args.batch.positions[begin];
  const uint32_t from = first_seen(earliest, args.window, args.chunk);
  for (uint32_t page = from / kPagePositions; page <= last / kPagePositions; page++) {
    const uint64_t at = args.batch.pages[args.batch.first_page[begin] + page];
    const auto* keys = static_cast<const uint16_t*>(args.cache) + at * 2 * kPagePositions * width + offset;
    const uint16_t* values = keys + static_cast<uint64_t>(kPagePositions) * width;
    const uint32_t n_there = last + 1 - page * kPagePositions;  // positions that have been stored
    sync_shared();                                              // queries, or the page before, have been read
    for (uint32_t i = thread_index(); i < kPagePositions * kChunks; i += kAttendTilesThreads) {
      const uint32_t p = i / kChunks, d = i % kChunks * 8;
      const bool there = p < n_there && d < args.head_size;
      Word4 eight{};
      if (there) eight = *reinterpret_cast<const Word4*>(keys + p * width + d);
      put_eight(&tile.cached[p * T::kKeyStride + d], eight);
    }
    sync_shared();
    RF_UNROLL
    for (uint32_t n = 0; n < kPagePositions / 16; n++) {
      typename F::C scores{};
      RF_UNROLL
      for (uint32_t k = 0; k < kHead / 16; k++) {
        typename F::B b;
        F::load_b(b, reinterpret_cast<const F16*>(&tile.cached[n * 16 * T::kKeyStride + k * 16]), T::kKeyStride);
        F::multiply(scores, queries[k], b);
      }
      RF_UNROLL
      for (uint32_t i = 0; i < F::kPerLane; i++) tile.scores[wave()][F::row(i)][n * 16 + F::column(i)] = scores.v[i];
    }
    sync_shared();
    if (tile.overflows != 0) {
      const float undo = tile.undo[wave()][my_row];
      for (uint32_t c = 0; c < kRowColumns; c++) tile.scores[wave()][my_row][my_column + c] *= undo;
    }

    // Loads values over the keys while the scores become weights.
    for (uint32_t i = thread_index(); i < kPagePositions * kChunks; i += kAttendTilesThreads) {
      const uint32_t p = i % kPagePositions, d = i / kPagePositions * 8;
      const bool there = p < n_there && d < args.head_size;
      Word4 eight{};
      if (there) eight = *reinterpret_cast<const Word4*>(values + p * width + d);
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) {
        tile.cached[(d + e) * T::kPositionStride + p] = static_cast<uint16_t>(eight.v[e / 2] >> e % 2 * 16);
      }
    }
    const auto score_of = [&](uint32_t c) {
      const uint32_t position = page * kPagePositions + my_column + c;
      const bool seen = mine.is_mine && position <= mine.position && position >= mine.first;
      if (!seen) return kNoScore;
      const float score = capped(tile.scores[wave()][my_row][my_column + c], args.softcap);
      return kHasAlibi ? score - slope * static_cast<float>(mine.position - position) : score;
    };
    float largest = mine.largest;
    for (uint32_t c = 0; c < kRowColumns; c++) {
      const float score = score_of(c);
      largest = score > largest ? score : largest;
    }
    for (uint32_t mask = 1; mask < kRowLanes; mask *= 2) {
      const float other = shuffle_xor(largest, mask);
      largest = other > largest ? other : largest;
    }
    float total = 0;
    for (uint32_t c = 0; c < kRowColumns; c++) {
      const float score = score_of(c);
      const float weight = score == kNoScore ? 0.0f : exp_f32(score - largest);
      total += weight;
      tile.weights[wave()][my_row][my_column + c] = narrow(weight * kWeightScale).bits;
    }
    for (uint32_t mask = 1; mask < kRowLanes; mask *= 2) total += shuffle_xor(total, mask);
    const float keep = exp_f32(mine.largest - largest);
    mine.total = mine.total * keep + total;
    mine.largest = largest;
    if (lane() % kRowLanes == 0) tile.keep[wave()][my_row] = keep;
    sync_shared();

    typename F::A weights[kPagePositions / 16];
    RF_UNROLL
    for (uint32_t k = 0; k < kPagePositions / 16; k++) {
      F::load_a(weights[k], reinterpret_cast<const F16*>(&tile.weights[wave()][0][k * 16]), T::kPositionStride);
    }
    RF_UNROLL
    for (uint32_t n = 0; n < kHead / 16; n++) {
      RF_UNROLL
      for (uint32_t i = 0; i < F::kPerLane; i++) sums[n].v[i] *= tile.keep[wave()][F::row(i)];
      RF_UNROLL
      for (uint32_t k = 0; k < kPagePositions / 16; k++) {
        typename F::B b;
        F::load_b(b, reinterpret_cast<const F16*>(&tile.cached[n * 16 * T::kPositionStride + k * 16]),
                  T::kPositionStride);
        F::multiply(sums[n], weights[k], b);
      }
    }
  }

  sync_shared();
  if (lane() % kRowLanes == 0) {
    tile.keep[wave()][my_row] =
        mine.is_mine ? share_of_total(args, head, mine.largest, mine.total) / kWeightScale : 0.0f;
  }
  sync_shared();
  RF_UNROLL
  for (uint32_t n = 0; n < kHead / 16; n++) {
    RF_UNROLL
    for (uint32_t i = 0; i < F::kPerLane; i++) {
      const uint32_t r = first_row + wave() * 16 + F::row(i), d = n * 16 + F::column(i);
      if (r < begin || r >= end || d >= args.head_size) continue;
      args.out[(static_cast<uint64_t>(r) * args.n_heads + head) * args.head_size + d] =
          sums[n].v[i] * tile.keep[wave()][F::row(i)];
    }
  }
  sync_shared();
}

template <uint32_t kHead, bool kHasAlibi>
RF_DEVICE void attend_tile(const AttendTilesArgs& args) {
  RF_SHARED(AttendTile<kHead>, tile);
  const BatchView& batch = args.attend.batch;
  const uint32_t first = block_x() * kTileWaves * 16;
  const uint32_t end = first + kTileWaves * 16 < args.n_rows ? first + kTileWaves * 16 : args.n_rows;
  for (uint32_t row = first; row < end;) {
    const uint32_t n = batch.n_together[row], past = batch.first_row[row] + n;
    const uint32_t until = past < end ? past : end;
    if (n >= kMinTiledRows) attend_rows<kHead, kHasAlibi>(tile, args, row, until);
    row = until;
  }
}

RF_KERNEL(attend_tiles_64, AttendTilesArgs, kAttendTilesThreads) {
  attend_tile<64, false>(args);
}
RF_KERNEL(attend_tiles_128, AttendTilesArgs, kAttendTilesThreads) {
  attend_tile<128, false>(args);
}
RF_KERNEL(attend_tiles_alibi_64, AttendTilesArgs, kAttendTilesThreads) {
  attend_tile<64, true>(args);
}
RF_KERNEL(attend_tiles_alibi_128, AttendTilesArgs, kAttendTilesThreads) {
  attend_tile<128, true>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
