#pragma once
// The inputs of a streamed product (kernels/stream_hopper.h) in a block's shared memory: halves in the order in which
// lanes use them, and the sums of a piece's groups, which the minima are multiplied by.
//
// Inputs beyond the range of halves are scaled down: each 256 columns of a row have a power of two of their own.

#include "gpu/kernels/stream_hopper.h"
#include "gpu/packed/strips.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

RF_DEVICE uint32_t half_pair(float first, float second) {
  const __half2 both = __floats2half2_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&both);
}
RF_DEVICE float sum_of_pair(uint32_t bits) {
  const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&bits));
  return both.x + both.y;
}

RF_DEVICE void load_eight(float (&v)[8], const float* from) {
  const auto* at = reinterpret_cast<const float4*>(from + 8 * lane());
  const float4 a = at[0], b = at[1];
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

// Scales 256 inputs, eight per lane, down by a power of two if a half could not hold one. Returns the factor that
// undoes it.
RF_DEVICE float shrink(float (&v)[8]) {
  uint32_t largest = 0;
  RF_UNROLL
  for (uint32_t e = 0; e < 8; e++) largest = max(largest, __float_as_uint(v[e]) & 0x7FFFFFFFu);
  largest = __reduce_max_sync(~0u, largest);
  constexpr uint32_t kFine = (127 + 10) << 23;  // below 2^10 a half also holds the sum of 32 inputs
  if (largest < kFine) return 1.0f;
  const uint32_t down = (largest >> 23) - (127 + 9);
  const float by = __uint_as_float((127 - down) << 23);
  RF_UNROLL
  for (uint32_t e = 0; e < 8; e++) v[e] *= by;
  return __uint_as_float((127 + down) << 23);
}

// A warp's part of a row to prepare, loaded ahead of its use: every kWarps-th piece; the norm's weights are loaded
// even before the inputs exist.
template <uint32_t kWarps>
class HeldInputs {
 public:
  // Pieces held without a norm, and with one, which takes twice the room.
  static constexpr uint32_t kPlain = 4, kNormed = 2;

  RF_DEVICE float (&x(uint32_t i))[8] { return v_[i]; }
  RF_DEVICE float (&norm(uint32_t i))[8] { return v_[kNormed + i]; }

  RF_DEVICE void ask_for_norm(const StreamArgs& args) {
    if (args.norm_weight == nullptr) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kNormed; i++) load(norm(i), args.norm_weight, i, args.width);
  }
  RF_DEVICE void ask(const StreamArgs& args) {
    RF_UNROLL
    for (uint32_t i = 0; i < kPlain; i++) {
      if (i >= kNormed && args.norm_weight != nullptr) break;
      load(x(i), args.x, i, args.width);
    }
  }

 private:
  RF_DEVICE static void load(float (&v)[8], const float* from, uint32_t i, uint32_t width) {
    const uint32_t column = (wave() + i * kWarps) * kStreamColumns;
    if (column < width) load_eight(v, from + column);
  }
  float v_[kPlain][8];
};

template <class S, uint32_t kRows, uint32_t kWarps>
class StreamInputs {
 public:
  static constexpr uint32_t kSumBytes = 32 * S::kScales;  // per row and piece

  // Holds `phase` pieces at a time. `memory` is shared; the part in use ends at end().
  RF_DEVICE StreamInputs(const StreamArgs& a, uint32_t phase, uint8_t* memory)
      : args_(a),
        n_pieces_(a.width / kStreamColumns),
        inputs_(memory),
        phase_(phase),
        sums_(inputs_ + phase * kRows * kStreamRowBytes),
        factors_(reinterpret_cast<float*>(sums_ + phase * kRows * kSumBytes)),
        squares_(factors_ + phase * kRows) {}
  RF_DEVICE float* end() const { return squares_ + n_pieces_ * kRows; }

  // The halves of a row, by index in the phase.
  RF_DEVICE const uint8_t* halves(uint32_t place, uint32_t row) const {
    return inputs_ + (place * kRows + row) * kStreamRowBytes;
  }
  RF_DEVICE const uint8_t* sums(uint32_t place, uint32_t row) const {
    return sums_ + (place * kRows + row) * kSumBytes;
  }
  RF_DEVICE const float* factors(uint32_t place) const { return factors_ + place * kRows; }

  // Prepares the first phase's inputs. Each warp prepares every kWarps-th piece and may still be busy on return: other
  // warps' pieces are ready after a sync_block().
  RF_DEVICE void prepare(HeldInputs<kWarps>& held) {
    static_assert(kRows == 1);
    using Held = HeldInputs<kWarps>;
    if (args_.norm_weight == nullptr) {
      prepare<Held::kPlain>(held);
      return;
    }
    RF_UNROLL
    for (uint32_t i = 0; i < Held::kNormed; i++) {
      if (mine(i) < n_pieces_) add_squares(0, held.x(i), mine(i));
    }
    add_squares_from(mine(Held::kNormed));
    sync_block();
    prepare<Held::kNormed>(held);
  }
  // A warp's first piece is read once, even if it must be normalised.
  RF_DEVICE void prepare() {
    float v[kRows][8], norm[8];
    if (args_.norm_weight != nullptr) add_squares_from(mine(1));
    if (mine(0) < n_pieces_) load(v, mine(0));
    if (args_.norm_weight != nullptr) {
      if (mine(0) < n_pieces_) add_squares(v, mine(0));
      sync_block();
      if (mine(0) < n_pieces_) load_eight(norm, args_.norm_weight + mine(0) * kStreamColumns);
    }
    if (mine(0) < n_pieces_) convert(v, norm, mine(0), 0);
    for (uint32_t piece = mine(1); piece < phase_; piece += kWarps) convert(piece, 0);
  }

