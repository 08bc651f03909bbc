#pragma once
// Writes rows of activations in the layout of products of many rows (kernels/stream_many_hopper.h): a warp has 256
// columns of a row, a lane eight of them. For Hopper alone.

#include "gpu/kernels/stream_inputs.h"
#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// A power of two near the RMS scale of a row.
RF_DEVICE float row_lift(float scale) {
  return __uint_as_float(__float_as_uint(scale) & 0x7F800000u);
}

class ManyPut {
 public:
  RF_DEVICE ManyPut(const ManyOrders& to, uint32_t row, uint32_t n_pieces) : to_(to), row_(row), n_pieces_(n_pieces) {}

  // v: columns from 8 * lane() on of a piece.
  RF_DEVICE void operator()(uint32_t piece, float (&v)[8]) const {
    const float factor = shrink(v);
    const uint4 halves{half_pair(v[0], v[2]), half_pair(v[1], v[3]), half_pair(v[4], v[6]), half_pair(v[5], v[7])};
    for (uint32_t i = 0; i < to_.n; i++) put(i, piece, halves, factor);
  }

 private:
  // Lane 4q + t has columns 8t .. 8t + 7 of the q-th 32.
  RF_DEVICE void put(uint32_t which, uint32_t piece, const uint4& halves, float factor) const {
    const ManyOrder order = to_.orders[which];
    const uint32_t n_scales = order == ManyOrder::narrow_two_scales ? 2 : 1, rows = to_.rows_at_once;
    uint8_t* out = to_.out[which] + static_cast<uint64_t>(row_ / rows * n_pieces_ + piece) * to_.place_bytes[which];
    float sum = sum_of_pair(halves.x) + sum_of_pair(halves.y) + (sum_of_pair(halves.z) + sum_of_pair(halves.w));
    sum += shuffle_xor(sum, 1);
    if (n_scales == 1) sum += shuffle_xor(sum, 2);
    // the sum as two halves: the nearest, and the remainder
    const F16 near = narrow(sum), rest = narrow(sum - widen(near));
    const uint32_t lanes = 4 / n_scales;  // per group
    const bool has_sum = lane() % lanes == 0;
    if (to_.layout == ManyLayout::fragments) {
      put_fragments(out, order == ManyOrder::wide, halves);
      if (has_sum) put_sum_of_fragments(out + rows * 512, n_scales, lane() / lanes, near, rest);
    } else {
      put_panels(out, order == ManyOrder::wide, halves);
      if (has_sum) put_plain_sum(out + rows * 512, n_scales, lane() / lanes, near, rest);
    }
    if (lane() == 0) reinterpret_cast<float*>(out + rows * (512 + 32 * n_scales))[row_ % rows] = factor;
  }

  RF_DEVICE void put_fragments(uint8_t* out, bool is_wide, const uint4& halves) const {
    const uint32_t rows = to_.rows_at_once, row = row_ % rows, t = lane() % 4;
    uint8_t* to = out + (lane() / 4 * (rows / 8) + row / 8) * 512 + row % 8 * 64;
    if (is_wide) {
      *reinterpret_cast<uint4*>(to + 16 * t) = halves;
    } else {  // columns from 8t on are of half t / 2, and of lanes 2 (t % 2) and the next one
      uint8_t* at = to + t % 2 * 32 + t / 2 * 8;
      *reinterpret_cast<uint2*>(at) = {halves.x, halves.y};
      *reinterpret_cast<uint2*>(at + 16) = {halves.z, halves.w};
    }
  }
  // Lane t of the product takes groups 2t and 2t + 1 of eight.
  RF_DEVICE void put_sum_of_fragments(uint8_t* sums, uint32_t n_scales, uint32_t group, F16 near, F16 rest) const {
    const uint32_t row = row_ % to_.rows_at_once;
    auto* at = reinterpret_cast<uint16_t*>(sums + (row / 8 * 32 + row % 8 * 4 + group % 8 / 2) * 8 * n_scales) +
               group / 8 * 2 + group % 2;
    at[0] = near.bits;
    at[2 * n_scales] = rest.bits;
  }

  // Four panels of 64 columns with rows of 128 bytes; the 16-byte chunk number c is stored at c ^ row % 8.
  RF_DEVICE void put_panels(uint8_t* out, bool is_wide, const uint4& halves) const {
    const uint32_t rows = to_.rows_at_once, row = row_ % rows, q = lane() / 4, t = lane() % 4;
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
  // In the layout of wgmma::plain().
  RF_DEVICE void put_plain_sum(uint8_t* sums, uint32_t n_scales, uint32_t group, F16 near, F16 rest) const {
    const uint32_t rows = to_.rows_at_once, row = row_ % rows;
    uint8_t* at = sums + row / 8 * 256 + group / 8 * 128 + row % 8 * 16 + group % 8 * 2;
    *reinterpret_cast<uint16_t*>(at) = near.bits;
    *reinterpret_cast<uint16_t*>(at + (n_scales == 1 ? 128 : rows * 32)) = rest.bits;
  }

  const ManyOrders& to_;
  uint32_t row_, n_pieces_;
};

}  // namespace rocmforge::gpu::RF_KERNELS
