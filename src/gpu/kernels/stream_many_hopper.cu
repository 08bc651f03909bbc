// Quantized weights times 2 to 32 rows, on Hopper.
//
// Inputs stay in place, weights stream: each block of a cluster copies its slice of the columns of all rows into shared
// memory once; its warps then loop over strips.
//
//   planes --cp.async--> ring of a warp --quants as subnormal halves--> left operand --+
//                                                                                       mma --> sums of groups
//   inputs --stream_many_inputs--> halves, sums of groups --bulk copies--> right operand
//
// A strip's partial sums over a block's columns are sent, eight rows to each block, to the blocks of the cluster, which
// add them in order and run the epilogue. They are sent as stores that count bytes at the receiver's barrier, and are
// added after the next strip's first piece has been multiplied, so that waits are short.

#include "gpu/runtime.h"

#include <iterator>

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_after.h"
#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/kernels/strip_pieces.h"
#include "gpu/packed/exact_strips.h"
#include "gpu/packed/lists.h"
#include "gpu/packed/strips.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace cluster {
RF_DEVICE void arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
RF_DEVICE void wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Sends 16 bytes to another block, counted at a barrier of that block on arrival. Addresses in the cluster.
RF_DEVICE void send(uint32_t to, const float (&v)[4], uint32_t barrier_at) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier_at)
               : "memory");
}
}  // namespace cluster

template <class Block, ManyKind kKind>
class Many {
  using S = Strip<Block>;
  using Piece = StagedPiece<S>;
  static constexpr ManyShape kShape = many_shape(kKind, Piece::kBytes);
  static constexpr uint32_t kTiles = kShape.tiles, kWarps = kShape.warps, kCluster = kShape.cluster;
  static constexpr uint32_t kStages = kShape.stages, kOwnTiles = kShape.own_tiles();
  static constexpr uint32_t kExchangeBytes = many_exchange_bytes(kShape);
  static constexpr uint32_t kRows = kShape.rows();
  static constexpr bool kExact = kIsExact<Block> && kTiles > 1;  // for eight rows, scaling sums is less work
  static constexpr bool kHasLongWays = kCluster == 8;
  static constexpr uint32_t kSumBytes = 32 * S::kScales;
  static constexpr uint32_t kPlaceBytes = kRows * (512 + kSumBytes + 4);
  using Sums = float[kTiles][4];  // columns 2t and 2t + 1 of output g, then of g + 8

 public:
  RF_DEVICE Many(const StreamArgs& a, uint8_t* shared)
      : args_(a),
        n_pieces_(a.width / kStreamColumns),
        rank_(block_z()),
        n_places_(rank_ < n_pieces_ ? (n_pieces_ - rank_ + kCluster - 1) / kCluster : 0),
        n_ways_((n_pieces_ <= 8 ? 8 : 16) / kCluster),
        warp_(shuffle(wave(), 0)),
        barriers_(shared_address(shared)),
        exchange_(shared + kManyBarrierBytes),
        ring_(exchange_ + kExchangeBytes),
        inputs_(ring_ + kWarps * kStages * Piece::kBytes) {
    uint32_t n_strips = 0;
    for (uint32_t p = 0; p < a.n_parts; p++) n_strips += strips_of(p);
    if (activates()) n_strips = strips_of(0);
    const uint32_t first = block_x() - a.first_block + a.n_blocks * warp_, step = kWarps * a.n_blocks;
    n_rounds_ = (first < n_strips ? (n_strips - first + step - 1) / step : 0) * (activates() ? 2 : 1);
  }

