// Quantized weights times one row, on Hopper.
//
// A strip is sixteen outputs; a piece is 256 columns of a strip's weights. A block loops over strips; its warps divide
// a strip's pieces (or those of two strips, if the width has few). Each warp has its own ring in shared memory, filled
// by asynchronous copies:
//
//   planes --cp.async, 16 bytes a lane--> ring --quants as subnormal halves--> left operand --+
//                                                                                              mma --> sums of groups
//   inputs --norm, halves, sums of groups--> shared memory ------------------------------------+
//
// Sums of groups are scaled in f32 and added piece by piece; then the warps' sums are added in order, and the threads
// that hold the outputs run the epilogue.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/kv_cache.h"
#include "gpu/kernels/stream_after.h"
#include "gpu/kernels/stream_hopper.h"
#include "gpu/kernels/stream_inputs.h"
#include "gpu/kernels/strip_pieces.h"
#include "gpu/kernels/turn.h"
#include "gpu/packed/lists.h"
#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A lane's right operands for a piece. With one row seven columns are free: column q is used for group q and is zero
// elsewhere, so that all groups go into one set of sums and a lane scales only its own groups.
template <class S>
class PieceInputs {
 public:
  template <class Inputs>
  RF_DEVICE PieceInputs(const Inputs& inputs, uint32_t piece)
      : x_(*reinterpret_cast<const uint4*>(inputs.halves(piece, 0) + 16 * lane())),
        sums_(inputs.sums(piece, 0) + 4 * (lane() % 4)),
        factor_(inputs.factors(piece)) {}
  RF_DEVICE uint2 first(uint32_t q) const { return masked(q, x_.x, x_.y); }
  RF_DEVICE uint2 second(uint32_t q) const { return masked(q, x_.z, x_.w); }
  // Sums of groups as halves: the nearest ones, then the remainders. Formats with two scales take twice as many words.
  RF_DEVICE uint32_t sums(uint32_t i) const { return word_at(sums_ + 16 * i); }
  RF_DEVICE float factor() const { return *factor_; }

 private:
  RF_DEVICE static uint2 masked(uint32_t q, uint32_t a, uint32_t b) {
    const uint32_t is_own = lane() / 4 == q ? 0x3C003C00u : 0;  // two ones
    return {multiply_pairs(a, is_own), multiply_pairs(b, is_own)};
  }
  uint4 x_;
  const uint8_t* sums_;
  const float* factor_;
};
// The same for a warp that has the same piece of all strips.
template <class S>
class KeptInputs {
 public:
  template <class Inputs>
  RF_DEVICE KeptInputs(const Inputs& of, uint32_t piece) {
    const PieceInputs<S> inputs(of, piece);
    RF_UNROLL
    for (uint32_t q = 0; q < 8; q++) first_[q] = inputs.first(q), second_[q] = inputs.second(q);
    if constexpr (S::kBottoms) {
      RF_UNROLL
      for (uint32_t i = 0; i < 2 * S::kScales; i++) sums_[i] = inputs.sums(i);
    }
    factor_ = inputs.factor();
  }
  RF_DEVICE uint2 first(uint32_t q) const { return first_[q]; }
  RF_DEVICE uint2 second(uint32_t q) const { return second_[q]; }
  RF_DEVICE uint32_t sums(uint32_t i) const { return sums_[i]; }
  RF_DEVICE float factor() const { return factor_; }

 private:
  uint2 first_[8], second_[8];
  uint32_t sums_[2 * S::kScales];
  float factor_;
};

template <class Block>
class Stream {
  using S = Strip<Block>;
  using Piece = StagedPiece<S>;
  using Rows = typename S::Row[2];
  static constexpr uint32_t kWarps = kStreamWarps, kStages = kStreamStages;
  static constexpr StripShape kShape{Piece::kBytes, S::kScales};
  static constexpr uint32_t kBatch = stream_batch(kShape), kSumBytes = stream_sum_bytes(kShape);
  static constexpr uint32_t kRingBytes = kWarps * kStages * Piece::kBytes;

 public:
  RF_DEVICE explicit Stream(const StreamArgs& a, uint8_t* shared)
      : args_(a),
        n_pieces_(a.width / kStreamColumns),
        ways_(n_pieces_ <= 8 ? 8 : 16),
        slot_(wave() / ways_),
        way_(wave() % ways_),
        n_items_((a.n_items + (block() < a.n_longer ? 1 : 0)) * (activates() ? 2 : 1)),
        ring_(shared),
        sums_(reinterpret_cast<float*>(shared + kRingBytes)),
        inputs_(a, n_pieces_, shared + kRingBytes + kSumBytes) {}

