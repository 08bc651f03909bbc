// Rows of f32, and weights, to panels of F16 (kernels/panels.h).

#include "gpu/runtime.h"

#include "gpu/kernels/panels.h"
#include "gpu/kernels/row_scale.h"
#include "gpu/packed/float_formats.h"
#include "gpu/packed/lists.h"

namespace rocmforge::gpu::RF_KERNELS {

// The address of a row's chunk.
RF_DEVICE Word4* piece_at(uint8_t* panels, uint32_t row, uint32_t piece, uint32_t width, uint32_t panel_rows) {
  const uint32_t in_panel = row % panel_rows;
  const uint64_t panel = static_cast<uint64_t>(row / panel_rows) * (width / kPanelColumns) + piece / 8;
  return reinterpret_cast<Word4*>(panels + (panel * panel_rows + in_panel) * kPanelRowBytes +
                                  (piece % 8 ^ in_panel % 8) * 16);
}

RF_KERNEL(panels, PanelsArgs, kPanelsThreads) {
  RF_SHARED(float[kPanelsThreads / 32], partial);
  const uint32_t row = block_x(), n_pieces = args.width / 8;
  const auto store = [&](uint32_t piece, const Word4& halves) {
    *piece_at(args.panels, row, piece, args.width, kInputPanelRows) = halves;
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

template <class P>
RF_DEVICE void make_weight_panels(const WeightPanelsArgs& args) {
  const uint32_t row = block_x(), place = block_y() * kPanelsThreads + thread_index();
  if (place >= args.width / 16) return;
  Word4 pieces[2] = {};
  if (const uint32_t out = args.first_out + row; out < args.n_out) {
    const UnitGroup at = P::find(static_cast<uint64_t>(out) * (args.width / 16) + place);
    const Group group = P::group(P::load(args.w, at.unit), at.unit, at.group);
    const auto value = [&](uint32_t i) {
      const int level = static_cast<int8_t>(group.levels.v[i / 4] >> i % 4 * 8);
      return group.scale * static_cast<float>(level - P::kOffset) - group.minimum;
    };
    RF_UNROLL
    for (uint32_t i = 0; i < 8; i++) pieces[i / 4].v[i % 4] = two_halves_of(value(2 * i), value(2 * i + 1));
  }
  for (uint32_t h = 0; h < 2; h++) {
    *piece_at(args.panels, row, 2 * place + h, args.width, kWeightPanelRows) = pieces[h];
  }
}

template <class Block>
RF_DEVICE void make_float_panels(const WeightPanelsArgs& args) {
  const uint32_t row = block_x(), place = block_y() * kPanelsThreads + thread_index();
  if (place >= args.width / 16) return;
  FloatUnits::Raw raw{};
  if (const uint32_t out = args.first_out + row; out < args.n_out) {
    raw = FloatUnits::load(args.w, static_cast<uint64_t>(out) * (args.width / 16) + place);
  }
  for (uint32_t h = 0; h < 2; h++) {
    for (uint32_t& word : raw.words[h].v) word = two_halves(word, Block{});
    *piece_at(args.panels, row, 2 * place + h, args.width, kWeightPanelRows) = raw.words[h];
  }
}

#define RF_WEIGHT_PANELS(name, Block)                                 \
  RF_KERNEL(weight_panels_##name, WeightPanelsArgs, kPanelsThreads) { \
    make_weight_panels<Packed<Block>>(args);                          \
  }
RF_INTEGER_FORMATS(RF_WEIGHT_PANELS)
#define RF_FLOAT_PANELS(name, Block)                                  \
  RF_KERNEL(weight_panels_##name, WeightPanelsArgs, kPanelsThreads) { \
    make_float_panels<Block>(args);                                   \
  }
RF_HALF_FORMATS(RF_FLOAT_PANELS)

}  // namespace rocmforge::gpu::RF_KERNELS
