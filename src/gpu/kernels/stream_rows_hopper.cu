// Quantized weights times 17 to 128 rows, on Hopper.
//
//   planes --cp.async--> ring of a warp --levels times scales as halves--> left operand --+
//                                                                                          wgmma --> sums
//   inputs --stream_many_inputs--> panels --bulk copies--> ring of the block --------------+
//
// Four warpgroups have 64 outputs each; or two of them where there are 128 rows, whose sums take twice the registers,
// so that a weight is decoded once for all. A lane's sums are of two outputs; of a gate and its partner where an
// activation follows. A piece of 256 columns is one chain of wgmma, whose sums get the piece's d, and its row's factor,
// when they are added to the total; what levels lack (their minimum) is a chain of its own ahead of it.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_after.h"
#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/kernels/strip_pieces.h"
#include "gpu/kernels/turn.h"
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
RF_DEVICE float4 load4(const float* at) {  // what other blocks wrote, past this one's first cache
  return __ldcg(reinterpret_cast<const float4*>(at));
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
  static constexpr uint32_t kStages = rows_stages(kShape, kRows), kSlots = rows_slots(kShape, kRows);
  static constexpr uint32_t kPlaceBytes = rows_place_bytes(kRows, S::kScales);
  static constexpr uint32_t kPanelBytes = kRows * 128;
  static constexpr uint32_t kThreads = rows_threads(kRows), kWarps = kThreads / 32;
  static constexpr uint32_t kOutputs = rows_pass_outputs(kRows), kParts = kRowsOutputs / kOutputs;  // of a tile
  static_assert(kSlots >= 2 && kStages >= 2);

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
    n_passes_ = (a.n_rows + kRows - 1) / kRows * kParts;
  }

  RF_DEVICE void run() {
    if (thread_index() == 0) {
      for (uint32_t i = 0; i < kSlots; i++) {
        barrier::make(full_at(i), 1);
        barrier::clear(left_at(i));
      }
      barrier::publish();
    }
    sync_block();
    Cursor weights{first_tile_, 0, begin_}, inputs = weights;
    Source source = source_of(weights);
    for (uint32_t s = 0; s + 1 < kStages; s++) fetch(weights, source, s);
    wait_for_inputs();
    for (uint32_t i = 0; i < kSlots; i++) {
      if (thread_index() == 0) bring(inputs, i);
      advance(inputs);
    }
    uint32_t slot = 0, parity = 0, stage = 0;
    for (uint32_t tile = first_tile_; tile < args_.n_tiles; tile += tile_step_) {
      for (uint32_t pass = 0; pass < n_passes_; pass++) {
        Sums total;
        RF_UNROLL
        for (uint32_t i = 0; i < kSums; i++) total[i] = 0;
        for (uint32_t piece = begin_; piece < end_; piece++) {
          wait_for_copies<kStages - 2>();
          __syncwarp();
          fetch(weights, source, stage == 0 ? kStages - 1 : stage - 1);
          barrier::wait(full_at(slot), parity);
          multiply(total, slot, stage, piece);
          stage = stage + 1 == kStages ? 0 : stage + 1;
          // The last warp that leaves a slot fills it again.
          if (lane() == 0 && barrier::is_last(left_at(slot), kWarps)) bring(inputs, slot);
          advance(inputs);
          if (++slot == kSlots) slot = 0, parity ^= 1;
        }
        if (args_.n_shares > 1) {
          put_partial(total, tile, pass);
        } else {
          put(total, tile, pass);
        }
      }
    }
    if (args_.n_shares > 1) put_from_all(first_tile_);
  }

 private:
  struct Where {
    uint32_t part, out;
    bool is_there;
  };
  // Pieces in the order in which they are multiplied.
  struct Cursor {
    uint32_t tile, pass, piece;
  };
  RF_DEVICE void advance(Cursor& c) const {
    if (c.tile >= args_.n_tiles) return;
    if (++c.piece < end_) return;
    c.piece = begin_;
    if (++c.pass < n_passes_) return;
    c.pass = 0;
    c.tile += tile_step_;
  }

  RF_DEVICE uint32_t full_at(uint32_t slot) const { return barriers_ + 16 * slot; }
  RF_DEVICE uint32_t left_at(uint32_t slot) const { return barriers_ + 16 * slot + 8; }  // how many warps have
  RF_DEVICE uint32_t place_at(uint32_t slot) const { return places_ + slot * kPlaceBytes; }
  RF_DEVICE static uint32_t set_of(uint32_t pass) { return pass / kParts; }
  // The first of a pass, in the order of all tiles.
  RF_DEVICE static uint32_t output_of(uint32_t tile, uint32_t pass) {
    return tile * kRowsOutputs + pass % kParts * kOutputs;
  }
  RF_DEVICE bool activates() const { return args_.after != StreamAfter::store; }

  // The next piece of the inputs goes into a slot that is free.
  RF_DEVICE void bring(const Cursor& c, uint32_t slot) const {
    if (c.tile >= args_.n_tiles) return;
    const uint8_t* from = args_.x + (uint64_t{set_of(c.pass)} * n_pieces_ + c.piece) * kPlaceBytes;
    barrier::arrive_expecting(full_at(slot), kPlaceBytes);
    bulk_copy(place_at(slot), from, kPlaceBytes, full_at(slot));
  }

  // This warp's sixteen outputs of a pass: two times eight that lie together, or eight of a gate and of its partner.
  RF_DEVICE Where where(uint32_t tile, uint32_t pass) const {
    Where w{0, output_of(tile, pass) + kStreamOutputs * warp_, true};
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
  RF_DEVICE Source source_of(const Cursor& c) const {
    const Where w = where(c.tile, c.pass);
    const Planes& first = args_.parts[w.part].w;
    return activates() ? Piece::source(first, w.out, args_.parts[1].w, w.out, n_pieces_)
                       : Piece::source(first, w.out, first, w.out + 8, n_pieces_);
  }
  // A commit of copies, empty past the end.
  RF_DEVICE void fetch(Cursor& c, Source& source, uint32_t stage) const {
    if (c.tile < args_.n_tiles) {
      Piece::fetch(shared_address(stage_at(stage)), source, n_pieces_, c.piece);
      const uint32_t tile = c.tile, part = c.pass % kParts;
      advance(c);
      if ((c.tile != tile || c.pass % kParts != part) && c.tile < args_.n_tiles) source = source_of(c);
    }
    commit_copies();
  }

  // total += the product of a strip's piece.
  RF_DEVICE void multiply(Sums& total, uint32_t slot, uint32_t stage, uint32_t piece) const {
    const uint8_t* staged = stage_at(stage);
    const typename S::Row plain[2] = {Piece::row(staged, 0, n_pieces_, piece), Piece::row(staged, 1, n_pieces_, piece)};
    const uint32_t place = shuffle(place_at(slot), 0);
    uint64_t right = wgmma::panel(place);
    const auto* factors = static_cast<const float*>(__cvta_shared_to_generic(place + kRows * (512 + 32 * S::kScales)));
    bool are_ones = true;
    RF_UNROLL
    for (uint32_t i = 0; i < kRows; i += 32) are_ones &= factors[i + lane()] == 1.0f;
    are_ones = __all_sync(~0u, are_ones);
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
    constexpr uint32_t kBuffers = kHalves == 1 || kRows == 128 ? 2 : 1;
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

  // This lane's rows of a pass: put(i, place) with the place of the row's outputs; its sums are total[i] and the one
  // two further on.
  template <class Put>
  RF_DEVICE void each_row(uint32_t pass, uint32_t n_out, const Put& put_row) const {
    const uint32_t first = set_of(pass) * kRows + lane() % 4 * 2;
    uint64_t place = uint64_t{first} * n_out;
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i += 4) {
      if (first + 2 * i < args_.n_rows) put_row(i, place);
      if (first + 2 * i + 1 < args_.n_rows) put_row(i + 1, place + n_out);
      place += uint64_t{8} * n_out;
    }
  }
  RF_DEVICE void put(const Sums& total, uint32_t tile, uint32_t pass) const {
    const Where w = where(tile, pass);
    if (!w.is_there) return;
    const MatvecPart& part = args_.parts[w.part];
    const MatvecPart& other = activates() ? args_.parts[1] : part;
    const uint32_t at = w.out + lane() / 4, other_at = activates() ? at : at + 8;
    const float bias = part.bias != nullptr ? part.bias[at] : 0.0f;
    const float other_bias = other.bias != nullptr ? other.bias[other_at] : 0.0f;
    if (part.out != nullptr) {
      each_row(pass, part.n_out, [&](uint32_t i, uint64_t place) {
        part.out[place + at] = total[i] + bias;
        other.out[place + other_at] = total[i + 2] + other_bias;
      });
    }
    if (args_.sum != nullptr) {
      each_row(pass, part.n_out, [&](uint32_t i, uint64_t place) {
        args_.sum[place + at] += args_.sum_scale * (total[i] + bias);
        args_.sum[place + other_at] += args_.sum_scale * (total[i + 2] + other_bias);
      });
    }
    with_activation(args_.after, [&](const auto& activate) {
      each_row(pass, part.n_out, [&](uint32_t i, uint64_t place) {
        args_.activated[place + at] = activate(total[i] + bias, total[i + 2] + other_bias);
      });
    });
  }

  // Sums of this block's share: row by row, the pass's outputs as its warps have them.
  RF_DEVICE float* partial_of(uint32_t tile, uint32_t share, uint32_t pass) const {
    const uint64_t n = uint64_t{pass} * args_.n_tiles + tile;
    return args_.partial + (n * args_.n_shares + share) * kRowsPassSums;
  }
  RF_DEVICE void put_partial(const Sums& total, uint32_t tile, uint32_t pass) const {
    float* to = partial_of(tile, share_, pass) + warp_ * kStreamOutputs + lane() / 4;
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) {
      const uint32_t row = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      to[row * kOutputs + i / 2 % 2 * 8] = total[i];
    }
  }
  // The blocks of a tile meet, then each adds up some rows.
  RF_DEVICE void put_from_all(uint32_t tile) const {
    uint32_t *here = args_.counters + 2 * tile, *done = here + 1;
    __threadfence();
    sync_block();
    if (thread_index() == 0) {
      global::add_released(here, 1);
      while (global::acquired(here) < args_.n_shares) {
      }
    }
    sync_block();
    for (uint32_t pass = 0; pass < n_passes_; pass++) put_share(tile, pass);
    if (thread_index() == 0 && global::add_released(done, 1) == args_.n_shares - 1) *here = *done = 0;
  }
  // Every n_shares-th row, a thread with four of its outputs.
  RF_DEVICE void put_share(uint32_t tile, uint32_t pass) const {
    constexpr uint32_t kAcross = kOutputs / 4, kAtOnce = kThreads / kAcross;
    const uint32_t within = thread_index() % kAcross * 4;
    uint32_t part = 0, at = output_of(tile, pass) + within;
    if (activates()) {
      if (within / 8 % 2 == 1) return;  // partners
      at = (output_of(tile, pass) + within / 16 * 16) / 2 + within % 8;
    } else {
      while (part + 1 < args_.n_parts && at >= args_.parts[part].n_out) at -= args_.parts[part++].n_out;
    }
    if (at >= args_.parts[part].n_out) return;
    const uint32_t begin = set_of(pass) * kRows, left = args_.n_rows - begin, n = left < kRows ? left : kRows;
    const float* from = partial_of(tile, 0, pass) + within;
    const auto each_row_of_share = [&](const auto& put_row) {
      for (uint32_t row = share_ + args_.n_shares * (thread_index() / kAcross); row < n;
           row += kAtOnce * args_.n_shares) {
        put_row(begin + row, from + row * kOutputs);
      }
    };
    if (args_.roles[part] != StreamRole::none) {
      each_row_of_share([&](uint32_t row, const float* sums) { put_turned(part, row, at, sum_of_shares(sums)); });
      return;
    }
    each_row_of_share([&](uint32_t row, const float* sums) {
      const float4 value = sum_of_shares(sums);
      const float4 partner = activates() ? sum_of_shares(sums + 8) : value;
      put_four(args_.parts[part], uint64_t{row} * args_.parts[part].n_out, at, value, partner);
    });
  }
  RF_DEVICE void put_turned(uint32_t p, uint32_t row, uint32_t at, float4 value) const {
    const MatvecPart& part = args_.parts[p];
    const RowsTurn& turn = args_.turn;
    const StreamRole role = args_.roles[p];
    if (part.bias != nullptr) value = plus(value, *reinterpret_cast<const float4*>(part.bias + at));
    if (role != StreamRole::value) value = turned(value, row, at % turn.head_size);
    if (role == StreamRole::query) {
      four_at(part.out + uint64_t{row} * part.n_out + at) = value;
      return;
    }
    const uint32_t cache_row = turn.cache_rows[row] + (role == StreamRole::value ? kPagePositions : 0);
    const uint64_t place = uint64_t{cache_row} * turn.width + at;
    if (turn.caches_halves) {
      const __half2 low = __floats2half2_rn(value.x, value.y), high = __floats2half2_rn(value.z, value.w);
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(turn.cache) + place) = {
          *reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)};
    } else {
      four_at(static_cast<float*>(turn.cache) + place) = value;
    }
  }
  // Elements from in_head on. All lanes of a warp take part.
  RF_DEVICE float4 turned(const float4& v, uint32_t row, uint32_t in_head) const {
    const RowsTurn& turn = args_.turn;
    const float* of_row = turn.turns + uint64_t{row} * turn.n_pairs * 2;
    const auto by = [&](uint32_t pair) { return reinterpret_cast<const SineCosine&>(of_row[2 * pair]); };
    if (turn.are_halves) {
      const uint32_t lanes = turn.n_pairs / 4, pair = in_head % turn.n_pairs;
      const float4 other{shuffle_xor(v.x, lanes), shuffle_xor(v.y, lanes), shuffle_xor(v.z, lanes),
                         shuffle_xor(v.w, lanes)};
      if (in_head < turn.n_pairs) {
        return {turned_first(v.x, other.x, by(pair)), turned_first(v.y, other.y, by(pair + 1)),
                turned_first(v.z, other.z, by(pair + 2)), turned_first(v.w, other.w, by(pair + 3))};
      }
      return {turned_second(other.x, v.x, by(pair)), turned_second(other.y, v.y, by(pair + 1)),
              turned_second(other.z, v.z, by(pair + 2)), turned_second(other.w, v.w, by(pair + 3))};
    }
    if (in_head >= 2 * turn.n_pairs) return v;
    const SineCosine first = by(in_head / 2), second = by(in_head / 2 + 1);
    return {turned_first(v.x, v.y, first), turned_second(v.x, v.y, first), turned_first(v.z, v.w, second),
            turned_second(v.z, v.w, second)};
  }
  RF_DEVICE float4 sum_of_shares(const float* from) const {
    float4 shares[kRowsMaxShares];
    RF_UNROLL
    for (uint32_t k = 0; k < kRowsMaxShares; k++) {
      if (k < args_.n_shares) shares[k] = global::load4(from + k * kRowsPassSums);
    }
    float4 sum{};
    RF_UNROLL
    for (uint32_t k = 0; k < kRowsMaxShares; k++) {
      if (k < args_.n_shares) sum = plus(sum, shares[k]);
    }
    return sum;
  }
  RF_DEVICE static float4 plus(const float4& a, const float4& b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  }
  RF_DEVICE static float4& four_at(float* at) { return *reinterpret_cast<float4*>(at); }
  // Four outputs of a row that begins at `place`.
  RF_DEVICE void put_four(const MatvecPart& part, uint64_t place, uint32_t at, float4 value, float4 partner) const {
    if (part.bias != nullptr) value = plus(value, *reinterpret_cast<const float4*>(part.bias + at));
    if (part.out != nullptr) four_at(part.out + place + at) = value;
    if (args_.sum != nullptr) {
      float4& sum = four_at(args_.sum + place + at);
      const float by = args_.sum_scale;
      sum = {sum.x + by * value.x, sum.y + by * value.y, sum.z + by * value.z, sum.w + by * value.w};
    }
    if (!activates()) return;
    const MatvecPart& other = args_.parts[1];
    if (other.bias != nullptr) partner = plus(partner, *reinterpret_cast<const float4*>(other.bias + at));
    if (other.out != nullptr) four_at(other.out + place + at) = partner;
    with_activation(args_.after, [&](const auto& activate) {
      four_at(args_.activated + place + at) = {activate(value.x, partner.x), activate(value.y, partner.y),
                                               activate(value.z, partner.z), activate(value.w, partner.w)};
    });
  }

  const RowsArgs& args_;
  uint32_t n_pieces_, warp_;
  uint32_t places_, barriers_;
  uint8_t* ring_;
  uint32_t first_tile_, tile_step_, share_, begin_, end_, n_passes_;
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
    stream_rows<Block, rows>(args);                                                  \
  }
