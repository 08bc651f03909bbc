// Quantized weights times up to eight rows, on Hopper.
//
// A strip is sixteen outputs, a piece sixteen outputs by 256 columns of their weights. A block takes strips in turn;
// its warps share a strip's pieces (or, when a width has few, those of two strips). Each warp has a ring of its own in
// shared memory, refilled by asynchronous copies:
//
//   planes --cp.async, 16 bytes a lane--> ring --levels as subnormal halves--> left operand --+
//                                                                                              mma --> sums of groups
//   inputs --norm, halves, sums of groups--> shared memory ------------------------------------+
//
// Sums of groups are scaled in f32 and added piece after piece; then the warps' sums are added in order, and what comes
// after the product is done by the threads that hold its outputs.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_after.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/kernels/stream_inputs.h"
#include "gpu/kernels/strip_pieces.h"
#include "gpu/packed/lists.h"
#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Block, uint32_t kRows>
class Stream {
  using S = Strip<Block>;
  using Piece = StagedPiece<S>;
  static constexpr StripShape kShape{Piece::kBytes, S::kScales};
  static constexpr uint32_t kWarps = kShape.warps(kRows), kStages = kStreamStages;
  // Stages asked for before the inputs, which would have to wait behind more.
  static constexpr uint32_t kEarly = kRows == 1 ? 1 : kStages;
  static constexpr uint32_t kSums = kRows == 1 ? 2 : 4;

 public:
  RF_DEVICE explicit Stream(const StreamArgs& a, uint8_t* shared)
      : args_(a),
        n_pieces_(a.width / kStreamColumns),
        ways_(n_pieces_ <= 8 ? 8 : 16),
        n_slots_(kWarps == 16 && n_pieces_ <= 8 ? 2 : 1),
        step_(n_slots_ == 2 ? 8 : kWarps),
        slot_(n_slots_ == 2 ? wave() / 8 : 0),
        way_(wave() - slot_ * 8),
        ring_(shared),
        inputs_(a, shared + kWarps * kStages * Piece::kBytes),
        reduced_(inputs_.end()) {
    n_items_ = (a.n_items + (block() < a.n_longer ? 1 : 0)) * (activates() ? 2 : 1);
    carried_ = reinterpret_cast<float4*>(reduced_ + a.batch * n_slots_ * ways_ * kRows * kStreamSumStride);
  }

  RF_DEVICE void run() {
    Cursor ahead{way_, slot_, way_, 0, where(slot_)};
    if (slot_ >= n_items_ || way_ >= n_pieces_) ahead.piece = n_pieces_;
    if constexpr (kRows == 1) inputs_.ask_for_norm();
    for (uint32_t s = 0; s < kEarly; s++) fetch(ahead, s);
    wait_for_inputs();
    if constexpr (kRows == 1) inputs_.ask();
    for (uint32_t s = kEarly; s < kStages; s++) fetch(ahead, s);
    inputs_.prepare();
    if (kRows == 1 && step_ == 16) {  // warps multiply what they have prepared themselves
      __syncwarp();
    } else {
      sync_block();
    }
    uint32_t stage = 0;
    for (uint32_t begin = 0; begin < n_pieces_; begin += args_.phase) {
      const uint32_t end = begin + args_.phase < n_pieces_ ? begin + args_.phase : n_pieces_;
      if (begin > 0) {
        sync_block();  // the phase before has been used
        for (uint32_t piece = begin + wave(); piece < end; piece += kWarps) inputs_.convert(piece, begin);
        sync_block();
      }
      for (uint32_t first = 0; first < n_items_; first += args_.batch * n_slots_) {
        if (first > 0 && end == n_pieces_) sync_block();  // the sums before have been used
        for (uint32_t i = 0; i < args_.batch; i++) {
          const uint32_t item = first + i * n_slots_ + slot_;
          if (item >= n_items_) break;
          for (uint32_t way = way_; way < ways_; way += step_) {
            float total[kSums] = {};
            if (begin > 0) take_up(total, item, way);
            for (uint32_t piece = begin + way; piece < end; piece += ways_) {
              ring::wait<kStages - 1>();
              __syncwarp();
              multiply(total, piece, piece - begin, stage);
              __syncwarp();
              fetch(ahead, stage);
              stage = stage + 1 == kStages ? 0 : stage + 1;
            }
            if (end < n_pieces_) {
              put_by(total, item, way);
            } else {
              put_sums(total, item - first, way);
            }
          }
        }
        if (end < n_pieces_) continue;
        sync_block();
        finish(first);
      }
    }
  }