  RF_DEVICE void run() {
    Cursor ahead{way_, slot_, where(slot_)};
    if (slot_ >= n_items_) ahead.piece = n_pieces_;
    HeldInputs<kWarps> held;
    held.ask_for_norm(args_);
    const Turn turn = turns() ? turn_of(finished(0)) : Turn{};  // takes as long as the work ahead of the inputs
    const uint32_t n_early = asks_early() ? 1 : 0;
    for (uint32_t s = 0; s < n_early; s++) fetch(ahead, s);
    wait_for_inputs();
    held.ask(args_);
    for (uint32_t s = n_early; s < kStages; s++) fetch(ahead, s);
    inputs_.prepare(held);
    if (ways_ == kWarps) {  // warps multiply the pieces that they have prepared themselves
      __syncwarp();
    } else {
      sync_block();
    }
    if (n_pieces_ <= ways_) {
      const KeptInputs<S> kept(inputs_, way_ < n_pieces_ ? way_ : 0);
      multiply(ahead, turn, [&](uint32_t) { return kept; });
    } else {
      multiply(ahead, turn, [&](uint32_t piece) { return PieceInputs<S>(inputs_, piece); });
    }
  }

 private:
  struct Where {
    uint32_t part, strip;
  };
  struct Turn;
  struct Finished;
  // A warp's pieces in the order in which it multiplies them.
  struct Cursor {
    uint32_t piece, item;
    Where at;
  };

  // Whether a warp loads weights before the inputs, whose loads then queue behind them. Half of the warps do, and all
  // of them for formats with large pieces.
  RF_DEVICE static bool asks_early() { return Piece::kBytes > 4096 || wave() % 2 != 0; }

