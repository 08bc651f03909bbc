#pragma once
// Which kernel computes a dense product: one table, tried from top to bottom (product_choice.cpp). A pure function of
// the product's shape and of what the device has, so that it can be asked without a device.

#include <cstdint>
#include <optional>
#include <span>

#include "gpu/kernel_set.h"
#include "gpu/kernels/stream_many_hopper.h"
#include "gpu/kernels/stream_rows_hopper.h"
#include "tensor/dtype.h"

namespace rocmforge::gpu {

// What the choice knows of a product: weights that share an input of n_rows by width.
struct Product {
  struct Part {
    DType dtype;
    uint32_t n_out;
    bool has_plain_bias = true;  // no bias, or one of F32
  };
  uint32_t n_rows = 0;
  uint32_t width = 0;
  std::span<const Part> parts;
};

// What it knows of a device and of the memory of a pass.
struct ProductDevice {
  bool has_hopper = false;
  bool has_matrix_unit = true;
  bool has_fragments = true;  // products by gpu/fragment are right here (gpu/self_test_policy.h)
  bool joins_steps = true;    // steps run as one where that is possible
  bool has_panels = false;    // memory for panels (gpu/panel_memory.h)
  uint64_t input_bytes = 0;   // memory for converted inputs
};

enum class ProductRoute : uint8_t {
  stream_rows,       // kernels/stream_rows_hopper.h; these three take the steps around the product, too
  stream_many,       // kernels/stream_many_hopper.h
  stream,            // kernels/stream_hopper.h, kernels/stream_float_hopper.h
  stream_fragments,  // kernels/stream_fragments.h
  panels,            // kernels/matmul_panels.h, kernels/matmul_fragments.h
  hopper_tiles,      // kernels/matmul_hopper.h
  f32_tiles,         // kernels/matmul_f32.h
  eight_rows,        // matvec_FORMAT_8
  one_row,           // matvec_FORMAT_1
};
const char* name_of(ProductRoute route);

// The route of one part. Routes down to `panels` take all parts of a product or none; then the answer is the same for
// each part.
ProductRoute choose_product(const ProductDevice& device, const Product& product, size_t part = 0);
constexpr bool takes_the_whole_product(ProductRoute route) {
  return route <= ProductRoute::panels;
}
constexpr bool is_streamed(ProductRoute route) {
  return route <= ProductRoute::stream;
}

// Panels pay from this many rows on. Where the kernels of hopper_tiles take the product, they are better for hundreds
// of rows.
inline constexpr uint32_t kPanelMinRows = 33, kPanelMinRowsOnHopper = 384;

// Whether the input is needed as 8-bit integers (kernels/quantize.h).
inline bool takes_bytes(ProductRoute route, DType dtype) {
  return (route == ProductRoute::eight_rows || route == ProductRoute::one_row) &&
         product_kind(dtype) == ProductKind::integer;
}

// ---- products with experts ----

// Rows of a tile that products of grouped rows can have (kernels/experts.h).
inline constexpr uint32_t kExpertTileRows[] = {8, 16, 64, 128};

// The rows of a tile for so many rows, each routed to n_used of n_experts; 0: do not group them. It depends on the
// numbers alone: all products of a layer share its groups, and the host does not know the routing.
uint32_t choose_expert_tile(const ProductDevice& device, uint32_t n_rows, uint32_t n_used, uint32_t n_experts);

enum class ExpertRoute : uint8_t {
  hopper,     // experts_hopper_FORMAT_ROWS
  streamed,   // experts_FORMAT_16
  fragments,  // experts_FORMAT_64
  few,        // experts_FORMAT_8
  by_pair,    // matvec_FORMAT_1
};
inline bool takes_bytes(ExpertRoute route, DType dtype) {
  return (route == ExpertRoute::few || route == ExpertRoute::by_pair) && product_kind(dtype) == ProductKind::integer;
}
// tile_rows: as choose_expert_tile() says.
ExpertRoute choose_expert_product(const ProductDevice& device, DType dtype, uint32_t width, uint32_t tile_rows);

// Of inputs as the streamed kernels take them, in one format's order.
uint64_t many_inputs_bytes(uint32_t n_rows, uint32_t rows_at_once, uint32_t n_pieces, uint32_t n_scales);
uint64_t rows_inputs_bytes(uint32_t n_rows, uint32_t n_pieces, uint32_t n_scales);
// In the orders of all parts.
uint64_t rows_inputs_bytes(const Product& product);

// The smallest of the kernels for so many rows, or the largest there is; none fits some widths.
std::optional<ManyKind> many_kind(DType dtype, uint32_t n_pieces, uint32_t rows);
ManyShape many_shape_of(ManyKind kind, DType dtype);

// Streams of one row, and of up to eight with weights of floats. n_items: strips of the block that has most.
uint32_t stream_shared_bytes_of(DType dtype, uint32_t n_pieces, uint32_t n_rows, uint32_t n_items);
inline uint32_t stream_rows_of_kernel(uint32_t n_rows) {
  return n_rows == 1 ? 1 : 8;
}
inline uint32_t most_items(uint32_t n_strips, uint32_t n_blocks) {
  return (n_strips + n_blocks - 1) / n_blocks;
}

}  // namespace rocmforge::gpu
