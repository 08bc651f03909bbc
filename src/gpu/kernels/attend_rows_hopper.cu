// Attention of many rows on Hopper (kernels/attend_rows_hopper.h).
//
// Each wave copies the keys and values of its tiles into its own slots of shared memory, in order of use, and starts on
// those of the block's next item while it still multiplies this one's. So memory stays busy while waves synchronise at
// the end of a chunk and, for positions that earlier passes stored, before the queries are available.
//
// A position's 16-byte chunks are swizzled in a slot so that eight lanes that read together use different banks: two
// positions with four chunks each (keys), or every other one of eight with two (values).

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/attend_rows_hopper.h"
#include "gpu/kernels/attend_wave.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace attend_rows {

// A block's items and the batch's data for their rows, loaded 32 at a time, one per lane: a lookup at the point of use
// would wait as long as the loads already in flight.
class Items {
 public:
  RF_DEVICE explicit Items(const AttendRowsArgs& all) : args_(all) { look_up(0); }

  RF_DEVICE bool has(uint32_t k) {
    if (k - first_ >= kWave) look_up(k);
    return number(k) < n_items();
  }
  // REQUIRES: has(k) was asked last
  RF_DEVICE uint32_t row(uint32_t k) const { return shuffle(place_.row, k - first_); }
  RF_DEVICE BlockHeads heads(uint32_t k) const {
    BlockHeads heads = heads_;
    heads.first = shuffle(heads_.first, k - first_);
    heads.n = shuffle(heads_.n, k - first_);
    heads.kv_head = shuffle(heads_.kv_head, k - first_);
    return heads;
  }
  RF_DEVICE uint32_t first_page(uint32_t k) const { return shuffle(place_.first_page, k - first_); }
  RF_DEVICE uint32_t n_together(uint32_t k) const { return shuffle(place_.n_together, k - first_); }
  // Empty if another kernel computes the row.
  RF_DEVICE RowChunks chunks(uint32_t k) const {
    RowChunks chunks(shuffle(place_.position, k - first_), args_.attend.window, args_.attend.chunk);
    if (args_.attend.min_tiled_rows != 0 && n_together(k) >= args_.attend.min_tiled_rows) chunks.n = 0;
    return chunks;
  }

 private:
  RF_DEVICE uint32_t n_items() const { return args_.n_rows * args_.n_head_blocks; }
  // Back and forth: the longest rows come first, and a block that gets one of them gets a short one next.
  RF_DEVICE static uint32_t number(uint32_t k) {
    return k * gridDim.x + (k % 2 == 0 ? block_x() : gridDim.x - 1 - block_x());
  }
  RF_DEVICE void look_up(uint32_t k) {
    first_ = k;
    const uint32_t i = number(k + lane());
    if (i >= n_items()) return;
    place_ = args_.attend.batch.by_position[i / args_.n_head_blocks];
    heads_ = BlockHeads(args_.attend, kMatrixHeads, i % args_.n_head_blocks);
  }

  const AttendRowsArgs& args_;
  uint32_t first_;
  RowPlace place_{};
  BlockHeads heads_{};
};

// Copies of the keys and values of a wave's tiles into its slots.
template <uint32_t kHeadSize>
class Coming {
  using Wave = WaveAttention<kHeadSize>;
  static constexpr uint32_t kTile = Wave::kTile, kPieces = kHeadSize / 8, kRowBytes = kHeadSize * 2;

 public:
  RF_DEVICE Coming(const AttendRowsArgs& all, const Items& items, uint32_t slots)
      : args_(all), items_(items), slots_(slots), width_(all.attend.n_kv_heads * all.attend.head_size) {
    begin_item();
    find_tile();
  }

  // The swizzle of the chunks of a position of a tile.
  RF_DEVICE static uint32_t turn_of_keys(uint32_t p) { return p % 2 * 4; }
  RF_DEVICE static uint32_t turn_of_values(uint32_t p) { return p / 2 % 4 * 2; }
  // The address of a chunk in a slot.
  RF_DEVICE static uint32_t place(uint32_t p, uint32_t piece, uint32_t turn) {
    return p * kRowBytes + (piece ^ turn) * 16;
  }

  // Whether earlier passes stored the next tile.
  RF_DEVICE bool is_settled() const { return has_item_ && tile_ + kTile <= settled_; }

  // Fetches the next keys, or the values that belong to them. A commit of copies, empty past the end.
  RF_DEVICE void fetch(uint32_t slot) {
    if (has_item_) {
      copy(slots_ + slot * kTile * kRowBytes);
      if (values_ != 0) {
        tile_ += Wave::kStride;
        find_tile();
      }
      values_ ^= 1;
    }
    commit_copies();
  }

