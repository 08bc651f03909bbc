// Attention row by row with matrix instructions. The waves of a block take tiles of positions in a round robin. Keys
// and values go from memory into registers in the order that the instructions require, once for all heads of the block.
// The next keys are loaded while values are multiplied, and the first keys and values before the queries are available.

#include "gpu/runtime.h"

#include "gpu/kernels/attend_matrix.h"
#include "gpu/kernels/attend_split.h"
#include "gpu/kernels/attend_wave.h"

namespace rocmforge::gpu::RF_KERNELS {

template <uint32_t kHeadSize>
struct MatrixAttention : WaveAttention<kHeadSize> {
  using Base = WaveAttention<kHeadSize>;
  using F = typename Base::F;
  using Base::args, Base::queries;
  using Base::kKeyBlocks, Base::kValueBlocks, Base::kParts, Base::kTile, Base::kStride;

  const BlockHeads heads;
  const RowChunks chunks;
  const uint32_t* pages;  // of the row
  uint32_t width;
  uint32_t held = 0, first_held = 1u << 31;  // pages of the row, one a lane, from this one on; none yet
  uint32_t page = 0;                         // of the tile whose keys are next
  bool has_keys = false, has_values = false;
  Word4 keys[kParts][kKeyBlocks][2], values[kParts][kValueBlocks][4];

  RF_DEVICE MatrixAttention(const AttendArgs& all, uint32_t row)
      : Base(all),
        heads(all, F::kHeads, block_y()),
        chunks(all, row),
        pages(all.batch.pages + all.batch.first_page[row]),
        width(all.n_kv_heads * all.head_size) {}

  RF_DEVICE void load_queries() { Base::load_queries(block_x(), heads); }
  RF_DEVICE void leave(typename Base::Shared& shared) { Base::leave(shared, heads.n); }

  // Loaded ahead: a lookup at the point of use would take as long as the loads already in flight.
  RF_DEVICE void find_page(uint32_t tile) {
    const uint32_t at = tile / kPagePositions;
    if (at - first_held >= kWave) {
      const uint32_t last = (chunks.end - 1) / kPagePositions;
      first_held = at;
      held = pages[at + lane() < last ? at + lane() : last];
    }
    page = shuffle(held, at - first_held);
  }
  // A position past the end is read as the last one.
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

  // REQUIRES: begin(span) was called, or attend() with this span as `after`
  RF_DEVICE void attend(Span span, Span after) {
    Base::begin_chunk();
    for (uint32_t tile = span.first + wave() * kTile; tile < span.end; tile += kStride) {
      if (!has_values) load_values(tile, span.end);
      has_values = false;
      const bool is_last = tile + kStride >= span.end;
      const uint32_t next = is_last ? after.first + wave() * kTile : tile + kStride;
      const uint32_t end = is_last ? after.end : span.end;
      const bool goes_on = next < end;
      if (goes_on) find_page(next);
      typename F::C scores[kParts] = {};
      RF_UNROLL
      for (uint32_t b = 0; b < kKeyBlocks; b++) {
        RF_UNROLL
        for (uint32_t i = 0; i < kParts; i++) F::multiply_keys(scores[i], keys[i][b], queries[b]);
      }
      if (goes_on) load_keys(next, end);
      Base::to_weights(scores, tile, {chunks.first, span.end});
      RF_UNROLL
      for (uint32_t i = 0; i < kParts; i++) {
        const typename F::B weights = F::turned(scores[i]);
        RF_UNROLL
        for (uint32_t b = 0; b < kValueBlocks; b++) F::multiply_values(Base::sums[b], values[i][b], weights);
      }
      if (goes_on && kParts > 1) {
        load_values(next, end);
        has_values = true;
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