 private:
  using Rows = typename S::Row[2];
  struct Where {
    uint32_t part, strip;
  };
  // A warp's pieces in the order in which run() takes them.
  struct Cursor {
    uint32_t piece, item, way;
    uint32_t begin;  // of the phase
    Where at;
  };

  RF_DEVICE uint32_t block() const { return block_x() - args_.first_block; }
  RF_DEVICE bool activates() const { return args_.after != StreamAfter::store; }
  RF_DEVICE uint32_t strips_of(uint32_t part) const { return args_.parts[part].n_out / kStreamOutputs; }
  RF_DEVICE void settle(Where& w) const {
    while (w.part + 1 < args_.n_parts && w.strip >= strips_of(w.part)) w.strip -= strips_of(w.part++);
  }
  RF_DEVICE Where where(uint32_t item) const {
    if (activates()) return {item % 2, block() + item / 2 * args_.n_blocks};
    Where w{0, block() + item * args_.n_blocks};
    settle(w);
    return w;
  }

  RF_DEVICE void advance(Cursor& c) const {
    const uint32_t end = c.begin + args_.phase < n_pieces_ ? c.begin + args_.phase : n_pieces_;
    c.piece += ways_;
    if (c.piece < end) return;
    c.way += step_;
    if (c.way < ways_ && c.begin + c.way < end) {
      c.piece = c.begin + c.way;
      return;
    }
    c.way = way_;
    c.item += n_slots_;
    if (c.item >= n_items_) {
      c.item = slot_;
      c.begin += args_.phase;
      c.at = where(slot_);
    } else if (!activates()) {
      c.at.strip += n_slots_ * args_.n_blocks;
      settle(c.at);
    } else if (n_slots_ == 2 || c.at.part == 1) {
      c.at = {slot_, c.at.strip + args_.n_blocks};
    } else {
      c.at.part = 1;
    }
    c.piece = c.begin + way_;
  }

  RF_DEVICE uint8_t* stage_at(uint32_t stage) const { return ring_ + (wave() * kStages + stage) * Piece::kBytes; }

  // A commit of copies, empty past the end.
  RF_DEVICE void fetch(Cursor& c, uint32_t stage) const {
    if (c.piece < n_pieces_) {
      Piece::fetch(shared_address(stage_at(stage)), args_.parts[c.at.part].w, c.at.strip, n_pieces_, c.piece);
      advance(c);
    }
    ring::commit();
  }