 private:
  RF_DEVICE void begin_item() {
    has_item_ = items_.has(item_);
    if (!has_item_) return;
    chunks_ = items_.chunks(item_);
    chunk_ = 0;
    const uint32_t n_together = items_.n_together(item_);
    settled_ = n_together < chunks_.end ? chunks_.end - n_together : 0;
    head_ = items_.heads(item_).kv_head * args_.attend.head_size;
    pages_ = args_.attend.batch.pages + items_.first_page(item_);
    begin_chunk();
    hold_pages(tile_ / kPagePositions);
  }
  RF_DEVICE void begin_chunk() {
    const Span span = chunks_.span(chunk_);
    end_ = span.end;
    tile_ = span.first + wave() * kTile;
  }
  // Advances to the next tile that exists.
  RF_DEVICE void find_tile() {
    while (has_item_ && tile_ >= end_) {
      if (++chunk_ < chunks_.n) {
        begin_chunk();
      } else {
        item_++;
        begin_item();
      }
    }
  }
  RF_DEVICE void hold_pages(uint32_t from) {
    const uint32_t last = (chunks_.end - 1) / kPagePositions;
    first_held_ = from;
    held_ = pages_[from + lane() < last ? from + lane() : last];
  }

  RF_DEVICE void copy(uint32_t to) {
    const uint32_t at = tile_ / kPagePositions;
    if (at - first_held_ >= kWave) hold_pages(at);
    const uint64_t page = shuffle(held_, at - first_held_);
    constexpr uint32_t kAtOnce = kWave / kPieces;  // positions
    const uint32_t first = lane() / kPieces, piece = lane() % kPieces;
    const auto* from = static_cast<const uint16_t*>(args_.attend.cache) +
                       ((page * 2 + values_) * kPagePositions + tile_ % kPagePositions + first) * width_ + head_ +
                       piece * 8;
    // Positions and elements that do not exist become zeros.
    const uint32_t n_there = piece * 8 >= args_.attend.head_size ? 0 : end_ - tile_;
    RF_UNROLL
    for (uint32_t p = 0; p < kTile; p += kAtOnce) {
      const uint32_t turn = values_ != 0 ? turn_of_values(first + p) : turn_of_keys(first + p);
      copy16_or_zeros(to + place(first + p, piece, turn), from + p * width_, first + p < n_there);
    }
  }

  const AttendRowsArgs& args_;
  Items items_;
  uint32_t slots_, width_;
  uint32_t item_ = 0, chunk_ = 0, tile_ = 0, end_ = 0;  // `end` of the chunk
  uint32_t values_ = 0;                                 // 1: values are next
  bool has_item_ = false;
  RowChunks chunks_{0, 0};
  uint32_t settled_ = 0, head_ = 0;
  const uint32_t* pages_ = nullptr;
  uint32_t held_ = 0, first_held_ = 0;  // pages of the row, one a lane, from this one on
};

template <uint32_t kHeadSize>
class Attention {
  using Wave = WaveAttention<kHeadSize>;
  using F = typename Wave::F;
  using Shared = typename Wave::Shared;
  static constexpr uint32_t kSlotBytes = attend_rows_slot_bytes(kHeadSize);
  static constexpr uint32_t kRingBytes = attend_rows_ring_bytes(kHeadSize);
  static constexpr uint32_t kWords = F::kHeads * kHeadSize / 4 / kAttendThreads;  // of a thread, at most
  static constexpr uint32_t kPerTile = Wave::kParts * kHeadSize / 16;             // words of 16 bytes of a lane
  static_assert(kRingBytes + sizeof(Shared) <= attend_rows_shared_bytes(kHeadSize));
  static_assert(kSlotBytes == Wave::kTile * kHeadSize * 2);

 public:
  RF_DEVICE Attention(const AttendRowsArgs& all, uint8_t* shared)
      : args_(all.attend),
        items_(all),
        shared_(*reinterpret_cast<Shared*>(shared + kRingBytes)),
        slots_(shared + wave() * kAttendRowsSlots * kSlotBytes),
        coming_(all, items_, shared_address(slots_)),
        wave_(all.attend) {}

  RF_DEVICE void run() {
    bool has_waited = false;
#pragma unroll 1
    for (uint32_t slot = 0; slot < kAttendRowsSlots; slot++) {
      if (!has_waited && !coming_.is_settled()) {
        wait_for_inputs();
        has_waited = true;
      }
      coming_.fetch(slot);
    }
    if (!has_waited) wait_for_inputs();
#pragma unroll 1
    for (uint32_t k = 0; items_.has(k); k++) {
      const RowChunks chunks = items_.chunks(k);
      if (chunks.n != 0) attend(items_.row(k), items_.heads(k), chunks);
    }
  }

