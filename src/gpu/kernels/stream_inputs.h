#pragma once
// The inputs of a streamed product (kernels/stream_hopper.h) as a block holds them: halves in the order in which lanes
// take them, and for the groups of a piece the sums that their bottoms are multiplied by.
//
// Inputs that a half could not hold are scaled down, each 256 of a row by a power of two of their own.

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

template <class S, uint32_t kRows, uint32_t kWarps>
class StreamInputs {
 public:
  static constexpr uint32_t kSumBytes = 32 * S::kScales;  // of a row and piece

  // `memory` is shared; what it takes of it ends at end().
  RF_DEVICE StreamInputs(const StreamArgs& a, uint8_t* memory)
      : args_(a),
        n_pieces_(a.width / kStreamColumns),
        inputs_(memory),
        sums_(inputs_ + a.phase * kRows * kStreamRowBytes),
        factors_(reinterpret_cast<float*>(sums_ + a.phase * kRows * kSumBytes)),
        squares_(factors_ + a.phase * kRows) {}
  RF_DEVICE float* end() const { return squares_ + n_pieces_ * kRows; }

  // Of a row, at a place in the phase.
  RF_DEVICE const uint8_t* halves(uint32_t place, uint32_t row) const {
    return inputs_ + (place * kRows + row) * kStreamRowBytes;
  }
  RF_DEVICE const uint8_t* sums(uint32_t place, uint32_t row) const {
    return sums_ + (place * kRows + row) * kSumBytes;
  }
  RF_DEVICE const float* factors(uint32_t place) const { return factors_ + place * kRows; }

  // One row: what a warp prepares is asked for ahead of its use, weights of the norm even before the inputs are there.
  RF_DEVICE void ask_for_norm() {
    if (args_.norm_weight == nullptr) return;
    RF_UNROLL
    for (uint32_t i = 0; i < kHeld; i++) {
      if (held(i) < n_pieces_) load(held_norm_[i], args_.norm_weight + held(i) * kStreamColumns);
    }
  }
  RF_DEVICE void ask() {
    RF_UNROLL
    for (uint32_t i = 0; i < kHeld; i++) {
      if (held(i) < n_pieces_) load(held_[i], held(i));
    }
  }

  // The first phase's inputs; those of one row have been asked for. Warps prepare every kWarps-th piece each, and may
  // not be done yet: others than a warp's own are there after a sync_block().
  RF_DEVICE void prepare() {
    if constexpr (kRows == 1) {
      prepare_held();
    } else {
      prepare_now();
    }
  }

  // A piece of the inputs as halves, with the sums of its groups; `begin` is its phase's first.
  RF_DEVICE void convert(uint32_t piece, uint32_t begin) {
    float v[kRows][8], norm[8];
    load(v, piece);
    if (args_.norm_weight != nullptr) load(norm, args_.norm_weight + piece * kStreamColumns);
    convert(v, norm, piece, begin);
  }

 private:
  static constexpr uint32_t kHeld = kRows == 1 ? 4 : 0;
  RF_DEVICE static uint32_t held(uint32_t i) { return wave() + i * kWarps; }  // a piece

  RF_DEVICE void prepare_held() {
    if (args_.norm_weight != nullptr) {
      RF_UNROLL
      for (uint32_t i = 0; i < kHeld; i++) {
        if (held(i) < n_pieces_) add_squares(held_[i], held(i));
      }
      add_squares_from(held(kHeld));
      sync_block();
    }
    RF_UNROLL
    for (uint32_t i = 0; i < kHeld; i++) {
      if (held(i) < n_pieces_) convert(held_[i], held_norm_[i], held(i), 0);
    }
    for (uint32_t piece = held(kHeld); piece < n_pieces_; piece += kWarps) convert(piece, 0);
  }
  // A warp's first piece is read once, even if it has to be normalised.
  RF_DEVICE void prepare_now() {
    float v[kRows][8], norm[8];
    if (args_.norm_weight != nullptr) add_squares_from(held(1));
    if (held(0) < n_pieces_) load(v, held(0));
    if (args_.norm_weight != nullptr) {
      if (held(0) < n_pieces_) add_squares(v, held(0));
      sync_block();
      if (held(0) < n_pieces_) load(norm, args_.norm_weight + held(0) * kStreamColumns);
    }
    if (held(0) < n_pieces_) convert(v, norm, held(0), 0);
    for (uint32_t piece = held(1); piece < args_.phase; piece += kWarps) convert(piece, 0);
  }
  RF_DEVICE void add_squares_from(uint32_t first) const {
    for (uint32_t piece = first; piece < n_pieces_; piece += kWarps) {
      float v[kRows][8];
      load(v, piece);
      add_squares(v, piece);
    }
  }