  // Sixteen outputs' sums over a piece, added to `total`. The order of sums is the same for one row and for more: over
  // the groups 2t and 2t + 1, then over t, two and two.
  RF_DEVICE void multiply(float (&total)[kSums], uint32_t piece, uint32_t place, uint32_t stage) const {
    const uint8_t* staged = stage_at(stage);
    Rows rows = {Piece::row(staged, 0, n_pieces_, piece), Piece::row(staged, 1, n_pieces_, piece)};
    float scaled[kSums] = {};
    if constexpr (kRows == 1) {
      add_groups_apart(scaled, rows, place);
    } else {
      add_groups(scaled, rows, place);
    }
    float lifted[4] = {};
    if constexpr (S::kBottoms) multiply_bottoms(lifted, rows, place);
    const float* factors = inputs_.factors(place) + (kRows == 1 ? 0 : lane() % 4 * 2);
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) {
      const typename S::Row& r = rows[2 * i / kSums];
      float sum = r.common() * scaled[i];
      if constexpr (S::kBottoms) sum = fmaf(r.lift(), lifted[kRows == 1 ? 2 * i : i], sum);
      total[i] = fmaf(factors[kRows == 1 ? 0 : i % 2], sum, total[i]);
    }
  }

  // Eight rows are the columns of the right operand: each group's sums are scaled before the next group's.
  RF_DEVICE void add_groups(float (&scaled)[kSums], Rows& rows, uint32_t place) const {
    const uint8_t* inputs = inputs_.halves(place, lane() / 4) + 16 * (lane() % 4);
    constexpr float kZeros[4] = {};
    float before[kSums] = {};  // of an even t
    RF_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
      float sums[kSums] = {};
      const auto add = [&](const float(&c)[4], uint32_t q, uint32_t h) {
        const float scales[2] = {rows[0].scale(q, h), rows[1].scale(q, h)};
        RF_UNROLL
        for (uint32_t i = 0; i < kSums; i++) sums[i] = fmaf(scales[2 * i / kSums], c[i], sums[i]);
      };
      RF_UNROLL
      for (uint32_t q = 2 * j; q < 2 * j + 2; q++) {
        uint32_t first[2][2], second[2][2];
        rows[0].decode(q, first[0], second[0]);
        rows[1].decode(q, first[1], second[1]);
        const uint4 x = *reinterpret_cast<const uint4*>(inputs + 64 * q);
        float c[4], c2[4];
        multiply_halves(c, first[0], first[1], x.x, x.y, kZeros);
        if constexpr (S::kScales == 1) {
          multiply_halves(c2, second[0], second[1], x.z, x.w, c);
          add(c2, q, 0);
        } else {
          add(c, q, 0);
          multiply_halves(c2, second[0], second[1], x.z, x.w, kZeros);
          add(c2, q, 1);
        }
      }
      RF_UNROLL
      for (uint32_t i = 0; i < kSums; i++) {
        if (j % 2 == 0) {
          before[i] = sums[i];
        } else if (j == 1) {
          scaled[i] = before[i] + sums[i];
        } else {
          scaled[i] += before[i] + sums[i];
        }
      }
    }
  }

  // One row leaves seven columns free: column q is for group q. The right operand is zero elsewhere, so that all groups
  // go into one set of sums, and a lane scales those of its own groups alone.
  RF_DEVICE void add_groups_apart(float (&scaled)[kSums], Rows& rows, uint32_t place) const {
    const uint32_t g = lane() / 4, t = lane() % 4;
    const uint4 x = *reinterpret_cast<const uint4*>(inputs_.halves(place, 0) + 64 * g + 16 * t);
    float sums[S::kScales][2][4] = {};  // [h][q % 2]: of groups 2t and 2t + 1
    RF_UNROLL
    for (uint32_t q = 0; q < 8; q++) {
      uint32_t first[2][2], second[2][2];
      rows[0].decode(q, first[0], second[0]);
      rows[1].decode(q, first[1], second[1]);
      const uint32_t is_own = g == q ? 0x3C003C00u : 0;  // two ones
      auto& c = sums[0][q % 2];
      multiply_halves(c, first[0], first[1], multiply_pairs(x.x, is_own), multiply_pairs(x.y, is_own), c);
      auto& c2 = sums[S::kScales - 1][q % 2];
      multiply_halves(c2, second[0], second[1], multiply_pairs(x.z, is_own), multiply_pairs(x.w, is_own), c2);
    }
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
      float sum = 0;
      RF_UNROLL
      for (uint32_t i = 0; i < 2; i++) {
        RF_UNROLL
        for (uint32_t h = 0; h < S::kScales; h++) sum = fmaf(rows[r].own_scale(i, h), sums[h][i][2 * r + i], sum);
      }
      sum += shuffle_xor(sum, 1);
      scaled[r] = sum + shuffle_xor(sum, 2);
    }
  }

  RF_DEVICE void multiply_bottoms(float (&lifted)[4], const Rows& rows, uint32_t place) const {
    const uint8_t* sums = inputs_.sums(place, kRows == 1 ? 0 : lane() / 4) + 4 * (lane() % 4);
    constexpr float kZeros[4] = {};
    uint32_t bottoms[2][2];
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
      bottoms[r][0] = rows[r].bottoms(0);
      bottoms[r][1] = S::kScales == 1 ? bottoms[r][0] : rows[r].bottoms(1);
    }
    multiply_halves(lifted, bottoms[0], bottoms[1], word_at(sums), word_at(sums + 16), kZeros);
    if constexpr (S::kScales == 2) {
      multiply_halves(lifted, bottoms[0], bottoms[1], word_at(sums + 32), word_at(sums + 48), lifted);
    }
  }

  // Sums between phases, lane by lane.
  RF_DEVICE float4* carried(uint32_t item, uint32_t way) const { return carried_ + (item * ways_ + way) * 32 + lane(); }
  RF_DEVICE void put_by(const float (&total)[kSums], uint32_t item, uint32_t way) {
    if constexpr (kRows > 1) *carried(item, way) = {total[0], total[1], total[2], total[3]};
  }
  RF_DEVICE void take_up(float (&total)[kSums], uint32_t item, uint32_t way) const {
    if constexpr (kRows > 1) {
      const float4 v = *carried(item, way);
      total[0] = v.x, total[1] = v.y, total[2] = v.z, total[3] = v.w;
    }
  }

  // Where a way's sums of a batch's item begin: outputs of a row lie together.
  RF_DEVICE float* sums_of(uint32_t item, uint32_t way) const {
    return reduced_ + (item * ways_ + way) * kRows * kStreamSumStride;
  }
  RF_DEVICE void put_sums(const float (&total)[kSums], uint32_t item, uint32_t way) const {
    const uint32_t g = lane() / 4, t = lane() % 4;
    float* to = sums_of(item, way);
    if constexpr (kRows == 1) {
      if (t == 0) to[g] = total[0], to[g + 8] = total[1];
    } else {
      RF_UNROLL
      for (uint32_t i = 0; i < 4; i++) to[(2 * t + i % 2) * kStreamSumStride + g + i / 2 * 8] = total[i];
    }
  }
  // Ways are summed in groups, as the blocks of a cluster have them when there are more rows (stream_many_hopper.h).
  RF_DEVICE float sum_of(uint32_t item, uint32_t row, uint32_t output) const {
    return n_pieces_ <= 16 ? sum_of_groups<4>(item, row, output) : sum_of_groups<8>(item, row, output);
  }
  template <uint32_t kGroups>
  RF_DEVICE float sum_of_groups(uint32_t item, uint32_t row, uint32_t output) const {
    float sum = 0;
    RF_UNROLL
    for (uint32_t group = 0; group < kGroups; group++) {
      float of_group = 0;
      RF_UNROLL
      for (uint32_t w = group; w < 16; w += kGroups) {
        if (w < ways_) of_group += sums_of(item, w)[row * kStreamSumStride + output];
      }
      sum += of_group;
    }
    return sum;
  }

  // The items of a batch, whose sums are there.
  RF_DEVICE void finish(uint32_t first) const {
    const uint32_t left = n_items_ - first, n = left < args_.batch * n_slots_ ? left : args_.batch * n_slots_;
    const uint32_t at_once = activates() ? 2 : 1;
    for (uint32_t i = thread_index(); i < n / at_once * kStreamOutputs * kRows; i += kWarps * 32) {
      const uint32_t output = i % kStreamOutputs, row = i / kStreamOutputs % kRows;
      const uint32_t item = i / (kStreamOutputs * kRows) * at_once;
      if (row >= args_.n_rows) continue;
      const Where w = where(first + item);
      put_output(args_, args_.parts[w.part], row, w.strip * kStreamOutputs + output,
                 [&](uint32_t partner) { return sum_of(item + partner, row, output); });
    }
  }

  const StreamArgs& args_;
  uint32_t n_pieces_;
  uint32_t ways_;        // into which the sums over a width are divided: its own number alone decides
  uint32_t n_slots_;     // strips at a time
  uint32_t step_;        // warps that share one
  uint32_t slot_, way_;  // this warp's; it has every step_-th way
  uint32_t n_items_;     // strips of this block
  uint8_t* ring_;
  StreamInputs<S, kRows, kWarps> inputs_;
  float* reduced_;
  float4* carried_;
};

