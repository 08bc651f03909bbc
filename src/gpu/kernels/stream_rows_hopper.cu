// Quantized weights times 17 to 128 rows, on Hopper.
//
//   planes --cp.async--> ring of a warp --levels times scales as halves--> left operand --+
//                                                                                          wgmma --> sums
//   inputs --stream_many_inputs--> panels --bulk copies--> ring of the block --------------+
//
// Four warpgroups have 64 outputs each. A lane's sums are of two outputs; of a gate and its partner where an activation
// follows. A piece of 256 columns is one chain of wgmma, whose sums get the piece's d, and its row's factor, when they
// are added to the total; what levels lack (their minimum) is a chain of its own ahead of it.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_after.h"
#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/kernels/strip_pieces.h"
#include "gpu/packed/exact_strips.h"
#include "gpu/packed/lists.h"
#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace global {
RF_DEVICE uint32_t add_released(uint32_t* at, uint32_t n) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(n) : "memory");
  return before;
}
RF_DEVICE uint32_t acquired(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
RF_DEVICE float load(const float* at) {  // what other blocks wrote
  float value;
  asm volatile("ld.relaxed.gpu.f32 %0, [%1];" : "=f"(value) : "l"(at) : "memory");
  return value;
}
}  // namespace global

template <class Block, uint32_t kRows>
class Rows {
  using S = Strip<Block>;
  using Piece = StagedPiece<S>;
  using Source = typename Piece::Source;
  using W = Wgmma<kRows>;
  static constexpr uint32_t kSums = kRows / 2;  // of a lane
  using Sums = float[kSums];                    // [4n + e]: row 8n + 2t + e % 2, output g + e / 2 * 8
  static constexpr StripShape kShape{Piece::kBytes, S::kScales};
  static constexpr uint32_t kStages = kRowsStages, kSlots = rows_slots(kShape, kRows);
  static constexpr uint32_t kPlaceBytes = rows_place_bytes(kRows, S::kScales);
  static constexpr uint32_t kPanelBytes = kRows * 128;
  static constexpr uint32_t kWarps = kRowsThreads / 32;
  static_assert(kSlots >= 2);

 public:
  RF_DEVICE Rows(const RowsArgs& a, uint8_t* shared)
      : args_(a), n_pieces_(a.width / kStreamColumns), warp_(shuffle(wave(), 0)) {
    places_ = (shared_address(shared) + 1023) / 1024 * 1024;
    ring_ = shared + (places_ - shared_address(shared)) + kSlots * kPlaceBytes + warp_ * kStages * Piece::kBytes;
    barriers_ = places_ + kSlots * kPlaceBytes + kWarps * kStages * Piece::kBytes;
    const uint32_t block = block_x() - a.first_block;
    first_tile_ = a.n_shares > 1 ? block / a.n_shares : block;
    share_ = a.n_shares > 1 ? block % a.n_shares : 0;
    tile_step_ = a.n_shares > 1 ? a.n_tiles : a.n_blocks;
    begin_ = n_pieces_ * share_ / a.n_shares;
    end_ = n_pieces_ * (share_ + 1) / a.n_shares;
    n_sets_ = (a.n_rows + kRows - 1) / kRows;
  }

  RF_DEVICE void run() {
    if (thread_index() == 0) {
      for (uint32_t i = 0; i < kSlots; i++) {
        barrier::make(full_at(i), 1);
        barrier::make(empty_at(i), kWarps);
      }
      barrier::publish();
    }
    sync_block();
    Cursor weights{first_tile_, 0, begin_}, inputs = weights;
    Source source = source_of(first_tile_);
    for (uint32_t s = 0; s + 1 < kStages; s++) fetch(weights, source, s);
    wait_for_inputs();
    if (thread_index() == 0) {
      for (uint32_t i = 0; i < kSlots; i++) bring(inputs, i);
    }
    uint32_t slot = 0, parity = 0, stage = 0;
    bool is_first = true;
    for (uint32_t tile = first_tile_; tile < args_.n_tiles; tile += tile_step_) {
      for (uint32_t set = 0; set < n_sets_; set++) {
        Sums total;
        RF_UNROLL
        for (uint32_t i = 0; i < kSums; i++) total[i] = 0;
        for (uint32_t piece = begin_; piece < end_; piece++) {
          ring::wait<kStages - 2>();
          __syncwarp();
          fetch(weights, source, stage == 0 ? kStages - 1 : stage - 1);
          barrier::wait(full_at(slot), parity);
          multiply(total, slot, stage, piece);
          stage = stage + 1 == kStages ? 0 : stage + 1;
          if (lane() == 0) barrier::arrive(empty_at(slot));
          // The slot before this one: the other warpgroups are done with it, too, or will be soon.
          if (thread_index() == 0 && !is_first) {
            const uint32_t before = slot == 0 ? kSlots - 1 : slot - 1;
            barrier::wait(empty_at(before), slot == 0 ? parity ^ 1 : parity);
            bring(inputs, before);
          }
          is_first = false;
          if (++slot == kSlots) slot = 0, parity ^= 1;
        }
        if (args_.n_shares > 1) {
          put_partial(total, tile, set);
          put_from_all(tile, set);
        } else {
          put(total, tile, set);
        }
      }
    }
  }

