#pragma once
// Products of quantized weights with 2 to 32 rows of activations on Hopper, with the norm before and the sum or
// activation after them: kernels/stream_hopper.h for more rows. Up to eight of them, and in formats that are not exact
// (packed/exact_strips.h), sums are added in the same order.
//
// The rows are too many for one multiprocessor to hold, so that a cluster of blocks shares them by columns: block k of
// G has the pieces k, k + G, ... of a width, of all rows and of all weights that the cluster multiplies.

#include <cstdint>

#include "gpu/kernels/stream_hopper.h"

namespace rocmforge::gpu {

// Inputs as the products take them: in the order in which a format's lanes decode its weights. By Strip<Block>'s kWide
// and kScales.
enum class ManyOrder : uint32_t { wide, narrow, narrow_two_scales };
inline constexpr uint32_t kManyOrders = 3;  // the weights that share an input may have them all

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

// Of 256 columns of a row: halves, sums of groups as two halves each, a factor.
constexpr uint32_t many_row_bytes(uint32_t n_scales) {
  return 512 + 32 * n_scales + 4;
}

// How a set of rows has 256 columns: as mma takes them, or as wgmma does (kernels/stream_rows_hopper.h).
enum class ManyLayout : uint32_t { fragments, panels };

// Where inputs go, in the order of every format that takes them. Rows in sets of rows_at_once, each set piece after
// piece.
struct ManyOrders {
  ManyLayout layout = ManyLayout::fragments;
  uint32_t rows_at_once = 0;  // 8, 16, 32, 64 or 128: the product's
  uint32_t n = 0;
  ManyOrder orders[kManyOrders] = {};
  uint8_t* out[kManyOrders] = {};
  uint32_t place_bytes[kManyOrders] = {};  // from one piece of a set to the next

  void add(ManyOrder order, uint8_t* to, uint32_t n_bytes) {
    orders[n] = order;
    out[n] = to;
    place_bytes[n++] = n_bytes;
  }
  // Null: not in that order.
  const uint8_t* find(ManyOrder order) const {
    for (uint32_t i = 0; i < n; i++) {
      if (orders[i] == order) return out[i];
    }
    return nullptr;
  }
};

// stream_many_inputs: norm (optional), halves, sums of groups.
struct ManyInputsArgs {
  const float* x;  // n_rows x width
  // Not null: x is normalised first (root mean square), into `normed`, too, unless that is null. A weight: no kernel
  // writes it.
  const float* norm_weight = nullptr;
  float* normed = nullptr;
  float epsilon = 0;
  float* lifts = nullptr;  // not null, and there is a norm: row_lift() of each row
  uint32_t n_rows = 0;
  uint32_t width = 0;  // a multiple of 256
  ManyOrders to = {};
};
// For the product of these, which still has x as it was.
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

// stream_many_FORMAT_KIND, for up to so many rows; wide_ROWS for widths of more than sixteen pieces. They take
// StreamArgs without norm, `x` being what stream_many_inputs makes. Blocks are counted in clusters: a grid is
// clusters x 1 x blocks of a cluster.
enum class ManyKind : uint8_t { rows_8, rows_16, rows_32, wide_8, wide_16, wide_32 };

struct ManyShape {
  uint32_t tiles;    // of eight rows
  uint32_t warps;    // of a block, each with a strip of its own
  uint32_t cluster;  // blocks
  uint32_t stages;   // pieces that a warp has on their way or uses
  constexpr uint32_t rows() const { return 8 * tiles; }
  constexpr uint32_t threads() const { return 32 * warps; }
  // Tiles that a block finishes of a strip, at most: the blocks of a cluster share them.
  constexpr uint32_t own_tiles() const { return tiles > cluster ? tiles / cluster : 1; }
};
// More rows are more registers and less room for weights, so that there are fewer warps.
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

// Clusters that run at a time: the multiprocessors of a cluster belong to one group of them, and groups are not of one
// size. An H200 told 30 of four and 15 of eight.
constexpr uint32_t many_clusters(const ManyShape& shape) {
  return 120 / shape.cluster;
}

inline constexpr uint32_t kManyBarrierBytes = 384;
inline constexpr uint32_t kManyMaxPlaces = kManyMaxPieces / 8;  // pieces of a block
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
