// F16 and BF16 weights times up to eight rows, on Hopper: kernels/stream_hopper.h for weights that need no decoding.
//
// As there, a strip is sixteen outputs and a piece is 256 columns of a strip. A block loops over strips, one or two at
// a time; eight warps divide a strip's pieces. The weights go straight into the left operand:
//
//   weights --16 bytes a lane, of two outputs--> registers --> left operand --+
//                                                                              mma --> sums of a piece
//   inputs --norm, halves--> shared memory ------------------------------------+
//
// Each warp always has a whole piece in flight, across strips and phases: as soon as a quarter has been multiplied, the
// same quarter of the next piece is loaded. BF16 weights are multiplied as halves, clamped to the range of halves.

#include "gpu/runtime.h"

#include "gpu/fragment/hopper.h"
#include "gpu/kernels/stream_after.h"
#include "gpu/kernels/stream_float_hopper.h"
#include "gpu/kernels/stream_inputs.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Weights 0 .. 3 in two words, as the pairs (0, 2) and (1, 3) of halves: the order in which inputs lie.
RF_DEVICE void pairs_of(uint32_t (&out)[2], uint32_t low, uint32_t high, formats::PlainF16) {
  out[0] = __byte_perm(low, high, 0x5410);
  out[1] = __byte_perm(low, high, 0x7632);
}
RF_DEVICE void pairs_of(uint32_t (&out)[2], uint32_t low, uint32_t high, formats::PlainBf16) {
  out[0] = halves_within(low << 16, high << 16);
  out[1] = halves_within(low & 0xFFFF0000u, high & 0xFFFF0000u);
}

// c += a * b, a being four registers of sixteen outputs, b two of eight rows.
RF_DEVICE void multiply_halves(float (&c)[4], const uint32_t (&top)[2], const uint32_t (&bottom)[2], uint32_t b0,
                               uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(top[0]), "r"(bottom[0]), "r"(top[1]), "r"(bottom[1]), "r"(b0), "r"(b1));
}