 private:
  struct Where {
    uint32_t part, out;
    bool is_there;
  };
  // Pieces in the order in which they are multiplied.
  struct Cursor {
    uint32_t tile, set, piece;
  };
  RF_DEVICE void advance(Cursor& c) const {
    if (++c.piece < end_) return;
    c.piece = begin_;
    if (++c.set < n_sets_) return;
    c.set = 0;
    c.tile += tile_step_;
  }

  RF_DEVICE uint32_t full_at(uint32_t slot) const { return barriers_ + 16 * slot; }
  RF_DEVICE uint32_t empty_at(uint32_t slot) const { return barriers_ + 16 * slot + 8; }
  RF_DEVICE uint32_t place_at(uint32_t slot) const { return places_ + slot * kPlaceBytes; }
  RF_DEVICE bool activates() const { return args_.after != StreamAfter::store; }

  // The next piece of the inputs goes into a slot that is free.
  RF_DEVICE void bring(Cursor& c, uint32_t slot) const {
    if (c.tile >= args_.n_tiles) return;
    const uint8_t* from = args_.x + (uint64_t{c.set} * n_pieces_ + c.piece) * kPlaceBytes;
    barrier::arrive_expecting(full_at(slot), kPlaceBytes);
    bulk_copy(place_at(slot), from, kPlaceBytes, full_at(slot));
    advance(c);
  }

  // This warp's sixteen outputs of a tile: two times eight that lie together, or eight of a gate and of its partner.
  RF_DEVICE Where where(uint32_t tile) const {
    Where w{0, kStreamOutputs * (kWarps * tile + warp_), true};
    if (activates()) {
      w.out /= 2;
    } else {
      while (w.part + 1 < args_.n_parts && w.out >= args_.parts[w.part].n_out) w.out -= args_.parts[w.part++].n_out;
    }
    w.is_there = w.out < args_.parts[w.part].n_out;
    if (!w.is_there) w.out = 0;
    return w;
  }

  RF_DEVICE uint8_t* stage_at(uint32_t stage) const { return ring_ + stage * Piece::kBytes; }
  RF_DEVICE Source source_of(uint32_t tile) const {
    const Where w = where(tile);
    const Planes& first = args_.parts[w.part].w;
    return activates() ? Piece::source(first, w.out, args_.parts[1].w, w.out, n_pieces_)
                       : Piece::source(first, w.out, first, w.out + 8, n_pieces_);
  }
  // A commit of copies, empty past the end.
  RF_DEVICE void fetch(Cursor& c, Source& source, uint32_t stage) const {
    if (c.tile < args_.n_tiles) {
      Piece::fetch(shared_address(stage_at(stage)), source, n_pieces_, c.piece);
      const uint32_t tile = c.tile;
      advance(c);
      if (c.tile != tile && c.tile < args_.n_tiles) source = source_of(c.tile);
    }
    ring::commit();
  }

