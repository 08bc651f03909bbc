// Inputs of products of many rows (kernels/stream_many_hopper.h): a block takes a row, its warps 256 columns each.

#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

class ManyInputs {
  static constexpr uint32_t kWarps = kManyInputsThreads / 32;

 public:
  RF_DEVICE ManyInputs(const ManyInputsArgs& a, float* partial)
      : args_(a), n_pieces_(a.width / kStreamColumns), row_(block_x()), squares_(partial) {}

  RF_DEVICE void run() const {
    const uint32_t piece = wave() + kWarps * block_y();
    const bool normalises = args_.norm_weight != nullptr;
    float weights[8];
    if (normalises && piece < n_pieces_) load(weights, args_.norm_weight + piece * kStreamColumns);
    wait_for_inputs();
    float v[8];
    if (piece < n_pieces_) load(v, args_.x + column(piece));
    if (normalises) {
      const float scale = scale_of_row(v);
      if (piece < n_pieces_) normalise(v, scale, weights, piece);
    }
    if (piece >= n_pieces_) return;
    const float factor = shrink(v);
    const uint4 halves{pair(v[0], v[2]), pair(v[1], v[3]), pair(v[4], v[6]), pair(v[5], v[7])};
    for (uint32_t i = 0; i < args_.n_orders; i++) put(i, piece, halves, factor);
  }

