#pragma once
// Products of quantized weights with 2 to 32 rows of activations on Hopper, fused with the norm before and the sum or
// activation after them: kernels/stream_hopper.h for more rows. With up to eight rows, and in formats that are not
// exact (packed/exact_strips.h), sums are added in the same order as there.
//
// The inputs of that many rows do not fit one multiprocessor, so a cluster of blocks divides them by columns: block k
// of G has the pieces k, k + G, ... of the width, of all rows and of all weights that the cluster multiplies.

#include <cstdint>

#include "gpu/kernels/stream_hopper.h"

namespace rocmforge::gpu {

// The order of prepared inputs, which is the order in which a format's lanes decode its weights.
enum class ManyOrder : uint32_t { wide, narrow, narrow_two_scales };
inline constexpr uint32_t kManyOrders = 3;  // weights with one input may need all of them

// By Strip<Block>'s kWide and kScales.
constexpr ManyOrder many_order(bool is_wide, uint32_t n_scales) {
  return is_wide ? ManyOrder::wide : n_scales == 2 ? ManyOrder::narrow_two_scales : ManyOrder::narrow;
}
// The same without the device's headers; a format whose Strip says otherwise does not compile.
constexpr ManyOrder many_order(DType dtype) {
  switch (dtype) {
    case DType::q4_k:
    case DType::q5_k:
    case DType::q8_0:
      return ManyOrder::wide;
    case DType::q2_k:
    case DType::q3_k:
    case DType::q6_k:
      return ManyOrder::narrow_two_scales;
    default:
      return ManyOrder::narrow;
  }
}

constexpr uint32_t many_scales(ManyOrder order) {
  return order == ManyOrder::narrow_two_scales ? 2 : 1;
}

inline constexpr uint32_t kManyMinRows = 2, kManyMaxRows = 32;
inline constexpr uint32_t kManyMaxPieces = 128;

// Of 256 columns of a row: halves, sums of groups as two halves each, a scale.
constexpr uint32_t many_row_bytes(uint32_t n_scales) {
  return 512 + 32 * n_scales + 4;
}

// The layout of 256 columns of a set of rows: for mma, or for wgmma (kernels/stream_rows_hopper.h).
enum class ManyLayout : uint32_t { fragments, panels };

// Destinations of the inputs, one for each order that a format needs. Rows in sets of rows_at_once, each set piece by
// piece.
struct ManyOrders {
  ManyLayout layout = ManyLayout::fragments;
  uint32_t rows_at_once = 0;  // 8, 16, 32, 64 or 128, as the product requires
  uint32_t n = 0;
  ManyOrder orders[kManyOrders] = {};
  uint8_t* out[kManyOrders] = {};
  uint32_t place_bytes[kManyOrders] = {};  // from one piece of a set to the next

  void add(ManyOrder order, uint8_t* to, uint32_t n_bytes) {
    orders[n] = order;
    out[n] = to;
    place_bytes[n++] = n_bytes;
  }
  // Null if the inputs are not needed in that order.
  const uint8_t* find(ManyOrder order) const {
    for (uint32_t i = 0; i < n; i++) {
      if (orders[i] == order) return out[i];
    }
    return nullptr;
  }
};

// stream_many_inputs: norm (optional), conversion to halves, sums of groups.
struct ManyInputsArgs {
  const float* x;  // n_rows x width
  // Not null: x is normalised first (root mean square), and also written to `normed` unless that is null. It must be a
  // weight: no kernel writes it.
  const float* norm_weight = nullptr;
  float* normed = nullptr;
  float epsilon = 0;
  float* lifts = nullptr;  // not null, with a norm: receives the row_lift() of each row
  uint32_t n_rows = 0;
  uint32_t width = 0;  // a multiple of 256
  ManyOrders to = {};
};
// The arguments that prepare the inputs of `product`, whose x is still unprepared.
inline ManyInputsArgs many_inputs(const StreamArgs& product, const ManyOrders& to) {
  return {.x = product.x,
          .norm_weight = product.norm_weight,
          .normed = product.normed,
          .epsilon = product.epsilon,
          .n_rows = product.n_rows,
          .width = product.width,
          .to = to};
}
inline constexpr uint32_t kManyInputsThreads = 512;
inline Grid many_inputs_grid(const ManyInputsArgs& args) {
  const uint32_t n_pieces = args.width / kStreamColumns, at_once = kManyInputsThreads / 32;
  return {args.n_rows, (n_pieces + at_once - 1) / at_once};
}

// stream_many_FORMAT_KIND, for up to 8, 16 or 32 rows; wide_ROWS for widths of more than sixteen pieces. They take
// StreamArgs without a norm; `x` is the output of stream_many_inputs. Block counts are in clusters: a grid is clusters
// x 1 x blocks per cluster.
enum class ManyKind : uint8_t { rows_8, rows_16, rows_32, wide_8, wide_16, wide_32 };

struct ManyShape {
  uint32_t tiles;    // of eight rows each
  uint32_t warps;    // of a block, each with its own strip
  uint32_t cluster;  // blocks
  uint32_t stages;   // pieces of a warp in flight or in use
  constexpr uint32_t rows() const { return 8 * tiles; }
  constexpr uint32_t threads() const { return 32 * warps; }
  // The largest number of a strip's tiles that one block finishes: the blocks of a cluster divide them.
  constexpr uint32_t own_tiles() const { return tiles > cluster ? tiles / cluster : 1; }
};
// More rows take more registers and leave less room for weights, so there are fewer warps.
constexpr ManyShape many_shape(ManyKind kind, uint32_t stage_bytes) {
  const uint32_t stages = stage_bytes <= 2816 ? 3 : 2;
  switch (kind) {
    case ManyKind::rows_8:
      return {1, 16, 4, stages};
    case ManyKind::rows_16:
      return {2, 16, 4, stages};
    case ManyKind::rows_32:
      return {4, stage_bytes <= 4096 ? 16u : 10u, 4, stages};
    case ManyKind::wide_8:
      return {1, 9, 8, stages + 1};
    case ManyKind::wide_16:
      return {2, 9, 8, stages};
    case ManyKind::wide_32:
      return {4, 9, 8, 2};
  }
  return {};
}

// Clusters that run at a time. The multiprocessors of a cluster must belong to one hardware group, and groups differ in
// size. An H200 reported 30 clusters of four and 15 of eight.
constexpr uint32_t many_clusters(const ManyShape& shape) {
  return 120 / shape.cluster;
}

inline constexpr uint32_t kManyBarrierBytes = 384;
inline constexpr uint32_t kManyMaxPlaces = kManyMaxPieces / 8;  // pieces per block
constexpr uint32_t many_exchange_bytes(const ManyShape& shape) {
  return shape.warps * shape.own_tiles() * (shape.cluster - 1) * 512;
}
constexpr uint32_t many_shared_bytes(const ManyShape& shape, const StripShape& strip, uint32_t n_pieces) {
  const uint32_t places = (n_pieces + shape.cluster - 1) / shape.cluster;
  return kManyBarrierBytes + many_exchange_bytes(shape) + shape.warps * shape.stages * strip.stage_bytes +
         places * shape.rows() * many_row_bytes(strip.n_scales);
}
constexpr bool many_fits(const ManyShape& shape, const StripShape& strip, uint32_t n_pieces) {
  return (shape.cluster == 4) == (n_pieces <= 16) && n_pieces <= kManyMaxPieces &&
         many_shared_bytes(shape, strip, n_pieces) <= kStreamMaxShared;
}

}  // namespace rocmforge::gpu