  // total += the product of a strip's piece.
  RF_DEVICE void multiply(Sums& total, uint32_t slot, uint32_t stage, uint32_t piece) const {
    const uint8_t* staged = stage_at(stage);
    const typename S::Row plain[2] = {Piece::row(staged, 0, n_pieces_, piece), Piece::row(staged, 1, n_pieces_, piece)};
    const uint32_t place = shuffle(place_at(slot), 0);
    uint64_t right = wgmma::panel(place);
    const auto* factors = static_cast<const float*>(__cvta_shared_to_generic(place + kRows * (512 + 32 * S::kScales)));
    const bool are_ones =
        __all_sync(~0u, lane() >= kRows / 2 || (factors[2 * lane()] == 1.0f && factors[2 * lane() + 1] == 1.0f));
    Sums sums;
    if constexpr (S::kBottoms) {
      const uint32_t a[4] = {plain[0].bottoms(0), plain[1].bottoms(0), plain[0].bottoms(S::kScales - 1),
                             plain[1].bottoms(S::kScales - 1)};
      wgmma::fence();
      W::begin(sums, a, wgmma::plain(place + 4 * kPanelBytes));
      if constexpr (S::kScales == 2) W::multiply(sums, a, wgmma::plain(place + 4 * kPanelBytes + kRows * 32));
      wgmma::commit();
    } else {
      RF_UNROLL
      for (uint32_t i = 0; i < kSums; i++) sums[i] = 0;
    }
    ScaledRow<Block> rows[2] = {ScaledRow<Block>(plain[0]), ScaledRow<Block>(plain[1])};
    if constexpr (S::kBottoms) {
      wgmma::wait<0>();
      settle(sums);
      add(total, sums, plain[0].lift(), plain[1].lift(), factors, are_ones);
    }
    // The loop is short so that it stays where instructions come from fastest.
    constexpr uint32_t kHalves = ScaledRow<Block>::kHalves, kRun = ScaledRow<Block>::kRun;
    constexpr uint32_t kBuffers = kHalves == 1 ? 2 : 1;
    uint32_t a[kBuffers][kHalves][8];
#pragma unroll 1
    for (uint32_t run = 0; run < 8 / kRun; run++) {
      RF_UNROLL
      for (uint32_t q = 0; q < kRun; q++) {
        auto& left = a[q % kBuffers];
        wgmma::wait<kBuffers - 1>();  // until these registers have been read
        rows[0].decode(q, [&](uint32_t h, uint32_t k, uint32_t pair) { left[h][k * 2] = pair; });
        rows[1].decode(q, [&](uint32_t h, uint32_t k, uint32_t pair) { left[h][k * 2 + 1] = pair; });
        wgmma::fence();
        RF_UNROLL
        for (uint32_t i = 0; i < 2 * kHalves; i++) {
          const uint64_t b = wgmma::further(right, q / 2 * kPanelBytes + q % 2 * 64 + i % 2 * 32);
          if (q == 0 && i == 0) {
            W::multiply_or_begin(sums, left[0], b, static_cast<int>(run));
          } else {
            W::multiply(sums, left[i / 2] + i % 2 * 4, b);
          }
        }
        wgmma::commit();
      }
      right = wgmma::further(right, kRun / 2 * kPanelBytes);
      rows[0].next();
      rows[1].next();
    }
    wgmma::wait<0>();
    settle(sums);
    add(total, sums, plain[0].common(), plain[1].common(), factors, are_ones);
  }
  // The compiler takes what the matrix unit writes for written at once: nothing may be read ahead of the wait.
  RF_DEVICE static void settle(Sums& sums) {
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) asm volatile("" : "+f"(sums[i])::"memory");
  }
  RF_DEVICE static void add(Sums& total, const Sums& sums, float first, float second, const float* factors,
                            bool are_ones) {
    if (are_ones) {
      RF_UNROLL
      for (uint32_t i = 0; i < kSums; i++) total[i] = fmaf(i % 4 < 2 ? first : second, sums[i], total[i]);
    } else {
      RF_UNROLL
      for (uint32_t i = 0; i < kSums; i++) {
        total[i] = fmaf(factors[i / 4 * 8 + lane() % 4 * 2 + i % 2] * (i % 4 < 2 ? first : second), sums[i], total[i]);
      }
    }
  }

  RF_DEVICE void put(const Sums& total, uint32_t tile, uint32_t set) const {
    const Where w = where(tile);
    if (!w.is_there) return;
    const MatvecPart& part = args_.parts[w.part];
    const MatvecPart& other = activates() ? args_.parts[1] : part;
    const uint32_t at = w.out + lane() / 4, other_at = activates() ? at : at + 8;
    const float bias = part.bias != nullptr ? part.bias[at] : 0.0f;
    const float other_bias = other.bias != nullptr ? other.bias[other_at] : 0.0f;
    RF_UNROLL
    for (uint32_t i = 0; i < kSums / 2; i++) {
      const uint32_t row = set * kRows + i / 2 * 8 + lane() % 4 * 2 + i % 2;
      if (row >= args_.n_rows) continue;
      const uint64_t begin = uint64_t{row} * part.n_out, place = begin + at, other_place = begin + other_at;
      const float first = total[i / 2 * 4 + i % 2] + bias, second = total[i / 2 * 4 + 2 + i % 2] + other_bias;
      part.out[place] = first;
      other.out[other_place] = second;
      if (activates()) {
        args_.activated[place] = activated(args_.after, first, second);
      } else if (args_.sum != nullptr) {
        args_.sum[place] += args_.sum_scale * first;
        args_.sum[other_place] += args_.sum_scale * second;
      }
    }
  }

  // Sums of this block's share: row by row, the tile's outputs as its warps have them.
  RF_DEVICE float* partial_of(uint32_t tile, uint32_t share, uint32_t set) const {
    const uint64_t n = uint64_t{set} * args_.n_tiles + tile;
    return args_.partial + (n * args_.n_shares + share) * kRowsTileSums;
  }
  RF_DEVICE void put_partial(const Sums& total, uint32_t tile, uint32_t set) const {
    float* to = partial_of(tile, share_, set) + warp_ * kStreamOutputs + lane() / 4;
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) {
      const uint32_t row = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      to[row * kRowsOutputs + i / 2 % 2 * 8] = total[i];
    }
  }
  // The blocks of a tile meet, then each adds up some rows.
  RF_DEVICE void put_from_all(uint32_t tile, uint32_t set) const {
    uint32_t *here = args_.counters + 2 * tile, *done = here + 1;
    __threadfence();
    sync_block();
    if (thread_index() == 0) {
      global::add_released(here, 1);
      while (global::acquired(here) < args_.n_shares * (set + 1)) {
      }
    }
    sync_block();
    put_share(tile, set);
    if (set + 1 == n_sets_ && thread_index() == 0 && global::add_released(done, 1) == args_.n_shares - 1) {
      *here = *done = 0;
    }
  }
  // Every n_shares-th row, each of them by 256 threads.
  RF_DEVICE void put_share(uint32_t tile, uint32_t set) const {
    const uint32_t within = thread_index() % kRowsOutputs;
    uint32_t part = 0, at = tile * kRowsOutputs + within;
    if (activates()) {
      if (within / 8 % 2 == 1) return;  // a partner
      at = (tile * kRowsOutputs + within / 16 * 16) / 2 + within % 8;
    } else {
      while (part + 1 < args_.n_parts && at >= args_.parts[part].n_out) at -= args_.parts[part++].n_out;
    }
    if (at >= args_.parts[part].n_out) return;
    const uint32_t left = args_.n_rows - set * kRows, n = left < kRows ? left : kRows;
    const float* from = partial_of(tile, 0, set) + within;
    for (uint32_t row = share_ + args_.n_shares * (thread_index() / kRowsOutputs); row < n;
         row += kRowsThreads / kRowsOutputs * args_.n_shares) {
      put_output(args_, args_.parts[part], set * kRows + row, at, [&](uint32_t other) {
        float sum = 0;
        for (uint32_t k = 0; k < args_.n_shares; k++) {
          sum += global::load(from + k * kRowsTileSums + row * kRowsOutputs + other * 8);
        }
        return sum;
      });
    }
  }

  const RowsArgs& args_;
  uint32_t n_pieces_, warp_;
  uint32_t places_, barriers_;
  uint8_t* ring_;
  uint32_t first_tile_, tile_step_, share_, begin_, end_, n_sets_;
};