  RF_DEVICE void run() {
    if (thread_index() == 0) {
      for (uint32_t i = 0; i < kWarps; i++) {
        barrier::make(full_at(i), 1);
        if (n_others() > 0) barrier::make(free_at(i), n_others());
      }
      for (uint32_t i = 0; i < n_places_; i++) barrier::make(there_at(i), 1);
      barrier::publish();
    }
    cluster::arrive();
    sync_block();
    Cursor ahead{0, 0, 0, where(0)};
    if (n_places_ == 0) ahead.round = n_rounds_;
    for (uint32_t s = 0; s + 1 < kStages; s++) fetch(ahead, s);
    wait_for_inputs();
    if (thread_index() == 0 && n_rounds_ > 0) {  // otherwise no block waits for them
      const auto* x = reinterpret_cast<const uint8_t*>(args_.x) + rank_ * kPlaceBytes;
      for (uint32_t i = 0; i < n_places_; i++) {
        barrier::arrive_expecting(there_at(i), kPlaceBytes);
        bulk_copy(shared_address(inputs_ + i * kPlaceBytes), x + i * kCluster * kPlaceBytes, kPlaceBytes, there_at(i));
      }
    }
    cluster::wait();  // every block has made its barriers
    uint32_t stage = 0;
    for (uint32_t round = 0; round < n_rounds_; round++) {
      Sums total = {};
      Sums before = {};  // sums of earlier warps
      for (uint32_t way = 0; way < n_ways_; way++) {
        for (uint32_t place = way; place < n_places_; place += n_ways_) {
          wait_for_copies<kStages - 2>();
          __syncwarp();
          fetch(ahead, stage == 0 ? kStages - 1 : stage - 1);
          if (round == 0) barrier::wait(there_at(place), 0);
          multiply(total, place, stage);
          stage = stage + 1 == kStages ? 0 : stage + 1;
          if (place == 0 && round > 0) finish(round - 1);
        }
        if constexpr (kHasLongWays) {
          RF_UNROLL
          for (uint32_t i = 0; i < 4 * kTiles; i++)
            before[i / 4][i % 4] += total[i / 4][i % 4], total[i / 4][i % 4] = 0;
        }
      }
      if (n_places_ == 0 && round > 0) finish(round - 1);
      send(kHasLongWays ? before : total, round);
    }
    if (n_rounds_ > 0) finish(n_rounds_ - 1);
  }

 private:
  struct Where {
    uint32_t part, strip;
  };
  // The pieces of a warp in the order in which run() takes them.
  struct Cursor {
    uint32_t round, way, place;
    Where at;
  };

  RF_DEVICE bool activates() const { return args_.after != StreamAfter::store; }
  RF_DEVICE uint32_t strips_of(uint32_t part) const { return args_.parts[part].n_out / kStreamOutputs; }
  // A gate's strip is followed by the matching up strip.
  RF_DEVICE Where where(uint32_t round) const {
    const uint32_t first = block_x() - args_.first_block, n = args_.n_blocks;
    if (activates()) return {round % 2, first + n * (warp_ + kWarps * (round / 2))};
    Where w{0, first + n * (warp_ + kWarps * round)};
    while (w.part + 1 < args_.n_parts && w.strip >= strips_of(w.part)) w.strip -= strips_of(w.part++);
    return w;
  }

  RF_DEVICE uint32_t full_at(uint32_t warp) const { return barriers_ + 16 * warp; }
  RF_DEVICE uint32_t free_at(uint32_t warp) const { return barriers_ + 16 * warp + 8; }
  RF_DEVICE uint32_t there_at(uint32_t place) const { return barriers_ + 16 * kWarps + 8 * place; }

  RF_DEVICE uint8_t* stage_at(uint32_t stage) const { return ring_ + (warp_ * kStages + stage) * Piece::kBytes; }
  // A commit of copies, empty past the end.
  RF_DEVICE void fetch(Cursor& c, uint32_t stage) const {
    if (c.round < n_rounds_) {
      Piece::fetch(shared_address(stage_at(stage)), args_.parts[c.at.part].w, c.at.strip, n_pieces_,
                   rank_ + kCluster * c.place);
      c.place += n_ways_;
      if (c.place >= n_places_) {
        c.way++;
        if (c.way >= n_ways_ || c.way >= n_places_) {
          c.way = 0;
          c.round++;
          c.at = where(c.round);
        }
        c.place = c.way;
      }
    }
    commit_copies();
  }

  // In a buffer: for each 32 columns, for each tile, 16 bytes of every lane; then sums of groups, lane by lane; scales.
  RF_DEVICE const uint8_t* halves(uint32_t place) const { return inputs_ + place * kPlaceBytes + 16 * lane(); }
  RF_DEVICE const uint8_t* sums(uint32_t place) const {
    return inputs_ + place * kPlaceBytes + kRows * 512 + lane() * kSumBytes / 4;
  }
  RF_DEVICE const float* factors(uint32_t place) const {
    return reinterpret_cast<const float*>(inputs_ + place * kPlaceBytes + kRows * (512 + kSumBytes)) + lane() % 4 * 2;
  }