// Volatile, so that the compiler does not move it: it must be well ahead of its use.
RF_DEVICE uint4 load_weights(const uint8_t* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

template <class Block, uint32_t kRows>
class FloatStream {
  static constexpr uint32_t kWarps = float_stream_threads(kRows) / 32;
  static constexpr uint32_t kWays = kFloatStreamWays, kSlots = kWarps / kWays;
  static constexpr uint32_t kSums = kRows == 1 ? 2 : 4;
  static constexpr uint32_t kBatch = float_stream_batch(kRows);
  static constexpr uint32_t kSteps = 2;  // of 32 columns, in a quarter of a piece
  // Quarters loaded before the inputs; with one row, as many as the inputs leave registers for.
  static constexpr uint32_t kEarly = kRows == 1 ? 1 : 4;
  static constexpr uint32_t kQuarterBytes = kStreamColumns / 4 * 2;
  struct Halves {  // the part of a Strip that StreamInputs uses
    static constexpr bool kWide = true, kBottoms = false;
    static constexpr uint32_t kScales = 0;
  };
  using Quarter = uint4[kSteps][2];

 public:
  RF_DEVICE FloatStream(const StreamArgs& a, uint8_t* shared)
      : args_(a),
        n_pieces_(a.width / kStreamColumns),
        slot_(wave() / kWays),
        way_(wave() % kWays),
        phase_(kRows == 1 || n_pieces_ <= 16 ? n_pieces_ : 16),
        inputs_(a, phase_, shared) {
    uint32_t n_strips = 0;
    for (uint32_t p = 0; p < a.n_parts; p++) n_strips += strips_of(p);
    if (activates()) n_strips = strips_of(0);
    n_items_ = (n_strips + a.n_blocks - 1 - block()) / a.n_blocks * (activates() ? 2 : 1);
  }

  RF_DEVICE void run() {
    Cursor ahead{way_, slot_, 0};
    if (slot_ >= n_items_) ahead.piece = n_pieces_;
    Quarter raw[4];
    HeldInputs<kWarps> held;
    if constexpr (kRows == 1) held.ask_for_norm(args_);
    RF_UNROLL
    for (uint32_t q = 0; q < kEarly; q++) fetch(raw[q], ahead, q);
    wait_for_inputs();
    if constexpr (kRows == 1) {
      held.ask(args_);
      inputs_.prepare(held);
    } else {
      inputs_.prepare();
    }
    sync_block();
    RF_UNROLL
    for (uint32_t q = kEarly; q < 4; q++) fetch(raw[q], ahead, q);
    for (uint32_t begin = 0; begin < n_pieces_; begin += phase_) {
      const uint32_t end = begin + phase_ < n_pieces_ ? begin + phase_ : n_pieces_;
      if (begin > 0) {
        sync_block();  // the previous phase's inputs have been used
        for (uint32_t piece = begin + wave(); piece < end; piece += kWarps) inputs_.convert(piece, begin);
        sync_block();
      }
      for (uint32_t first = 0; first < n_items_; first += kBatch * kSlots) {
        if (first > 0 && end == n_pieces_) sync_block();  // the previous sums have been used
        for (uint32_t i = 0; i < kBatch; i++) {
          const uint32_t item = first + i * kSlots + slot_;
          if (item >= n_items_) break;
          float total[kSums] = {};
          if (begin > 0) take_up(total, item);
          for (uint32_t piece = begin + way_; piece < end; piece += kWays) {
            float c[4] = {};
            RF_UNROLL
            for (uint32_t q = 0; q < 4; q++) {
              multiply(c, raw[q], piece - begin, q);
              if (q == 0) advance(ahead);
              fetch(raw[q], ahead, q);
            }
            add(total, c, piece - begin);
          }
          if (end < n_pieces_) {
            put_by(total, item);
          } else {
            put_sums(total, item - first);
          }
        }
        if (end < n_pieces_) continue;
        sync_block();
        finish(first);
      }
    }
  }

 private:
  struct Where {
    uint32_t part, strip;
  };
  // A warp's pieces in the order in which run() takes them; past the end, piece is n_pieces_ or more.
  struct Cursor {
    uint32_t piece, item;
    uint32_t begin;  // of the phase
  };

  RF_DEVICE uint32_t block() const { return block_x() - args_.first_block; }
  RF_DEVICE bool activates() const { return args_.after != StreamAfter::store; }
  RF_DEVICE uint32_t strips_of(uint32_t part) const { return args_.parts[part].n_out / kStreamOutputs; }
  RF_DEVICE Where where(uint32_t item) const {
    if (activates()) return {item % 2, block() + item / 2 * args_.n_blocks};
    Where w{0, block() + item * args_.n_blocks};
    while (w.part + 1 < args_.n_parts && w.strip >= strips_of(w.part)) w.strip -= strips_of(w.part++);
    return w;
  }

  RF_DEVICE void advance(Cursor& c) const {
    const uint32_t end = c.begin + phase_ < n_pieces_ ? c.begin + phase_ : n_pieces_;
    c.piece += kWays;
    if (c.piece < end) return;
    c.item += kSlots;
    if (c.item >= n_items_) {
      c.item = slot_;
      c.begin += phase_;
    }
    c.piece = c.begin + way_;
  }

  RF_DEVICE const uint8_t* address(const Cursor& c, uint32_t output) const {
    const Where w = where(c.item);
    return args_.parts[w.part].w.at[0] +
           (uint64_t{w.strip * kStreamOutputs + output} * args_.width + c.piece * kStreamColumns) * 2;
  }

  // Lane (g, t) takes columns 8t .. 8t + 7 of every 32, of outputs g and g + 8.
  RF_DEVICE void fetch(Quarter& raw, const Cursor& c, uint32_t quarter) const {
    if (c.piece >= n_pieces_) return;
    const uint8_t* from = address(c, lane() / 4) + quarter * kQuarterBytes + lane() % 4 * 16;
    RF_UNROLL
    for (uint32_t s = 0; s < kSteps; s++) {
      raw[s][0] = load_weights(from + 64 * s);
      raw[s][1] = load_weights(from + uint64_t{args_.width} * 16 + 64 * s);
    }
  }

  RF_DEVICE void multiply(float (&c)[4], const Quarter& raw, uint32_t place, uint32_t quarter) const {
    const uint8_t* inputs =
        inputs_.halves(place, kRows == 1 ? 0 : lane() / 4) + quarter * kQuarterBytes + lane() % 4 * 16;
    RF_UNROLL
    for (uint32_t s = 0; s < kSteps; s++) {
      const uint4 x = *reinterpret_cast<const uint4*>(inputs + 64 * s);
      uint32_t first[2][2], second[2][2];
      RF_UNROLL
      for (uint32_t r = 0; r < 2; r++) {
        pairs_of(first[r], raw[s][r].x, raw[s][r].y, Block{});
        pairs_of(second[r], raw[s][r].z, raw[s][r].w, Block{});
      }
      multiply_halves(c, first[0], first[1], x.x, x.y);
      multiply_halves(c, second[0], second[1], x.z, x.w);
    }
  }
  // With one row, every column of the right operand is that row; the first column's sums are used.
  RF_DEVICE void add(float (&total)[kSums], const float (&c)[4], uint32_t place) const {
    const float* factors = inputs_.factors(place) + (kRows == 1 ? 0 : lane() % 4 * 2);
    RF_UNROLL
    for (uint32_t i = 0; i < kSums; i++) {
      total[i] = fmaf(factors[kRows == 1 ? 0 : i % 2], c[kRows == 1 ? 2 * i : i], total[i]);
    }
  }

  // Partial sums between phases, lane by lane.
  RF_DEVICE float4* carried(uint32_t item) const {
    return reinterpret_cast<float4*>(sums_of(kBatch * kSlots, 0)) + (item * kWays + way_) * 32 + lane();
  }
  RF_DEVICE void put_by(const float (&total)[kSums], uint32_t item) const {
    if constexpr (kRows > 1) *carried(item) = {total[0], total[1], total[2], total[3]};
  }
  RF_DEVICE void take_up(float (&total)[kSums], uint32_t item) const {
    if constexpr (kRows > 1) {
      const float4 v = *carried(item);
      total[0] = v.x, total[1] = v.y, total[2] = v.z, total[3] = v.w;
    }
  }

  // The address of a warp's sums for an item of the batch; the outputs of a row are adjacent.
  RF_DEVICE float* sums_of(uint32_t item, uint32_t way) const {
    return inputs_.end() + (item * kWays + way) * kRows * kStreamSumStride;
  }
  RF_DEVICE void put_sums(const float (&total)[kSums], uint32_t item) const {
    const uint32_t g = lane() / 4, t = lane() % 4;
    float* to = sums_of(item, way_);
    if constexpr (kRows == 1) {
      if (t == 0) to[g] = total[0], to[g + 8] = total[1];
    } else {
      RF_UNROLL
      for (uint32_t i = 0; i < 4; i++) to[(2 * t + i % 2) * kStreamSumStride + g + i / 2 * 8] = total[i];
    }
  }
  RF_DEVICE float sum_of(uint32_t item, uint32_t row, uint32_t output) const {
    float sum = 0;
    RF_UNROLL
    for (uint32_t w = 0; w < kWays; w++) sum += sums_of(item, w)[row * kStreamSumStride + output];
    return sum;
  }

  // The items of a batch, whose sums are there.
  RF_DEVICE void finish(uint32_t first) const {
    const uint32_t left = n_items_ - first, n = left < kBatch * kSlots ? left : kBatch * kSlots;
    const uint32_t at_once = activates() ? 2 : 1;
    for (uint32_t i = thread_index(); i < n / at_once * kStreamOutputs * kRows; i += 32 * kWarps) {
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
  uint32_t slot_, way_;  // this warp's: which of the strips at a time, and which of its pieces
  uint32_t phase_;       // pieces whose inputs are held at a time
  uint32_t n_items_;     // strips of this block
  StreamInputs<Halves, kRows, kWarps> inputs_;
};

template <class Block, uint32_t kRows>
RF_DEVICE void stream_floats(const StreamArgs& args) {
  RF_DYNAMIC_SHARED(uint8_t, shared);
  let_next_begin();
  FloatStream<Block, kRows>(args, shared).run();
}

#else

template <class Block, uint32_t kRows>
RF_DEVICE void stream_floats(const StreamArgs&) {}

#endif

#define RF_STREAM_FLOATS(name, Block, rows)                                         \
  RF_KERNEL_EARLY(stream_##name##_##rows, StreamArgs, float_stream_threads(rows)) { \
    stream_floats<Block, rows>(args);                                               \
  }
RF_STREAM_FLOATS(f16, formats::PlainF16, 1)
RF_STREAM_FLOATS(f16, formats::PlainF16, 8)
RF_STREAM_FLOATS(bf16, formats::PlainBf16, 1)
RF_STREAM_FLOATS(bf16, formats::PlainBf16, 8)

}  // namespace rocmforge::gpu::RF_KERNELS