#define RF_STREAM_ROWS(name, Block)  \
  RF_STREAM_ROWS_OF(name, Block, 32) \
  RF_STREAM_ROWS_OF(name, Block, 64) \
  RF_STREAM_ROWS_OF(name, Block, 128)
RF_STREAM_ROWS(q4_k, formats::Q4K)
RF_STREAM_ROWS(q5_k, formats::Q5K)
RF_STREAM_ROWS(q6_k, formats::Q6K)

// Weights of two formats that share their inputs.
#define RF_STREAM_ROWS_PAIR_OF(name, First, Second, rows)                                \
  RF_HOPPER_ALONE_EARLY(stream_rows_##name##_##rows, RowsPairArgs, rows_threads(rows)) { \
    if (block_x() < args.second.first_block) {                                           \
      stream_rows<First, rows>(args.first);                                              \
    } else {                                                                             \
      stream_rows<Second, rows>(args.second);                                            \
    }                                                                                    \
  }
#define RF_STREAM_ROWS_PAIR(name, First, Second)  \
  RF_STREAM_ROWS_PAIR_OF(name, First, Second, 32) \
  RF_STREAM_ROWS_PAIR_OF(name, First, Second, 64) \
  RF_STREAM_ROWS_PAIR_OF(name, First, Second, 128)
RF_STREAM_ROWS_PAIR(q4_k_q6_k, formats::Q4K, formats::Q6K)
RF_STREAM_ROWS_PAIR(q5_k_q6_k, formats::Q5K, formats::Q6K)

}  // namespace rocmforge::gpu::RF_KERNELS
