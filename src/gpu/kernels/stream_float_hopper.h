#pragma once
// Products of F16 and BF16 weights with up to eight rows of activations on Hopper: kernels/stream_hopper.h for weights
// that need no decoding. The same StreamArgs, and batch invariance as there: a row's bits do not depend on the other
// rows.
//
// Kernels: stream_f16_1, stream_f16_8, stream_bf16_1 and stream_bf16_8.

#include <cstdint>

#include "gpu/kernels/stream_hopper.h"

namespace rocmforge::gpu {

// Warps that divide a strip, each with pieces of its own.
inline constexpr uint32_t kFloatStreamWays = 8;

// Threads per block of the kernel for `rows` rows. Preparing eight rows takes registers that only half as many threads
// have.
constexpr uint32_t float_stream_threads(uint32_t rows) {
  return rows == 1 ? 512 : 256;
}

// Strips whose epilogues run together.
constexpr uint32_t float_stream_batch(uint32_t rows) {
  return rows == 1 ? 8 : 2;
}

// Pieces of the width held as halves at a time, when eight rows are too many to hold all.
inline constexpr uint32_t kFloatStreamPhase = 16;

// n_items: the largest number of strips of a block.
constexpr uint32_t float_stream_shared_bytes(uint32_t n_pieces, uint32_t rows, uint32_t n_items) {
  const uint32_t phase = rows == 1 || n_pieces <= kFloatStreamPhase ? n_pieces : kFloatStreamPhase;
  const uint32_t n_warps = float_stream_threads(rows) / 32;
  const uint32_t inputs = phase * rows * (kStreamRowBytes + 4);
  const uint32_t squares = n_pieces * rows * 4;
  const uint32_t reduced = float_stream_batch(rows) * n_warps * rows * kStreamSumStride * 4;
  const uint32_t carried = phase < n_pieces ? n_items * kFloatStreamWays * 32 * 16 : 0;
  return inputs + squares + reduced + carried;
}

}  // namespace rocmforge::gpu