  RF_DEVICE void multiply(Sums& total, uint32_t place, uint32_t stage) const {
    const uint32_t piece = rank_ + kCluster * place;
    const uint8_t* staged = stage_at(stage);
    typename S::Row rows[2] = {Piece::row(staged, 0, n_pieces_, piece), Piece::row(staged, 1, n_pieces_, piece)};
    Sums scaled;
    if constexpr (kExact) {
      add_columns(scaled, rows, halves(place));
    } else {
      add_groups(scaled, rows, halves(place));
    }
    uint32_t bottoms[2][2];
    if constexpr (S::kBottoms) {
      RF_UNROLL
      for (uint32_t r = 0; r < 2; r++) {
        bottoms[r][0] = rows[r].bottoms(0);
        bottoms[r][1] = S::kScales == 1 ? bottoms[r][0] : rows[r].bottoms(1);
      }
    }
    RF_UNROLL
    for (uint32_t n = 0; n < kTiles; n++) {
      float lifted[4] = {};
      if constexpr (S::kBottoms) multiply_bottoms(lifted, bottoms, sums(place) + n * 8 * kSumBytes);
      const float2 factor = *reinterpret_cast<const float2*>(factors(place) + 8 * n);
      RF_UNROLL
      for (uint32_t e = 0; e < 4; e++) {
        float v = rows[e / 2].common() * scaled[n][e];
        if constexpr (S::kBottoms) v = fmaf(rows[e / 2].lift(), lifted[e], v);
        total[n][e] = fmaf(e % 2 == 0 ? factor.x : factor.y, v, total[n][e]);
      }
    }
  }
  // Quants times scales are exact halves: all columns go into one set of sums.
  RF_DEVICE static void add_columns(Sums& sums, const typename S::Row (&plain)[2], const uint8_t* x) {
    using Row = ScaledRow<Block>;
    Row rows[2] = {Row(plain[0]), Row(plain[1])};
    RF_UNROLL
    for (uint32_t i = 0; i < 4 * kTiles; i++) sums[i / 4][i % 4] = 0;
    RF_UNROLL
    for (uint32_t q = 0; q < 8; q++) {
      uint32_t first[2][2], second[2][2];
      RF_UNROLL
      for (uint32_t r = 0; r < 2; r++) {
        if (q > 0 && q % Row::kRun == 0) rows[r].next();
        rows[r].decode(q % Row::kRun,
                       [&](uint32_t, uint32_t i, uint32_t pair) { (i < 2 ? first : second)[r][i % 2] = pair; });
      }
      uint4 right[kTiles];
      RF_UNROLL
      for (uint32_t n = 0; n < kTiles; n++) {
        right[n] = *reinterpret_cast<const uint4*>(x + (q * kTiles + n) * 512);
        multiply_halves(sums[n], first[0], first[1], right[n].x, right[n].y, sums[n]);
      }
      RF_UNROLL
      for (uint32_t n = 0; n < kTiles; n++) {
        multiply_halves(sums[n], second[0], second[1], right[n].z, right[n].w, sums[n]);
      }
    }
  }

  // The order of sums is that of kernels/stream_hopper.cu.
  RF_DEVICE static void add_groups(Sums& scaled, typename S::Row (&rows)[2], const uint8_t* x) {
    constexpr float kZeros[4] = {};
    Sums before, pair;  // of groups 4 and 5, of two
    RF_UNROLL
    for (uint32_t q = 0; q < 8; q++) {
      uint32_t first[2][2], second[2][2];
      rows[0].decode(q, first[0], second[0]);
      rows[1].decode(q, first[1], second[1]);
      float scales[S::kScales][2];
      RF_UNROLL
      for (uint32_t h = 0; h < S::kScales; h++) {
        RF_UNROLL
        for (uint32_t r = 0; r < 2; r++) scales[h][r] = rows[r].scale(q, h);
      }
      float c[S::kScales][kTiles][4];
      uint4 right[kTiles];
      RF_UNROLL
      for (uint32_t n = 0; n < kTiles; n++) {
        right[n] = *reinterpret_cast<const uint4*>(x + (q * kTiles + n) * 512);
        multiply_halves(c[0][n], first[0], first[1], right[n].x, right[n].y, kZeros);
      }
      RF_UNROLL
      for (uint32_t n = 0; n < kTiles; n++) {
        if constexpr (S::kScales == 1) {
          multiply_halves(c[0][n], second[0], second[1], right[n].z, right[n].w, c[0][n]);
        } else {
          multiply_halves(c[1][n], second[0], second[1], right[n].z, right[n].w, kZeros);
        }
      }
      Sums& to = q < 2 ? scaled : q / 2 == 2 ? before : pair;
      RF_UNROLL
      for (uint32_t h = 0; h < S::kScales; h++) {
        RF_UNROLL
        for (uint32_t i = 0; i < 4 * kTiles; i++) {
          float& sum = to[i / 4][i % 4];
          const float v = c[h][i / 4][i % 4], scale = scales[h][i / 2 % 2];
          sum = q % 2 == 0 && h == 0 ? scale * v : fmaf(scale, v, sum);
        }
      }
      RF_UNROLL
      for (uint32_t i = 0; i < 4 * kTiles; i++) {
        if (q == 3) scaled[i / 4][i % 4] += pair[i / 4][i % 4];
        if (q == 7) scaled[i / 4][i % 4] += before[i / 4][i % 4] + pair[i / 4][i % 4];
      }
    }
  }