  RF_DEVICE static void load(float (&v)[8], const float* from) {
    const auto* at = reinterpret_cast<const float4*>(from + 8 * lane());
    const float4 a = at[0], b = at[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  }
  // Eight columns of every row, lane by lane. Rows past the end repeat the last one.
  RF_DEVICE void load(float (&v)[kRows][8], uint32_t piece) const {
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) {
      const uint32_t row = r < args_.n_rows ? r : args_.n_rows - 1;
      load(v[r], args_.x + static_cast<uint64_t>(row) * args_.width + piece * kStreamColumns);
    }
  }

  RF_DEVICE void add_squares(const float (&v)[kRows][8], uint32_t piece) const {
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) {
      float sum = 0;
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) sum = fmaf(v[r][e], v[r][e], sum);
      sum = wave_sum(sum);
      if (lane() == 0) squares_[r * n_pieces_ + piece] = sum;
    }
  }

  RF_DEVICE void convert(float (&v)[kRows][8], const float (&norm)[8], uint32_t piece, uint32_t begin) {
    RF_UNROLL
    for (uint32_t r = 0; r < kRows; r++) {
      if (r >= args_.n_rows) break;
      if (args_.norm_weight != nullptr) {
        float squares = 0;
        for (uint32_t p = lane(); p < n_pieces_; p += 32) squares += squares_[r * n_pieces_ + p];
        const float scale = 1.0f / sqrt_f32(wave_sum(squares) / static_cast<float>(args_.width) + args_.epsilon);
        RF_UNROLL
        for (uint32_t e = 0; e < 8; e++) v[r][e] = v[r][e] * scale * norm[e];
        if (block_x() == args_.first_block && args_.normed != nullptr) {
          auto* to = reinterpret_cast<float4*>(args_.normed + static_cast<uint64_t>(r) * args_.width +
                                               piece * kStreamColumns + 8 * lane());
          to[0] = {v[r][0], v[r][1], v[r][2], v[r][3]};
          to[1] = {v[r][4], v[r][5], v[r][6], v[r][7]};
        }
      }
      put_halves(v[r], r, piece - begin);
    }
  }

  RF_DEVICE void put_halves(float (&v)[8], uint32_t row, uint32_t place) {
    uint32_t largest = 0;
    RF_UNROLL
    for (uint32_t e = 0; e < 8; e++) largest = max(largest, __float_as_uint(v[e]) & 0x7FFFFFFFu);
    largest = __reduce_max_sync(~0u, largest);
    float factor = 1.0f;
    constexpr uint32_t kFine = (127 + 10) << 23;  // below 2^10 a half holds the sum of 32, too
    if (largest >= kFine) {
      const uint32_t down = (largest >> 23) - (127 + 9);
      factor = __uint_as_float((127 + down) << 23);
      const float shrink = __uint_as_float((127 - down) << 23);
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) v[e] *= shrink;
    }
    const uint4 halves{half_pair(v[0], v[2]), half_pair(v[1], v[3]), half_pair(v[4], v[6]), half_pair(v[5], v[7])};
    uint8_t* to = inputs_ + (place * kRows + row) * kStreamRowBytes + lane() / 4 * 64;
    const uint32_t t = lane() % 4;
    if constexpr (S::kWide) {
      *reinterpret_cast<uint4*>(to + 16 * t) = halves;
    } else {  // columns 8t .. are of half t / 2, and of lanes 2 (t % 2) and the next one
      uint8_t* at = to + t % 2 * 32 + t / 2 * 8;
      *reinterpret_cast<uint2*>(at) = {halves.x, halves.y};
      *reinterpret_cast<uint2*>(at + 16) = {halves.z, halves.w};
    }
    if (lane() == 0) factors_[place * kRows + row] = factor;
    if constexpr (S::kBottoms) {
      float sum = sum_of_pair(halves.x) + sum_of_pair(halves.y) + (sum_of_pair(halves.z) + sum_of_pair(halves.w));
      sum += shuffle_xor(sum, 1);
      if constexpr (S::kScales == 1) sum += shuffle_xor(sum, 2);
      // As two halves: the nearest, and what it leaves.
      const F16 near = narrow(sum), rest = narrow(sum - widen(near));
      constexpr uint32_t kLanes = 4 / S::kScales;  // of a group
      auto* sums = reinterpret_cast<uint16_t*>(sums_ + (place * kRows + row) * kSumBytes);
      if (lane() % kLanes == 0) {
        sums[lane() / kLanes] = near.bits;
        sums[8 * S::kScales + lane() / kLanes] = rest.bits;
      }
    }
  }

  const StreamArgs& args_;
  uint32_t n_pieces_;
  uint8_t *inputs_, *sums_;
  float *factors_, *squares_;
  float held_[kHeld + 1][kRows][8], held_norm_[kHeld + 1][8];
};

}  // namespace rocmforge::gpu::RF_KERNELS
