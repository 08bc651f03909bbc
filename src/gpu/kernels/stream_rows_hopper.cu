// Quantized weights times 17 to 128 rows, on Hopper.
//
//   planes --cp.async--> ring of a warp --quants times scales as halves--> left operand --+
//                                                                                          wgmma --> sums
//   inputs --stream_many_inputs--> panels --bulk copies--> ring of the block --------------+
//
// Four warpgroups have 64 outputs each; two of them with 128 rows, whose sums take twice the registers. Either way a
// weight is decoded once for all rows. A lane's sums are of two outputs: of a gate and the matching up output where an
// activation follows. A piece of 256 columns is one chain of wgmma; its sums are multiplied by the piece's d and the
// row's scale when they are added to the total. The minima are a chain of their own ahead of it.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/kernels/stream_rows_outputs.h"
#include "gpu/kernels/strip_pieces.h"
#include "gpu/packed/exact_strips.h"
#include "gpu/packed/lists.h"
#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

template <uint32_t kRows>
inline constexpr uint32_t kRowsWarps = rows_threads(kRows) / 32;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Block, uint32_t kRows>
class Rows {
  using S = Strip<Block>;
  using Piece = StagedPiece<S>;
  using Source = typename Piece::Source;
  using W = Wgmma<kRows>;
  using Outputs = RowsOutputs<kRows>;
  using Sums = typename Outputs::Sums;
  static constexpr uint32_t kSums = Outputs::kSums;
  static constexpr StripShape kShape{Piece::kBytes, S::kScales};
  static constexpr uint32_t kStages = rows_stages(kShape, kRows), kSlots = rows_slots(kShape, kRows);
  static constexpr uint32_t kInputBytes = rows_input_bytes(kRows, S::kScales);
  static constexpr uint32_t kPlaceBytes = rows_place_bytes(kRows, S::kScales);
  static constexpr uint32_t kPanelBytes = kRows * 128;
  static constexpr uint32_t kWarps = kRowsWarps<kRows>;
  static_assert(kSlots >= 2 && kStages >= 2 && kPlaceBytes - kInputBytes >= kRows * sizeof(float));
  // The next piece is prepared while the matrix unit processes the last groups of this one; with few rows those are
  // done too soon for that.
  static constexpr bool kLooksAhead = kRows > 32;

 public:
  RF_DEVICE Rows(const RowsArgs& a, uint8_t* shared)
      : args_(a), n_pieces_(a.width / kStreamColumns), warp_(shuffle(wave(), 0)), outputs_(a, warp_) {
    places_ = (shared_address(shared) + 1023) / 1024 * 1024;
    ring_ = shared + (places_ - shared_address(shared)) + kSlots * kPlaceBytes + warp_ * kStages * Piece::kBytes;
    barriers_ = places_ + kSlots * kPlaceBytes + kWarps * kStages * Piece::kBytes;
    const uint32_t block = block_x() - a.first_block;
    first_tile_ = a.n_shares > 1 ? block / a.n_shares : block;
    const uint32_t share = a.n_shares > 1 ? block % a.n_shares : 0;
    tile_step_ = a.n_shares > 1 ? a.n_tiles : a.n_blocks;
    begin_ = n_pieces_ * share / a.n_shares;
    end_ = n_pieces_ * (share + 1) / a.n_shares;
    n_sets_ = outputs_.n_sets();
    outputs_.set_scales(barriers_ + 16 * kRowsMaxSlots, places_ + kInputBytes);  // behind the first place's inputs
  }

  RF_DEVICE void run() {
    if (thread_index() == 0) {
      for (uint32_t i = 0; i < kSlots; i++) {
        barrier::make(full_at(i), 1);
        barrier::clear(left_at(i));
      }
      outputs_.make_barrier();
      barrier::publish();
    }
    Cursor weights{first_tile_, 0, begin_}, inputs = weights;
    Source source = source_of(weights);
    for (uint32_t s = 0; s + 1 < kStages; s++) fetch(weights, source, s);
    sync_block();
    wait_for_inputs();
    for (uint32_t i = 0; i < kSlots; i++) {
      if (thread_index() == 0) bring(inputs, i);
      advance(inputs);
    }
    outputs_.find_scales();
    Place at;
    // Waits for the next piece's data, and refills the stage that the previous piece has left.
    const auto make_ready = [&] {
      wait_for_copies<kStages - 2>();
      __syncwarp();
      fetch(weights, source, at.stage == 0 ? kStages - 1 : at.stage - 1);
      barrier::wait(full_at(at.slot), at.parity);
      if constexpr (kRows == 128) at.has_ones = has_ones(at.slot);
    };
    if constexpr (kLooksAhead) make_ready();
    for (uint32_t tile = first_tile_; tile < args_.n_tiles; tile += tile_step_) {
      for (uint32_t set = 0; set < n_sets_; set++) {
        Sums total;
        RF_UNROLL
        for (uint32_t i = 0; i < kSums; i++) total[i] = 0;
        for (uint32_t piece = begin_; piece < end_; piece++) {
          if constexpr (!kLooksAhead) make_ready();
          Place now = at;
          at.advance();
          const bool is_end = piece + 1 == end_ && set + 1 == n_sets_ && tile + tile_step_ >= args_.n_tiles;
          const bool is_last = multiply(total, now, piece, [&] {
            if (kLooksAhead && !is_end) make_ready();
          });
          if (is_last) bring(inputs, now.slot);  // the last warp to leave a slot refills it
          advance(inputs);
        }
        if (args_.n_shares > 1) {
          outputs_.put_partial(total, tile, set);
        } else {
          outputs_.put(total, tile, set);
        }
      }
    }
    if (args_.n_shares > 1) outputs_.put_from_all(first_tile_);
  }

