// Rows of f32, and weights, to panels of F16 (kernels/panels.h).

#include "gpu/runtime.h"

#include "gpu/kernels/panels.h"
#include "gpu/kernels/row_scale.h"
#include "gpu/packed/halves.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// The address of a row's chunk.
RF_DEVICE Word4* piece_at(uint8_t* panels, PanelOrder order, uint32_t row, uint32_t piece, uint32_t width,
                          uint32_t panel_rows) {
  if (order != PanelOrder::swizzled) {
    constexpr uint32_t kPieces = kPackedColumns / 8;
    const TileOrder in_tile = order == PanelOrder::tiles_by_row ? TileOrder::by_row : TileOrder::by_column;
    const uint64_t tile = static_cast<uint64_t>(row / kPackedRows) * (width / kPackedColumns) + piece / kPieces;
    return reinterpret_cast<Word4*>(panels + tile * kPackedBytes) + chunk_of(in_tile, row % kPackedRows, piece % kPieces);
  }
  const uint32_t in_panel = row % panel_rows;
  const uint64_t panel = static_cast<uint64_t>(row / panel_rows) * (width / kPanelColumns) + piece / 8;
  return reinterpret_cast<Word4*>(panels + (panel * panel_rows + in_panel) * kPanelRowBytes +
                                  (piece % 8 ^ in_panel % 8) * 16);
}

RF_KERNEL(panels, PanelsArgs, kPanelsThreads) {
  RF_SHARED(float[kPanelsThreads / 32], partial);
  const uint32_t row = block_x(), n_pieces = args.width / 8;
  const auto store = [&](uint32_t piece, const Word4& halves) {
    *piece_at(args.panels, args.order, row, piece, args.width, kInputPanelRows) = halves;
  };
  if (row >= args.n_rows) {
    for (uint32_t piece = thread_index(); piece < n_pieces; piece += kPanelsThreads) store(piece, Word4{});
    return;
  }
  const auto* x = reinterpret_cast<const Word4*>(args.x + static_cast<uint64_t>(row) * args.width);
  const auto load = [&](float* v, uint32_t piece) {
    const Word4 read[2] = {x[2 * piece], x[2 * piece + 1]};
    RF_UNROLL
    for (uint32_t e = 0; e < 8; e++) v[e] = bits_to_float(read[e / 4].v[e % 4]);
  };
  const float undo = put_scaled_row<kPanelsThreads>(n_pieces, partial, load, store);
  if (thread_index() == 0) args.scales[row] = undo;
}

template <class Block>
RF_DEVICE void make_weight_panels(const WeightPanelsArgs& args) {
  const uint32_t row = block_x(), place = block_y() * kPanelsThreads + thread_index();
  if (place >= args.width / 16) return;
  Word4 pieces[2] = {};
  if (const uint32_t out = args.first_out + row; out < args.n_out) {
    const uint64_t n = static_cast<uint64_t>(out) * (args.width / 16) + place;
    Halves<Block>::decode(pieces, Halves<Block>::load(args.w, n), n);
  }
  for (uint32_t h = 0; h < 2; h++) {
    *piece_at(args.panels, args.order, row, 2 * place + h, args.width, kWeightPanelRows) = pieces[h];
  }
}

#define RF_WEIGHT_PANELS(name, Block)                                 \
  RF_KERNEL(weight_panels_##name, WeightPanelsArgs, kPanelsThreads) { \
    make_weight_panels<Block>(args);                                  \
  }
RF_INTEGER_FORMATS(RF_WEIGHT_PANELS)
RF_HALF_FORMATS(RF_WEIGHT_PANELS)

}  // namespace rocmforge::gpu::RF_KERNELS