  RF_DEVICE uint32_t block() const { return block_x() - args_.first_block; }
  RF_DEVICE bool activates() const { return args_.after != StreamAfter::store; }
  RF_DEVICE uint32_t n_slots() const { return kWarps / ways_; }
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
    c.piece += ways_;
    if (c.piece < n_pieces_) return;
    c.item += n_slots();
    if (c.item >= n_items_) return;
    c.piece = way_;
    if (!activates()) {
      c.at.strip += n_slots() * args_.n_blocks;
      settle(c.at);
    } else if (ways_ == 8 || c.at.part == 1) {
      c.at = {slot_, c.at.strip + args_.n_blocks};
    } else {
      c.at.part = 1;
    }
  }

  RF_DEVICE uint8_t* stage_at(uint32_t stage) const { return ring_ + (wave() * kStages + stage) * Piece::kBytes; }

  // A commit of copies, empty past the end.
  RF_DEVICE void fetch(Cursor& c, uint32_t stage) const {
    if (c.piece < n_pieces_) {
      Piece::fetch(shared_address(stage_at(stage)), args_.parts[c.at.part].w, c.at.strip, n_pieces_, c.piece);
      advance(c);
    }
    commit_copies();
  }

  // inputs_of(piece): its right operands.
  template <class InputsOf>
  RF_DEVICE void multiply(Cursor& ahead, const Turn& turn, const InputsOf& inputs_of) const {
    const uint32_t at_once = batch_items();
    uint32_t stage = 0;
    for (uint32_t first = 0; first < n_items_; first += at_once) {
      if (first > 0) sync_block();  // the previous sums have been used
      for (uint32_t i = slot_; i < at_once && first + i < n_items_; i += n_slots()) {
        float total[2] = {};
        for (uint32_t piece = way_; piece < n_pieces_; piece += ways_) {
          wait_for_copies<kStages - 1>();
          __syncwarp();
          add_piece(total, inputs_of(piece), piece, stage_at(stage));
          __syncwarp();
          fetch(ahead, stage);
          stage = stage + 1 == kStages ? 0 : stage + 1;
        }
        float* to = sums_of(i, way_);
        if (lane() % 4 == 0) to[lane() / 4] = total[0], to[lane() / 4 + 8] = total[1];
      }
      finish(first, turn);
    }
  }

  // Adds the sums of outputs g and g + 8 over a piece to `total`. Order: over the groups 2t and 2t + 1, then over t,
  // pairwise.
  template <class Inputs>
  RF_DEVICE void add_piece(float (&total)[2], const Inputs& inputs, uint32_t piece, const uint8_t* staged) const {
    Rows rows = {Piece::row(staged, 0, n_pieces_, piece), Piece::row(staged, 1, n_pieces_, piece)};
    float scaled[2];
    add_groups(scaled, rows, inputs);
    float lifted[4] = {};
    if constexpr (S::kBottoms) multiply_bottoms(lifted, rows, inputs);
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
      float sum = rows[r].common() * scaled[r];
      if constexpr (S::kBottoms) sum = fmaf(rows[r].lift(), lifted[2 * r], sum);
      total[r] = fmaf(inputs.factor(), sum, total[r]);
    }
  }

  template <class Inputs>
  RF_DEVICE static void add_groups(float (&scaled)[2], Rows& rows, const Inputs& inputs) {
    float sums[S::kScales][2][4] = {};  // [h][q % 2]: of groups 2t and 2t + 1
    RF_UNROLL
    for (uint32_t q = 0; q < 8; q++) {
      uint32_t first[2][2], second[2][2];
      rows[0].decode(q, first[0], second[0]);
      rows[1].decode(q, first[1], second[1]);
      const uint2 x = inputs.first(q), x2 = inputs.second(q);
      auto& c = sums[0][q % 2];
      multiply_halves(c, first[0], first[1], x.x, x.y, c);
      auto& c2 = sums[S::kScales - 1][q % 2];
      multiply_halves(c2, second[0], second[1], x2.x, x2.y, c2);
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

  template <class Inputs>
  RF_DEVICE static void multiply_bottoms(float (&lifted)[4], const Rows& rows, const Inputs& inputs) {
    constexpr float kZeros[4] = {};
    uint32_t bottoms[2][2];
    RF_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
      bottoms[r][0] = rows[r].bottoms(0);
      bottoms[r][1] = S::kScales == 1 ? bottoms[r][0] : rows[r].bottoms(1);
    }
    multiply_halves(lifted, bottoms[0], bottoms[1], inputs.sums(0), inputs.sums(1), kZeros);
    if constexpr (S::kScales == 2) {
      multiply_halves(lifted, bottoms[0], bottoms[1], inputs.sums(2), inputs.sums(3), lifted);
    }
  }

  // A warp's sums for an item of the batch.
  RF_DEVICE float* sums_of(uint32_t item, uint32_t way) const {
    return sums_ + (item * ways_ + way) * kStreamSumStride;
  }
  // The warps' sums are added in groups that match the blocks of a cluster with more rows (stream_many_hopper.h).
  template <uint32_t kGroups>
  RF_DEVICE float sum_of(uint32_t item, uint32_t output) const {
    float sum = 0;
    RF_UNROLL
    for (uint32_t group = 0; group < kGroups; group++) {
      float of_group = 0;
      RF_UNROLL
      for (uint32_t w = group; w < 16; w += kGroups) {
        if (w < ways_) of_group += sums_of(item, w)[output];
      }
      sum += of_group;
    }
    return sum;
  }

  RF_DEVICE uint32_t batch_items() const { return kBatch * n_slots(); }
  // The output that this thread finishes in the batch that begins with item `first`. The last warps finish outputs:
  // they may have had one piece less.
  struct Finished {
    bool is_there;
    uint32_t item, output;  // in the batch; in its strip
    Where at;
  };
  RF_DEVICE Finished finished(uint32_t first) const {
    static_assert(2 * kBatch * kStreamOutputs <= kStreamThreads);
    const uint32_t left = n_items_ - first, pair = activates() ? 2 : 1;
    const uint32_t n = (left < batch_items() ? left : batch_items()) / pair * kStreamOutputs;
    const uint32_t i = (kWarps - 1 - wave()) * 32 + lane(), item = i / kStreamOutputs * pair;
    return {i < n, item, i % kStreamOutputs, i < n ? where(first + item) : Where{}};
  }

  // The epilogue's other inputs are loaded before the warps synchronise.
  RF_DEVICE void finish(uint32_t first, const Turn& turn) const {
    const Finished mine = finished(first);
    const MatvecPart& part = args_.parts[mine.at.part];
    StreamedOutput out;
    if (mine.is_there) out = StreamedOutput(args_, part, 0, mine.at.strip * kStreamOutputs + mine.output);
    sync_block();
    const auto sum_of_item = [&](uint32_t partner) {
      const uint32_t item = mine.item + partner;
      return n_pieces_ <= 16 ? sum_of<4>(item, mine.output) : sum_of<8>(item, mine.output);
    };
    if (turns()) {
      const float value = mine.is_there ? sum_of_item(0) + out.bias : 0.0f;
      put_turned(mine, part, out.place, value, first == 0 ? turn : turn_of(mine));
    } else if (mine.is_there) {
      out.put(args_, part, sum_of_item);
    }
  }

  RF_DEVICE bool turns() const { return args_.roles[0] != StreamRole::none; }
  // The rotation (RoPE) and the cache position for outputs of queries, keys and values.
  struct Turn {
    SineCosine by = {0, 1};
    bool is_turned = false;
    void* cached = nullptr;
  };
  RF_DEVICE Turn turn_of(const Finished& mine) const {
    Turn out;
    if (!mine.is_there) return out;
    const RopeArgs& rope = args_.turn.rope;
    const StoreKvArgs& store = args_.turn.store;
    const StreamRole role = args_.roles[mine.at.part];
    const uint32_t at = mine.at.strip * kStreamOutputs + mine.output, in_head = at % rope.head_size;
    if (role != StreamRole::value && in_head < 2 * rope.n_pairs) {
      out.by = turn_of_pair(rope, in_head / 2, rope.positions[0]);
      out.is_turned = true;
    }
    if (role == StreamRole::query || !is_stored(store.batch, 0, store.batch.positions[0])) return out;
    const uint64_t further = at + (role == StreamRole::value ? uint64_t{kPagePositions} * store.width : 0);
    const uint32_t position = store.batch.positions[0];
    out.cached =
        args_.caches_halves
            ? static_cast<void*>(cache_row(static_cast<F16*>(store.cache), store.batch, 0, position, store.width) +
                                 further)
            : static_cast<void*>(cache_row(static_cast<float*>(store.cache), store.batch, 0, position, store.width) +
                                 further);
    return out;
  }
  // A pair is two neighbouring lanes.
  RF_DEVICE void put_turned(const Finished& mine, const MatvecPart& part, uint64_t place, float value,
                            const Turn& turn) const {
    const float other = shuffle_xor(value, 1);
    if (!mine.is_there) return;
    if (turn.is_turned) {
      value = mine.output % 2 == 0 ? turned_first(value, other, turn.by) : turned_second(other, value, turn.by);
    }
    part.out[place] = value;
    if (turn.cached == nullptr) return;
    if (args_.caches_halves) {
      put_cached(static_cast<F16*>(turn.cached), value);
    } else {
      put_cached(static_cast<float*>(turn.cached), value);
    }
  }

  const StreamArgs& args_;
  uint32_t n_pieces_;
  uint32_t ways_;        // warps that divide a strip; follows from the width alone, and so does the order of sums
  uint32_t slot_, way_;  // this warp's: which of the strips at a time, and which of its pieces
  uint32_t n_items_;     // strips of this block
  uint8_t* ring_;
  float* sums_;
  StreamInputs<S, 1, kWarps> inputs_;
};

