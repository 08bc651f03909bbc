#pragma once
// Products of quantized weights with one row of activations on NVIDIA's Hopper, fused with the norm before and the sum
// or activation after them. The kernel loads weights before it waits for its inputs, so that memory stays busy between
// products. The reference implementation is kernels/matvec.cu: the same products up to rounding.
//
// A strip is 16 outputs of a weight; a piece is 256 columns of a strip, the work of a warp at a time. The order of sums
// depends only on the width, and is the same for more rows (kernels/stream_many_hopper.h).

#include <cstdint>

#include "gpu/api.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/rope.h"

namespace rocmforge::gpu {

enum class StreamAfter : uint32_t { store, silu, gelu, clamped_swish };

// The role of a part in attention: queries and keys are rotated (RoPE), keys and values are stored in the cache.
enum class StreamRole : uint32_t { none, query, key, value };

// Kernels: stream_FORMAT_1. The kernels for more rows (kernels/stream_many_hopper.h) and for floats take the same
// struct.
struct StreamArgs {
  const float* x;  // n_rows x width
  // Not null: x is normalised first (root mean square), and the first block writes the result to `normed`, unless that
  // is null.
  const float* norm_weight = nullptr;
  float* normed = nullptr;
  float epsilon = 0;
  uint32_t n_rows = 0;
  uint32_t width = 0;  // a multiple of 256
  uint32_t n_parts = 0;
  MatvecPart parts[3] = {};
  // Not null: for a single part, sum[r] += sum_scale * out[r].
  float* sum = nullptr;
  float sum_scale = 1;
  // Not store: for two parts of equal size, activated[r] = activation(first) * second.
  StreamAfter after = StreamAfter::store;
  float* activated = nullptr;
  // For one row, where a part has a role: pairs are neighbours, and the RoPE factors are a weight.
  StreamRole roles[3] = {};
  bool caches_halves = false;  // the cache holds f16; else f32
  RopeStoreArgs turn = {};
  // The blocks of this product: see divide_stream().
  uint32_t first_block = 0, n_blocks = 0;
  uint32_t n_items = 0,
           // strips of a block (or pairs of a gate and an up strip); the first n_longer blocks have one more
      n_longer = 0;
};
// Divides strips, or pairs of them, among `n_blocks` blocks from `first_block` on.
constexpr void divide_stream(StreamArgs& args, uint32_t n_strips, uint32_t first_block, uint32_t n_blocks) {
  args.first_block = first_block;
  args.n_blocks = n_blocks;
  args.n_items = n_strips / n_blocks;
  args.n_longer = n_strips % n_blocks;
}
// Two formats in one launch: the first one's blocks come first.
struct StreamPairArgs {
  StreamArgs first, second;
};

inline constexpr uint32_t kStreamOutputs = 16;   // of a strip
inline constexpr uint32_t kStreamColumns = 256;  // per piece: what a warp processes at a time
inline constexpr uint32_t kStreamWarps = 16;
inline constexpr uint32_t kStreamThreads = 32 * kStreamWarps;
inline constexpr uint32_t kStreamStages = 2;      // pieces of a warp in flight or in use
inline constexpr uint32_t kStreamRowBytes = 576;  // a piece's 256 inputs as halves, padded against bank conflicts
inline constexpr uint32_t kStreamSumStride = 20;  // from one row's sixteen sums to the next one's
inline constexpr uint32_t kStreamMaxShared = 227 << 10;

// The layout of a format's pieces in shared memory (packed/strips.h).
struct StripShape {
  uint32_t stage_bytes;
  uint32_t n_scales;  // for 32 columns
};

// Only for formats with such kernels.
constexpr StripShape strip_shape(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::iq4_nl:
    case DType::iq4_xs:
    case DType::mxfp4:
      return {kStreamOutputs * 144, 1};
    case DType::q4_1:
    case DType::q5_0:
      return {kStreamOutputs * 176, 1};
    case DType::q5_1:
      return {kStreamOutputs * 208, 1};
    case DType::q8_0:
      return {kStreamOutputs * 288, 1};
    case DType::q2_k:
      return {kStreamOutputs * 112, 2};
    case DType::q3_k:
      return {kStreamOutputs * (112 + 4), 2};
    case DType::q4_k:
      return {kStreamOutputs * 160, 1};
    case DType::q5_k:
      return {kStreamOutputs * 224, 1};
    case DType::q6_k:
      return {kStreamOutputs * (208 + 4), 2};
    default:
      return {};
  }
}

// One per multiprocessor of an H100 or H200.
inline constexpr uint32_t kStreamBlocks = 132;

// Strips whose epilogues run together (twice as many where two are processed at a time), because all warps synchronise
// for that. The widest rows leave room for half as many where pieces are large.
constexpr uint32_t stream_batch(const StripShape& strip) {
  return strip.stage_bytes <= 4096 ? 16 : 8;
}
constexpr uint32_t stream_sum_bytes(const StripShape& strip) {
  return stream_batch(strip) * kStreamWarps * kStreamSumStride * 4;
}
// The ring, the sums of a batch, the inputs and their scales.
constexpr uint32_t stream_shared_bytes(const StripShape& strip, uint32_t n_pieces) {
  const uint32_t ring = kStreamWarps * kStreamStages * strip.stage_bytes;
  return ring + stream_sum_bytes(strip) + n_pieces * (kStreamRowBytes + 32 * strip.n_scales + 4 + 4);
}

}  // namespace rocmforge::gpu