 private:
  RF_DEVICE static uint32_t pair(float first, float second) {
    const __half2 both = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
  RF_DEVICE static float added(uint32_t bits) {
    const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&bits));
    return both.x + both.y;
  }
  RF_DEVICE uint64_t column(uint32_t piece) const {
    return static_cast<uint64_t>(row_) * args_.width + piece * kStreamColumns;
  }
  RF_DEVICE static void load(float (&v)[8], const float* from) {
    const auto* at = reinterpret_cast<const float4*>(from + 8 * lane());
    const float4 a = at[0], b = at[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  }

  // mine: this warp's piece
  RF_DEVICE float scale_of_row(const float (&mine)[8]) const {
    for (uint32_t piece = wave(); piece < n_pieces_; piece += kWarps) {
      float v[8];
      if (n_pieces_ <= kWarps) {
        RF_UNROLL
        for (uint32_t e = 0; e < 8; e++) v[e] = mine[e];
      } else {
        load(v, args_.x + column(piece));
      }
      float sum = 0;
      RF_UNROLL
      for (uint32_t e = 0; e < 8; e++) sum = fmaf(v[e], v[e], sum);
      sum = wave_sum(sum);
      if (lane() == 0) squares_[piece] = sum;
    }
    sync_block();
    float squares = 0;
    for (uint32_t p = lane(); p < n_pieces_; p += 32) squares += squares_[p];
    return 1.0f / sqrt_f32(wave_sum(squares) / static_cast<float>(args_.width) + args_.epsilon);
  }
  RF_DEVICE void normalise(float (&v)[8], float scale, const float (&weights)[8], uint32_t piece) const {
    RF_UNROLL
    for (uint32_t e = 0; e < 8; e++) v[e] = v[e] * scale * weights[e];
    if (args_.normed != nullptr) {
      auto* to = reinterpret_cast<float4*>(args_.normed + column(piece) + 8 * lane());
      to[0] = {v[0], v[1], v[2], v[3]};
      to[1] = {v[4], v[5], v[6], v[7]};
    }
  }
  // Inputs that a half could not hold are scaled down by a power of two.
  RF_DEVICE static float shrink(float (&v)[8]) {
    uint32_t largest = 0;
    RF_UNROLL
    for (uint32_t e = 0; e < 8; e++) largest = max(largest, __float_as_uint(v[e]) & 0x7FFFFFFFu);
    largest = __reduce_max_sync(~0u, largest);
    constexpr uint32_t kFine = (127 + 10) << 23;  // below 2^10 a half holds the sum of 32, too
    if (largest < kFine) return 1.0f;
    const uint32_t down = (largest >> 23) - (127 + 9);
    const float by = __uint_as_float((127 - down) << 23);
    RF_UNROLL
    for (uint32_t e = 0; e < 8; e++) v[e] *= by;
    return __uint_as_float((127 + down) << 23);
  }

  // Lane 4q + t has columns 8t .. 8t + 7 of the 32 of number q.
  RF_DEVICE void put(uint32_t which, uint32_t piece, const uint4& halves, float factor) const {
    const ManyOrder order = args_.orders[which];
    const uint32_t n_scales = order == ManyOrder::narrow_two_scales ? 2 : 1, rows = args_.rows_at_once;
    uint8_t* out = args_.out[which] + static_cast<uint64_t>(row_ / rows * n_pieces_ + piece) * args_.place_bytes[which];
    float sum = added(halves.x) + added(halves.y) + (added(halves.z) + added(halves.w));
    sum += shuffle_xor(sum, 1);
    if (n_scales == 1) sum += shuffle_xor(sum, 2);
    const F16 near = narrow(sum), rest = narrow(sum - widen(near));  // as two halves: the nearest, and what it leaves
    const uint32_t lanes = 4 / n_scales;                             // of a group
    const bool has_sum = lane() % lanes == 0;
    if (args_.layout == ManyLayout::fragments) {
      put_fragments(out, order == ManyOrder::wide, halves);
      if (has_sum) put_sum_of_fragments(out + rows * 512, n_scales, lane() / lanes, near, rest);
    } else {
      put_panels(out, order == ManyOrder::wide, halves);
      if (has_sum) put_plain_sum(out + rows * 512, n_scales, lane() / lanes, near, rest);
    }
    if (lane() == 0) reinterpret_cast<float*>(out + rows * (512 + 32 * n_scales))[row_ % rows] = factor;
  }

  RF_DEVICE void put_fragments(uint8_t* out, bool is_wide, const uint4& halves) const {
    const uint32_t rows = args_.rows_at_once, row = row_ % rows, t = lane() % 4;
    uint8_t* to = out + (lane() / 4 * (rows / 8) + row / 8) * 512 + row % 8 * 64;
    if (is_wide) {
      *reinterpret_cast<uint4*>(to + 16 * t) = halves;
    } else {  // columns 8t .. are of half t / 2, and of lanes 2 (t % 2) and the next one
      uint8_t* at = to + t % 2 * 32 + t / 2 * 8;
      *reinterpret_cast<uint2*>(at) = {halves.x, halves.y};
      *reinterpret_cast<uint2*>(at + 16) = {halves.z, halves.w};
    }
  }
  // Lane t of the product takes groups 2t and 2t + 1 of eight.
  RF_DEVICE void put_sum_of_fragments(uint8_t* sums, uint32_t n_scales, uint32_t group, F16 near, F16 rest) const {
    const uint32_t row = row_ % args_.rows_at_once;
    auto* at = reinterpret_cast<uint16_t*>(sums + (row / 8 * 32 + row % 8 * 4 + group % 8 / 2) * 8 * n_scales) +
               group / 8 * 2 + group % 2;
    at[0] = near.bits;
    at[2 * n_scales] = rest.bits;
  }

  // Four panels of 64 columns, rows of 128 bytes, of which the sixteen of number c lie at c ^ row % 8.
  RF_DEVICE void put_panels(uint8_t* out, bool is_wide, const uint4& halves) const {
    const uint32_t rows = args_.rows_at_once, row = row_ % rows, q = lane() / 4, t = lane() % 4;
    uint8_t* to = out + (q / 2 * rows + row) * 128;
    const auto sixteen = [&](uint32_t i) { return to + ((q % 2 * 4 + i) ^ row % 8) * 16; };
    if (is_wide) {
      *reinterpret_cast<uint32_t*>(sixteen(0) + 4 * t) = halves.x;
      *reinterpret_cast<uint32_t*>(sixteen(1) + 4 * t) = halves.y;
      *reinterpret_cast<uint32_t*>(sixteen(2) + 4 * t) = halves.z;
      *reinterpret_cast<uint32_t*>(sixteen(3) + 4 * t) = halves.w;
    } else {
      *reinterpret_cast<uint2*>(sixteen(t / 2 * 2) + t % 2 * 8) = {halves.x, halves.z};
      *reinterpret_cast<uint2*>(sixteen(t / 2 * 2 + 1) + t % 2 * 8) = {halves.y, halves.w};
    }
  }
  // As wgmma::plain() takes them.
  RF_DEVICE void put_plain_sum(uint8_t* sums, uint32_t n_scales, uint32_t group, F16 near, F16 rest) const {
    const uint32_t rows = args_.rows_at_once, row = row_ % rows;
    uint8_t* at = sums + row / 8 * 256 + group / 8 * 128 + row % 8 * 16 + group % 8 * 2;
    *reinterpret_cast<uint16_t*>(at) = near.bits;
    *reinterpret_cast<uint16_t*>(at + (n_scales == 1 ? 128 : rows * 32)) = rest.bits;
  }

  const ManyInputsArgs& args_;
  uint32_t n_pieces_, row_;
  float* squares_;
};

#endif

RF_KERNEL_EARLY(stream_many_inputs, ManyInputsArgs, kManyInputsThreads) {
  let_next_begin();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  RF_SHARED(float[kManyMaxPieces], squares);
  ManyInputs(args, squares).run();
#endif
}

}  // namespace rocmforge::gpu::RF_KERNELS