  // Converts a piece of the inputs to halves and the sums of its groups; `begin` is the first piece of its phase.
  RF_DEVICE void convert(uint32_t piece, uint32_t begin) {
    float v[kRows][8], norm[8];
    load(v, piece);
    if (args_.norm_weight != nullptr) load_eight(norm, args_.norm_weight + piece * kStreamColumns);
    convert(v, norm, piece, begin);
  }

 private:
  RF_DEVICE static uint32_t mine(uint32_t i) { return wave() + i * kWarps; }  // this warp's i-th piece

  template <uint32_t kHeld>
  RF_DEVICE void prepare(HeldInputs<kWarps>& held) {
    RF_UNROLL
    for (uint32_t i = 0; i < kHeld; i++) {
      if (mine(i) >= n_pieces_) break;
      convert_row(held.x(i), held.norm(i % HeldInputs<kWarps>::kNormed), 0, mine(i), 0);
    }
    for (uint32_t piece = mine(kHeld); piece < n_pieces_; piece += kWarps) convert(piece, 0);
  }
  RF_DEVICE void add_squares_from(uint32_t first) const {
    for (uint32_t piece = first; piece < n_pieces_; piece += kWarps) {
      float v[kRows][8];
      load(v, piece);
      add_squares(v, piece);
    }
  }

  // Loads eight columns per lane of every row. Rows past the end repeat the last one.
  RF_DEVICE void load(float (&v)[kRows][8], uint32_t piece) const {
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) {
      const uint32_t row = r < args_.n_rows ? r : args_.n_rows - 1;
      load_eight(v[r], args_.x + static_cast<uint64_t>(row) * args_.width + piece * kStreamColumns);
    }
  }

  RF_DEVICE void add_squares(const float (&v)[kRows][8], uint32_t piece) const {
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) add_squares(r, v[r], piece);
  }
  RF_DEVICE void add_squares(uint32_t row, const float (&v)[8], uint32_t piece) const {
    float sum = 0;
    RF_UNROLL
    for (uint32_t e = 0; e < 8; e++) sum = fmaf(v[e], v[e], sum);
    sum = wave_sum(sum);
    if (lane() == 0) squares_[row * n_pieces_ + piece] = sum;
  }

  RF_DEVICE void convert(float (&v)[kRows][8], const float (&norm)[8], uint32_t piece, uint32_t begin) {
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) {
      if (r < args_.n_rows) convert_row(v[r], norm, r, piece, begin);
    }
  }
  RF_DEVICE void convert_row(float (&v)[8], const float (&norm)[8], uint32_t row, uint32_t piece, uint32_t begin) {
    if (args_.norm_weight != nullptr) {
      float squares = 0;
      for (uint32_t p = lane(); p < n_pieces_; p += 32) squares += squares_[row * n_pieces_ + p];
      const float scale = 1.0f / sqrt_f32(wave_sum(squares) / static_cast<float>(args_.width) + args_.epsilon);
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) v[e] = v[e] * scale * norm[e];
      if (block_x() == args_.first_block && args_.normed != nullptr) {
        auto* to = reinterpret_cast<float4*>(args_.normed + static_cast<uint64_t>(row) * args_.width +
                                             piece * kStreamColumns + 8 * lane());
        to[0] = {v[0], v[1], v[2], v[3]};
        to[1] = {v[4], v[5], v[6], v[7]};
      }
    }
    put_halves(v, row, piece - begin);
  }

  RF_DEVICE void put_halves(float (&v)[8], uint32_t row, uint32_t place) {
    const float factor = shrink(v);
    const uint4 halves{half_pair(v[0], v[2]), half_pair(v[1], v[3]), half_pair(v[4], v[6]), half_pair(v[5], v[7])};
    uint8_t* to = inputs_ + (place * kRows + row) * kStreamRowBytes + lane() / 4 * 64;
    const uint32_t t = lane() % 4;
    if constexpr (S::kWide) {
      *reinterpret_cast<uint4*>(to + 16 * t) = halves;
    } else {  // columns from 8t on are of half t / 2, and of lanes 2 (t % 2) and the next one
      uint8_t* at = to + t % 2 * 32 + t / 2 * 8;
      *reinterpret_cast<uint2*>(at) = {halves.x, halves.y};
      *reinterpret_cast<uint2*>(at + 16) = {halves.z, halves.w};
    }
    if (lane() == 0) factors_[place * kRows + row] = factor;
    if constexpr (S::kBottoms) {
      float sum = sum_of_pair(halves.x) + sum_of_pair(halves.y) + (sum_of_pair(halves.z) + sum_of_pair(halves.w));
      sum += shuffle_xor(sum, 1);
      if constexpr (S::kScales == 1) sum += shuffle_xor(sum, 2);
      // As two halves: the nearest, and the remainder.
      const F16 near = narrow(sum), rest = narrow(sum - widen(near));
      constexpr uint32_t kLanes = 4 / S::kScales;  // per group
      auto* sums = reinterpret_cast<uint16_t*>(sums_ + (place * kRows + row) * kSumBytes);
      if (lane() % kLanes == 0) {
        sums[lane() / kLanes] = near.bits;
        sums[8 * S::kScales + lane() / kLanes] = rest.bits;
      }
    }
  }

  const StreamArgs& args_;
  uint32_t n_pieces_;
  uint8_t* inputs_;
  uint32_t phase_;
  uint8_t* sums_;
  float *factors_, *squares_;
};

}  // namespace rocmforge::gpu::RF_KERNELS