 private:
  RF_DEVICE void attend(uint32_t row, const BlockHeads& heads, const RowChunks& chunks) {
    const uint32_t n_words = heads.n * (args_.head_size / 4);
    Found all[kWords];
    wave_.load_queries(row, heads);
#pragma unroll 1
    for (uint32_t c = 0; c < chunks.n; c++) {
      const Span span = chunks.span(c);
      wave_.begin_chunk();
#pragma unroll 1
      for (uint32_t tile = span.first + wave() * Wave::kTile; tile < span.end; tile += Wave::kStride) {
        take_tile(tile, {chunks.first, span.end});
      }
      sync_block();  // the previous chunk has been read
      wave_.leave(shared_, heads.n);
      sync_block();
      each_word(n_words, [&](uint32_t i, const HeadWord& word) { all[i].add(of_waves(shared_, word)); });
    }
    each_word(n_words,
              [&](uint32_t i, const HeadWord& word) { put_out(args_, row, heads.first + word.head, word.d, all[i]); });
  }
  template <class Do>
  RF_DEVICE void each_word(uint32_t n, const Do& with) const {
    RF_UNROLL
    for (uint32_t i = 0; i < kWords; i++) {
      const uint32_t index = thread_index() + i * kAttendThreads;
      if (index < n) with(i, HeadWord(args_, index));
    }
  }

  RF_DEVICE void take_tile(uint32_t tile, Span seen) {
    typename F::C scores[Wave::kParts] = {};
    // One copy of this code for both cases, so that it stays in the instruction cache.
#pragma unroll 1
    for (uint32_t are_values = 0; are_values < 2; are_values++) {
      wait_for_copies<kAttendRowsSlots - 1>();
      __syncwarp();
      Word4 words[kPerTile];
      if (are_values == 0) {
        read_keys(words);
      } else {
        read_values(words);
      }
      __syncwarp();  // the slot has been read
      coming_.fetch(slot_);
      slot_ = slot_ + 1 == kAttendRowsSlots ? 0 : slot_ + 1;
      if (are_values == 0) {
        RF_UNROLL
        for (uint32_t i = 0; i < kPerTile / 2; i++) {
          const uint32_t b = i / Wave::kParts, part = i % Wave::kParts;
          F::multiply_keys(scores[part], words + (part * Wave::kKeyBlocks + b) * 2, wave_.queries[b]);
        }
        wave_.to_weights(scores, tile, seen);
      } else {
        RF_UNROLL
        for (uint32_t part = 0; part < Wave::kParts; part++) {
          const typename F::B weights = F::turned(scores[part]);
          RF_UNROLL
          for (uint32_t b = 0; b < Wave::kValueBlocks; b++) {
            F::multiply_values(wave_.sums[b], words + (part * Wave::kValueBlocks + b) * 4, weights);
          }
        }
      }
    }
  }
  RF_DEVICE void read_keys(Word4* words) const {
    using C = Coming<kHeadSize>;
    RF_UNROLL
    for (uint32_t i = 0; i < kPerTile; i++) {
      const uint32_t b = i / 2 % Wave::kKeyBlocks, part = i / 2 / Wave::kKeyBlocks;
      const uint32_t p = part * F::kPositions + F::key_position(i % 2);
      words[i] = word(C::place(p, b * 4 + F::key_element() / 8, C::turn_of_keys(F::key_position(0))));
    }
  }
  RF_DEVICE void read_values(Word4* words) const {
    using C = Coming<kHeadSize>;
    RF_UNROLL
    for (uint32_t i = 0; i < kPerTile; i++) {
      const uint32_t b = i / 4 % Wave::kValueBlocks, part = i / 4 / Wave::kValueBlocks;
      const uint32_t p = part * F::kPositions + F::value_position(i % 4);
      words[i] = word(C::place(p, b * 8 + F::value_element() / 8, C::turn_of_values(F::value_position(0))));
    }
  }
  RF_DEVICE const Word4& word(uint32_t at) const {
    return *reinterpret_cast<const Word4*>(slots_ + slot_ * kSlotBytes + at);
  }

  const AttendArgs& args_;
  Items items_;
  Shared& shared_;
  const uint8_t* slots_;
  uint32_t slot_ = 0;
  Coming<kHeadSize> coming_;
  Wave wave_;
};

}  // namespace attend_rows

template <uint32_t kHeadSize>
RF_DEVICE void attend_rows_of(const AttendRowsArgs& args) {
  RF_DYNAMIC_SHARED(uint8_t, shared);
  let_next_begin();
  attend_rows::Attention<kHeadSize>(args, shared).run();
}

#else

template <uint32_t kHeadSize>
RF_DEVICE void attend_rows_of(const AttendRowsArgs&) {}

#endif

RF_HOPPER_KERNEL_EARLY(attend_rows_64, AttendRowsArgs, kAttendThreads) {
  attend_rows_of<64>(args);
}
RF_HOPPER_KERNEL_EARLY(attend_rows_128, AttendRowsArgs, kAttendThreads) {
  attend_rows_of<128>(args);
}

}  // namespace rocmforge::gpu::RF_KERNELS
