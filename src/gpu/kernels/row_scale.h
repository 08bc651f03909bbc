#pragma once
// The scale of a row converted to halves. A half holds at most 65504; an activation may be larger. A row with an
// element that would round to infinity is scaled down by a power of two, and the sums of its products are scaled up
// again in f32. Every other row has the scale 1 and does not change by a bit.
//
// The scale is exact. An element loses precision only where its half is subnormal: below 2^-28 of the row's largest.

#include "gpu/runtime.h"

namespace rocmforge::gpu::RF_KERNELS {

// The bits of |x|. They compare as magnitudes do; NaN is above infinity.
RF_DEVICE uint32_t magnitude(float x) {
  return float_to_bits(x) & 0x7FFFFFFFu;
}
RF_DEVICE uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

// Whether a finite number of this magnitude rounds to an infinite half: from 65520 on, half way beyond the largest.
RF_DEVICE bool overflows_half(uint32_t largest) {
  constexpr uint32_t kFirst = 0x477FF000u, kInfinity = 0x7F800000u;
  return largest >= kFirst && largest < kInfinity;
}

// The scale of a row with this largest magnitude, which becomes 2^14 .. 2^15. A row with an infinity or a NaN is left
// as it is: all its products are infinite or NaN anyway.
RF_DEVICE float scale_for_halves(uint32_t largest) {
  return overflows_half(largest) ? bits_to_float((127 + 127 + 14 - (largest >> 23)) << 23) : 1.0f;
}
// 1 / scale, for a power of two.
RF_DEVICE float undo_scale(float scale) {
  return bits_to_float((254u << 23) - float_to_bits(scale));
}

// A block converts a row to halves, in pieces of eight elements. load(v, piece) reads a piece, store(piece, halves)
// writes one. Every piece is first written unscaled; the row is read and written again only if it needs a scale, which
// is rare. Returns, to every thread, the factor that undoes the scale. `partial`: shared, one float per wave.
template <uint32_t kThreads, class Load, class Store>
RF_DEVICE float put_scaled_row(uint32_t n_pieces, float* partial, const Load& load, const Store& store) {
  constexpr uint32_t kAtOnce = 4;  // pieces of a thread in flight
  uint32_t largest = 0;
  const auto put = [&](float scale) {
    for (uint32_t first = thread_index(); first < n_pieces; first += kAtOnce * kThreads) {
      float v[kAtOnce][8];
      RF_UNROLL
      for (uint32_t i = 0; i < kAtOnce; i++) {
        if (first + i * kThreads < n_pieces) load(v[i], first + i * kThreads);
      }
      RF_UNROLL
      for (uint32_t i = 0; i < kAtOnce; i++) {
        if (first + i * kThreads >= n_pieces) break;
        Word4 halves;
        RF_UNROLL
        for (uint32_t e = 0; e < 8; e++) largest = larger(largest, magnitude(v[i][e]));
        RF_UNROLL
        for (uint32_t e = 0; e < 4; e++) halves.v[e] = two_halves_of(v[i][2 * e] * scale, v[i][2 * e + 1] * scale);
        store(first + i * kThreads, halves);
      }
    }
  };
  put(1.0f);
  const float scale = scale_for_halves(float_to_bits(block_max<kThreads>(bits_to_float(largest), partial)));
  if (scale != 1.0f) put(scale);
  return undo_scale(scale);
}

}  // namespace rocmforge::gpu::RF_KERNELS