template <class Block, uint32_t kRows>
RF_DEVICE void stream_rows(const RowsArgs& args) {
  RF_DYNAMIC_SHARED(uint8_t, shared);
  let_next_begin();
  Rows<Block, kRows>(args, shared).run();
}

#else

template <class Block, uint32_t kRows>
RF_DEVICE void stream_rows(const RowsArgs&) {}

#endif

#define RF_STREAM_ROWS_OF(name, Block, rows)                                   \
  RF_HOPPER_ALONE_EARLY(stream_rows_##name##_##rows, RowsArgs, kRowsThreads) { \
    stream_rows<Block, rows>(args);                                            \
  }
#define RF_STREAM_ROWS(name, Block)  \
  RF_STREAM_ROWS_OF(name, Block, 32) \
  RF_STREAM_ROWS_OF(name, Block, 64)
RF_STREAM_ROWS(q4_k, formats::Q4K)
RF_STREAM_ROWS(q5_k, formats::Q5K)
RF_STREAM_ROWS(q6_k, formats::Q6K)

// Weights of two formats that share their inputs.
#define RF_STREAM_ROWS_PAIR_OF(name, First, Second, rows)                          \
  RF_HOPPER_ALONE_EARLY(stream_rows_##name##_##rows, RowsPairArgs, kRowsThreads) { \
    if (block_x() < args.second.first_block) {                                     \
      stream_rows<First, rows>(args.first);                                        \
    } else {                                                                       \
      stream_rows<Second, rows>(args.second);                                      \
    }                                                                              \
  }
#define RF_STREAM_ROWS_PAIR(name, First, Second)  \
  RF_STREAM_ROWS_PAIR_OF(name, First, Second, 32) \
  RF_STREAM_ROWS_PAIR_OF(name, First, Second, 64)
RF_STREAM_ROWS_PAIR(q4_k_q6_k, formats::Q4K, formats::Q6K)
RF_STREAM_ROWS_PAIR(q5_k_q6_k, formats::Q5K, formats::Q6K)

}  // namespace rocmforge::gpu::RF_KERNELS