  RF_DEVICE static void multiply_bottoms(float (&lifted)[4], const uint32_t (&bottoms)[2][2], const uint8_t* sums) {
    constexpr float kZeros[4] = {};
    if constexpr (S::kScales == 1) {
      const uint2 b = words_at(sums);
      multiply_halves(lifted, bottoms[0], bottoms[1], b.x, b.y, kZeros);
    } else {
      const uint4 b = *reinterpret_cast<const uint4*>(sums);
      multiply_halves(lifted, bottoms[0], bottoms[1], b.x, b.y, kZeros);
      multiply_halves(lifted, bottoms[0], bottoms[1], b.z, b.w, lifted);
    }
  }

  RF_DEVICE bool finishes() const { return rank_ < kTiles; }
  // The number of other blocks that finish partial sums of this one.
  RF_DEVICE uint32_t n_others() const { return (kTiles < kCluster ? kTiles : kCluster) - (finishes() ? 1 : 0); }
  // The address of this lane's sums of a tile from another block, by that block's number among the others.
  RF_DEVICE uint8_t* received(uint32_t from, uint32_t own) const {
    return exchange_ + ((warp_ * (kCluster - 1) + from) * kOwnTiles + own) * 512 + 16 * lane();
  }

  // Tile n goes to block n % kCluster.
  RF_DEVICE void send(const Sums& total, uint32_t round) {
    if (round > 0 && n_others() > 0) barrier::wait(free_at(warp_), (round - 1) & 1);
    if (finishes() && lane() == 0) barrier::arrive_expecting(full_at(warp_), (kCluster - 1) * kOwnTiles * 512);
    RF_UNROLL
    for (uint32_t n = 0; n < kTiles; n++) {
      const uint32_t to = n % kCluster;
      if (to == rank_) {
        RF_UNROLL
        for (uint32_t e = 0; e < 4; e++) own_[n / kCluster][e] = total[n][e];
      } else {
        cluster::send(address_in(shared_address(received(rank_ - (rank_ > to ? 1 : 0), n / kCluster)), to), total[n],
                      address_in(full_at(warp_), to));
      }
    }
  }

  RF_DEVICE void finish(uint32_t round) {
    if (!finishes()) return;
    barrier::wait(full_at(warp_), round & 1);
    float sums[kOwnTiles][4];
    RF_UNROLL
    for (uint32_t i = 0; i < kOwnTiles; i++) {
      RF_UNROLL
      for (uint32_t k = 0; k < kCluster; k++) {
        float v[4] = {own_[i][0], own_[i][1], own_[i][2], own_[i][3]};
        if (k != rank_) {
          const float4 r = *reinterpret_cast<const float4*>(received(k - (k > rank_ ? 1 : 0), i));
          v[0] = r.x, v[1] = r.y, v[2] = r.z, v[3] = r.w;
        }
        RF_UNROLL
        for (uint32_t e = 0; e < 4; e++) sums[i][e] = k == 0 ? v[e] : sums[i][e] + v[e];
      }
    }
    __syncwarp();
    if (round + 1 < n_rounds_ && lane() < kCluster && lane() != rank_) barrier::arrive_at(free_at(warp_), lane());
    put(sums, round);
  }