template <class Block, uint32_t kRows>
RF_DEVICE void stream(const StreamArgs& args) {
  RF_DYNAMIC_SHARED(uint8_t, shared);
  let_next_begin();
  Stream<Block, kRows>(args, shared).run();
}

#else

template <class Block, uint32_t kRows>
RF_DEVICE void stream(const StreamArgs&) {}

#endif

#define RF_STREAM(name, Block)                                                               \
  static_assert(strip_shape(DType::name).stage_bytes == StagedPiece<Strip<Block>>::kBytes && \
                strip_shape(DType::name).n_scales == Strip<Block>::kScales);                 \
  RF_KERNEL_EARLY(stream_##name##_1, StreamArgs, kStreamThreads) {                           \
    stream<Block, 1>(args);                                                                  \
  }                                                                                          \
  RF_KERNEL_EARLY(stream_##name##_8, StreamArgs, kStreamThreads) {                           \
    stream<Block, 8>(args);                                                                  \
  }
RF_INTEGER_FORMATS(RF_STREAM)

// Weights of two formats that share their inputs, as the files of mixed formats have them.
#define RF_STREAM_PAIR(name, First, Second, rows)                           \
  RF_KERNEL_EARLY(stream_##name##_##rows, StreamPairArgs, kStreamThreads) { \
    if (block_x() < args.second.first_block) {                              \
      stream<First, rows>(args.first);                                      \
    } else {                                                                \
      stream<Second, rows>(args.second);                                    \
    }                                                                       \
  }
RF_STREAM_PAIR(q4_k_q6_k, formats::Q4K, formats::Q6K, 1)
RF_STREAM_PAIR(q4_k_q6_k, formats::Q4K, formats::Q6K, 8)
RF_STREAM_PAIR(q5_k_q6_k, formats::Q5K, formats::Q6K, 1)
RF_STREAM_PAIR(q5_k_q6_k, formats::Q5K, formats::Q6K, 8)

}  // namespace rocmforge::gpu::RF_KERNELS