 private:
  // The addresses of a piece's inputs and weights.
  struct Place {
    uint32_t slot = 0, parity = 0, stage = 0;
    bool has_ones = false;  // the scales of all rows are 1
    RF_DEVICE void advance() {
      stage = stage + 1 == kStages ? 0 : stage + 1;
      if (++slot == kSlots) slot = 0, parity ^= 1;
    }
  };
  // Pieces in the order in which they are multiplied.
  struct Cursor {
    uint32_t tile, set, piece;
  };
  RF_DEVICE void advance(Cursor& c) const {
    if (c.tile >= args_.n_tiles) return;
    if (++c.piece < end_) return;
    c.piece = begin_;
    if (++c.set < n_sets_) return;
    c.set = 0;
    c.tile += tile_step_;
  }

  RF_DEVICE uint32_t full_at(uint32_t slot) const { return barriers_ + 16 * slot; }
  // counts warps that have left the slot
  RF_DEVICE uint32_t left_at(uint32_t slot) const { return barriers_ + 16 * slot + 8; }
  RF_DEVICE uint32_t place_at(uint32_t slot) const { return places_ + slot * kPlaceBytes; }

  // Copies the next piece of the inputs into a free slot.
  RF_DEVICE void bring(const Cursor& c, uint32_t slot) const {
    if (c.tile >= args_.n_tiles) return;
    const uint8_t* from = args_.x + (uint64_t{c.set} * n_pieces_ + c.piece) * kPlaceBytes;
    barrier::arrive_expecting(full_at(slot), kInputBytes);
    bulk_copy(place_at(slot), from, kInputBytes, full_at(slot));
  }

  RF_DEVICE uint8_t* stage_at(uint32_t stage) const { return ring_ + stage * Piece::kBytes; }
  RF_DEVICE Source source_of(const Cursor& c) const {
    const auto w = outputs_.where(c.tile);
    const Planes& first = args_.parts[w.part].w;
    return outputs_.activates() ? Piece::source(first, w.out, args_.parts[1].w, w.out, n_pieces_)
                                : Piece::source(first, w.out, first, w.out + 8, n_pieces_);
  }
  // A commit of copies, empty past the end.
  RF_DEVICE void fetch(Cursor& c, Source& source, uint32_t stage) const {
    if (c.tile < args_.n_tiles) {
      Piece::fetch(shared_address(stage_at(stage)), source, n_pieces_, c.piece);
      const uint32_t tile = c.tile;
      advance(c);
      if (c.tile != tile && c.tile < args_.n_tiles) source = source_of(c);
    }
    commit_copies();
  }

  RF_DEVICE const float* factors_at(uint32_t slot) const {
    return static_cast<const float*>(__cvta_shared_to_generic(place_at(slot) + kRows * (512 + 32 * S::kScales)));
  }
  RF_DEVICE bool has_ones(uint32_t slot) const {
    bool are_ones = true;
    RF_UNROLL
    for (uint32_t i = 0; i < kRows; i += 32) are_ones &= factors_at(slot)[i + lane()] == 1.0f;
    return __all_sync(~0u, are_ones);
  }