  RF_DEVICE void put(float (&values)[kOwnTiles][4], uint32_t round) {
    const Where w = where(round);
    const MatvecPart& part = args_.parts[w.part];
    const uint32_t at = w.strip * kStreamOutputs + lane() / 4;
    if (part.bias != nullptr) {
      const float bias[2] = {part.bias[at], part.bias[at + 8]};
      RF_UNROLL
      for (uint32_t i = 0; i < 4 * kOwnTiles; i++) values[i / 4][i % 4] += bias[i / 2 % 2];
    }
    each_output(part.n_out, at, [&](uint32_t i, uint32_t e, uint64_t place) { part.out[place] = values[i][e]; });
    if (args_.sum != nullptr) {
      float sums[kOwnTiles][4];
      each_output(part.n_out, at, [&](uint32_t i, uint32_t e, uint64_t place) { sums[i][e] = args_.sum[place]; });
      each_output(part.n_out, at, [&](uint32_t i, uint32_t e, uint64_t place) {
        args_.sum[place] = sums[i][e] + args_.sum_scale * values[i][e];
      });
    }
    if (!activates()) return;
    if (round % 2 == 0) {
      RF_UNROLL
      for (uint32_t i = 0; i < 4 * kOwnTiles; i++) gates_[i / 4][i % 4] = values[i / 4][i % 4];
    } else {
      each_output(part.n_out, at, [&](uint32_t i, uint32_t e, uint64_t place) {
        args_.activated[place] = activated(args_.after, gates_[i][e], values[i][e]);
      });
    }
  }
  // This lane's outputs in this block: calls `put` with the address of element e of own tile i.
  template <class Put>
  RF_DEVICE void each_output(uint32_t n_out, uint32_t at, const Put& put) const {
    RF_UNROLL
    for (uint32_t i = 0; i < kOwnTiles; i++) {
      const uint32_t row = (rank_ + kCluster * i) * 8 + lane() % 4 * 2;
      const uint64_t place = static_cast<uint64_t>(row) * n_out + at;
      RF_UNROLL
      for (uint32_t e = 0; e < 4; e++) {
        if (row + e % 2 < args_.n_rows) put(i, e, place + e % 2 * n_out + e / 2 * 8);
      }
    }
  }
  const StreamArgs& args_;
  uint32_t n_pieces_;
  uint32_t rank_;      // of this block in its cluster
  uint32_t n_places_;  // pieces of this block
  uint32_t n_ways_;    // into which their sum is divided
  uint32_t warp_;
  uint32_t barriers_;
  uint8_t *exchange_, *ring_, *inputs_;
  uint32_t n_rounds_;        // strips of this warp
  float own_[kOwnTiles][4];  // sums of the last one, until it is finished
  float gates_[kOwnTiles][4];
};

template <class Block, ManyKind kKind>
RF_DEVICE void stream_many(const StreamArgs& args) {
  RF_DYNAMIC_SHARED(uint8_t, shared);
  let_next_begin();
  Many<Block, kKind>(args, shared).run();
}

#else

template <class Block, ManyKind kKind>
RF_DEVICE void stream_many(const StreamArgs&) {}

#endif

template <class Block>
constexpr uint32_t kStagedBytes = StagedPiece<Strip<Block>>::kBytes;

#define RF_STREAM_MANY_KIND(name, Block, kind)                                       \
  RF_HOPPER_ALONE_EARLY(stream_many_##name##_##kind, StreamArgs,                     \
                        many_shape(ManyKind::kind, kStagedBytes<Block>).threads()) { \
    stream_many<Block, ManyKind::kind>(args);                                        \
  }
#define RF_STREAM_MANY(name, Block)                                                                 \
  static_assert(many_order(DType::name) == many_order(Strip<Block>::kWide, Strip<Block>::kScales)); \
  RF_STREAM_MANY_KIND(name, Block, rows_8)                                                          \
  RF_STREAM_MANY_KIND(name, Block, rows_16)                                                         \
  RF_STREAM_MANY_KIND(name, Block, rows_32)                                                         \
  RF_STREAM_MANY_KIND(name, Block, wide_8)                                                          \
  RF_STREAM_MANY_KIND(name, Block, wide_16)                                                         \
  RF_STREAM_MANY_KIND(name, Block, wide_32)
RF_STRIP_FORMATS(RF_STREAM_MANY)

// Weights of two formats that share their inputs.
#define RF_STREAM_MANY_PAIR(a, b, First, Second, kind)                               \
  static_assert(many_shape(ManyKind::kind, kStagedBytes<First>).threads() ==         \
                many_shape(ManyKind::kind, kStagedBytes<Second>).threads());         \
  RF_HOPPER_ALONE_EARLY(stream_many_##a##_##b##_##kind, StreamPairArgs,              \
                        many_shape(ManyKind::kind, kStagedBytes<First>).threads()) { \
    if (block_x() < args.second.first_block) {                                       \
      stream_many<First, ManyKind::kind>(args.first);                                \
    } else {                                                                         \
      stream_many<Second, ManyKind::kind>(args.second);                              \
    }                                                                                \
  }
#define RF_STREAM_MANY_PAIRS(a, b, First, Second)   \
  RF_STREAM_MANY_PAIR(a, b, First, Second, rows_8)  \
  RF_STREAM_MANY_PAIR(a, b, First, Second, rows_16) \
  RF_STREAM_MANY_PAIR(a, b, First, Second, rows_32)
RF_FORMAT_PAIRS(RF_STREAM_MANY_PAIRS)

}  // namespace rocmforge::gpu::RF_KERNELS
