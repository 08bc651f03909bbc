#pragma once
// Activations and decoded weights as panels of F16, the operands of the matrix kernels for many rows.
//
// For Hopper (kernels/matmul_panels.h) a panel holds 64 columns of some rows, 128 bytes a row; panels of one set of
// rows are consecutive. The 16-byte chunks of a row are swizzled as the matrix unit requires: chunk c of row r is
// stored at c ^ (r % 8).
//
// For every other device (kernels/matmul_fragments.h) a panel is one packed tile of 16 rows and 32 columns
// (fragment/packed_tile.h); tiles of the same rows are consecutive.
//
// A row of activations that exceeds the range of halves is scaled down (kernels/row_scale.h), and the product scales
// its sums up.

#include <cstdint>

#include "gpu/api.h"
#include "gpu/fragment/packed_tile.h"
#include "gpu/packed/planes.h"

namespace rocmforge::gpu {

inline constexpr uint32_t kPanelColumns = 64;
inline constexpr uint32_t kPanelRowBytes = 128;
// Rows of activations and outputs of weights are padded to so many.
inline constexpr uint32_t kInputPanelRows = 64, kWeightPanelRows = 128;
enum class PanelOrder : uint32_t { swizzled, tiles_by_row, tiles_by_column };
constexpr PanelOrder panel_order(TileOrder order) {
  return order == TileOrder::by_row ? PanelOrder::tiles_by_row : PanelOrder::tiles_by_column;
}

// Kernel: panels. Panels of kInputPanelRows rows; rows past n_rows are zeros.
struct PanelsArgs {
  uint8_t* panels;
  float* scales;   // n_rows: the factors for the product's sums
  const float* x;  // n_rows x width
  uint32_t n_rows;
  uint32_t width;  // a multiple of 64
  PanelOrder order = PanelOrder::swizzled;
};

// Kernels: weight_panels_FORMAT. Panels of kWeightPanelRows outputs, from first_out on; outputs past the last are
// zeros.
struct WeightPanelsArgs {
  uint8_t* panels;
  Planes w;
  uint32_t first_out;
  uint32_t n_out;  // of the whole weight
  uint32_t width;  // a multiple of 64
  PanelOrder order = PanelOrder::swizzled;
};

inline constexpr uint32_t kPanelsThreads = 256;

inline uint32_t padded_to(uint32_t n, uint32_t step) {
  return (n + step - 1) / step * step;
}
// A block converts one row.
inline Grid panels_grid(const PanelsArgs& args) {
  return {padded_to(args.n_rows, kInputPanelRows)};
}
// A thread converts sixteen columns of one output, for n outputs.
inline Grid weight_panels_grid(const WeightPanelsArgs& args, uint32_t n) {
  return {padded_to(n, kWeightPanelRows), padded_to(args.width / 16, kPanelsThreads) / kPanelsThreads};
}

}  // namespace rocmforge::gpu