  // total += the product of a strip's piece. `meanwhile` runs while the matrix unit processes the rest. Returns whether
  // this is the refilling lane of the last warp to leave the slot.
  template <class Meanwhile>
  RF_DEVICE bool multiply(Sums& total, Place& at, uint32_t piece, const Meanwhile& meanwhile) const {
    using Scaled = ScaledRow<Block>;
    const uint8_t* staged = stage_at(at.stage);
    const typename S::Row plain[2] = {Piece::row(staged, 0, n_pieces_, piece), Piece::row(staged, 1, n_pieces_, piece)};
    const uint32_t place = shuffle(place_at(at.slot), 0);
    if constexpr (kRows < 128) at.has_ones = has_ones(at.slot);
    uint64_t right = wgmma::panel(place);
    Sums sums;
    multiply_bottoms(sums, plain, place + 4 * kPanelBytes);
    constexpr uint32_t kHalves = Scaled::kHalves, kRun = Scaled::kRun;
    constexpr uint32_t kBuffers = kHalves == 1 || kRows == 128 ? 2 : 1;
    uint32_t a[kBuffers][kHalves][8];
    Scaled rows[2] = {Scaled(plain[0]), Scaled(plain[1])};
    if constexpr (!Scaled::kBottomsAreAlike) {
      wgmma::wait<0>();
      settle(sums);
      add(total, sums, plain[0].lift(), plain[1].lift(), at);
    }
    // The loop is short so that it stays in the instruction cache.
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
          if (!Scaled::kBottomsAreAlike && q == 0 && i == 0) {
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
    meanwhile();
    wgmma::wait<0>();
    settle(sums);
    add(total, sums, plain[0].common(), plain[1].common(), at);
    return lane() == 0 && barrier::is_last(left_at(at.slot), kWarps);
  }
  // Multiplies the minima of a piece.
  RF_DEVICE void multiply_bottoms(Sums& sums, const typename S::Row (&rows)[2], uint32_t groups) const {
    uint32_t a[4];
    RF_UNROLL
    for (uint32_t i = 0; i < 4; i++) a[i] = ScaledRow<Block>::bottoms(rows[i % 2], i / 2);
    wgmma::fence();
    W::begin(sums, a, wgmma::plain(groups));
    if constexpr (S::kScales == 2) W::multiply(sums, a, wgmma::plain(groups + kRows * 32));
    wgmma::commit();
  }
  // The compiler assumes that the matrix unit's results are written at once: nothing may be read before the wait.
  RF_DEVICE static void settle(Sums& sums) {
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) asm volatile("" : "+f"(sums[i])::"memory");
  }
  RF_DEVICE void add(Sums& total, const Sums& sums, float first, float second, const Place& at) const {
    if (at.has_ones) {
      RF_UNROLL
      for (uint32_t i = 0; i < kSums; i++) total[i] = fmaf(i % 4 < 2 ? first : second, sums[i], total[i]);
    } else {
      const float* factors = factors_at(at.slot) + lane() % 4 * 2;
      RF_UNROLL
      for (uint32_t i = 0; i < kSums; i++) {
        // In this order: a scale may be 2^118, so the other factor must be small.
        total[i] = fmaf(i % 4 < 2 ? first : second, factors[i / 4 * 8 + i % 2] * sums[i], total[i]);
      }
      __syncwarp();  // one lane reports for all that the slot has been read
    }
  }

  const RowsArgs& args_;
  uint32_t n_pieces_, warp_;
  uint32_t places_, barriers_;
  uint8_t* ring_;
  Outputs outputs_;
  uint32_t first_tile_, tile_step_, begin_, end_, n_sets_;
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

#define RF_STREAM_ROWS_OF(name, Block, rows)                                         \
  RF_HOPPER_ALONE_EARLY(stream_rows_##name##_##rows, RowsArgs, rows_threads(rows)) { \
    touch<kRowsWarps<rows>>(args);                                                   \
    stream_rows<Block, rows>(args);                                                  \
  }
#define RF_STREAM_ROWS(name, Block)  \
  RF_STREAM_ROWS_OF(name, Block, 32) \
  RF_STREAM_ROWS_OF(name, Block, 64) \
  RF_STREAM_ROWS_OF(name, Block, 128)
RF_ROWS_FORMATS(RF_STREAM_ROWS)

// Weights of two formats that share their inputs.
#define RF_STREAM_ROWS_PAIR_OF(a, b, First, Second, rows)                                   \
  RF_HOPPER_ALONE_EARLY(stream_rows_##a##_##b##_##rows, RowsPairArgs, rows_threads(rows)) { \
    touch<kRowsWarps<rows>>(args);                                                          \
    if (block_x() < args.second.first_block) {                                              \
      stream_rows<First, rows>(args.first);                                                 \
    } else {                                                                                \
      stream_rows<Second, rows>(args.second);                                               \
    }                                                                                       \
  }
#define RF_STREAM_ROWS_PAIR(a, b, First, Second)  \
  RF_STREAM_ROWS_PAIR_OF(a, b, First, Second, 32) \
  RF_STREAM_ROWS_PAIR_OF(a, b, First, Second, 64) \
  RF_STREAM_ROWS_PAIR_OF(a, b, First, Second, 128)
RF_FORMAT_PAIRS(RF_STREAM_ROWS_PAIR)

}  // namespace rocmforge::gpu::RF_KERNELS