template <class Block>
RF_DEVICE void stream(const StreamArgs& args) {
  RF_DYNAMIC_SHARED(uint8_t, shared);
  let_next_begin();
  Stream<Block>(args, shared).run();
}

#else

template <class Block>
RF_DEVICE void stream(const StreamArgs&) {}

#endif

#define RF_STREAM(name, Block)                                                               \
  static_assert(strip_shape(DType::name).stage_bytes == StagedPiece<Strip<Block>>::kBytes && \
                strip_shape(DType::name).n_scales == Strip<Block>::kScales);                 \
  RF_KERNEL_EARLY(stream_##name##_1, StreamArgs, kStreamThreads) {                           \
    stream<Block>(args);                                                                     \
  }
RF_STRIP_FORMATS(RF_STREAM)

// Weights of two formats that share their inputs.
#define RF_STREAM_PAIR(a, b, First, Second)                               \
  RF_KERNEL_EARLY(stream_##a##_##b##_1, StreamPairArgs, kStreamThreads) { \
    if (block_x() < args.second.first_block) {                            \
      stream<First>(args.first);                                          \
    } else {                                                              \
      stream<Second>(args.second);                                        \
    }                                                                     \
  }
RF_FORMAT_PAIRS(RF_STREAM_PAIR)

}  // namespace rocmforge::gpu::RF_KERNELS
