#include "gpu/product_choice.h"

#include <algorithm>

#include "base/check.h"
#include "gpu/kernels/experts_fragments.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/stream_experts.h"
#include "gpu/kernels/stream_float_hopper.h"
#include "gpu/kernels/stream_fragments.h"

namespace rocmforge::gpu {
namespace {

using Part = Product::Part;

bool is_of_floats(DType dtype) {
  return product_kind(dtype) == ProductKind::f16_tiles;
}
uint32_t n_pieces_of(const Product& product) {
  return product.width / kStreamColumns;
}

bool can_stream(const ProductDevice& device, const Product& product) {
  return device.has_hopper && device.joins_steps && product.n_rows > 0 && product.width % kStreamColumns == 0 &&
         std::ranges::all_of(product.parts, [](const Part& part) {
           return part.has_plain_bias && part.n_out % kStreamOutputs == 0 &&
                  (is_of_floats(part.dtype) || has_strips(part.dtype));
         });
}

uint64_t stream_fragments_input_bytes(const Product& product) {
  return uint64_t{padded_to(product.n_rows, kInputPanelRows)} * product.width * 2;
}

bool by_stream_rows(const ProductDevice& device, const Product& product, const Part&) {
  return can_stream(device, product) && product.n_rows >= kRowsMinRows && product.n_rows <= kRowsMaxRows &&
         n_pieces_of(product) <= kManyMaxPieces &&
         std::ranges::all_of(product.parts, [](const Part& part) { return has_rows_kernels(part.dtype); }) &&
         rows_inputs_bytes(product) <= device.input_bytes;
}

bool by_stream_many(const ProductDevice& device, const Product& product, const Part&) {
  if (!can_stream(device, product) || product.n_rows < kManyMinRows || product.n_rows > kManyMaxRows) return false;
  uint64_t n_bytes = 0;
  for (const Part& part : product.parts) {
    if (!has_strips(part.dtype) || !many_kind(part.dtype, n_pieces_of(product), product.n_rows)) return false;
    n_bytes += many_inputs_bytes(product.n_rows, kManyMaxRows, n_pieces_of(product), strip_shape(part.dtype).n_scales);
  }
  return n_bytes <= device.input_bytes;
}

bool by_stream(const ProductDevice& device, const Product& product, const Part&) {
  if (!can_stream(device, product) || product.n_rows > 8) return false;
  uint32_t n_strips = 0;
  for (const Part& part : product.parts) n_strips += part.n_out / kStreamOutputs;
  // A gate and its partner go to one block.
  const uint32_t at_once = product.parts.size() == 2 ? 2 : 1;
  const uint32_t n_items = at_once * most_items((n_strips + at_once - 1) / at_once, kStreamBlocks);
  return std::ranges::all_of(product.parts, [&](const Part& part) {
    return (product.n_rows == 1 || is_of_floats(part.dtype)) &&
           stream_shared_bytes_of(part.dtype, n_pieces_of(product), product.n_rows, n_items) <= kStreamMaxShared;
  });
}

bool by_stream_fragments(const ProductDevice& device, const Product& product, const Part&) {
  return device.has_fragments && !device.has_hopper &&
         product.n_rows >= stream_fragments_min_rows(device.has_matrix_unit) &&
         product.n_rows <= kStreamFragmentsMaxRows && product.width % kPackedColumns == 0 &&
         stream_fragments_input_bytes(product) <= device.input_bytes &&
         std::ranges::all_of(product.parts, [](const Part& part) {
           return product_kind(part.dtype) != ProductKind::f32 && part.has_plain_bias;
         });
}

bool by_panels(const ProductDevice& device, const Product& product, const Part&) {
  const bool has_hopper_tiles = device.has_hopper && product.width % 256 == 0;
  return device.has_panels && (device.has_fragments || device.has_hopper) &&
         product.n_rows >= (has_hopper_tiles ? kPanelMinRowsOnHopper : kPanelMinRows) &&
         product.width % kPanelColumns == 0 && std::ranges::all_of(product.parts, [](const Part& part) {
           return is_for_hopper(part.dtype) && part.has_plain_bias;
         });
}

bool by_hopper_tiles(const ProductDevice& device, const Product& product, const Part& part) {
  return device.has_hopper && product.n_rows > 1 && product.width % 256 == 0 && is_for_hopper(part.dtype);
}

// Few outputs are few tiles: up to 64 rows, reading them for each eight rows gives more blocks.
bool by_f32_tiles(const ProductDevice&, const Product& product, const Part& part) {
  constexpr uint32_t kFewOutputs = 1024, kFewRows = 64;
  return product.n_rows > (part.n_out <= kFewOutputs ? kFewRows : kMatvecMaxRows) &&
         product_kind(part.dtype) == ProductKind::f32;
}

bool by_eight_rows(const ProductDevice&, const Product& product, const Part&) {
  return product.n_rows > 1;
}

bool always(const ProductDevice&, const Product&, const Part&) {
  return true;
}

struct Rule {
  ProductRoute route;
  const char* name;
  bool (*takes)(const ProductDevice&, const Product&, const Part&);
};
constexpr Rule kRules[] = {
    {ProductRoute::stream_rows, "stream_rows", by_stream_rows},
    {ProductRoute::stream_many, "stream_many", by_stream_many},
    {ProductRoute::stream, "stream", by_stream},
    {ProductRoute::stream_fragments, "stream_fragments", by_stream_fragments},
    {ProductRoute::panels, "panels", by_panels},
    {ProductRoute::hopper_tiles, "hopper_tiles", by_hopper_tiles},
    {ProductRoute::f32_tiles, "f32_tiles", by_f32_tiles},
    {ProductRoute::eight_rows, "eight_rows", by_eight_rows},
    {ProductRoute::one_row, "one_row", always},
};

}  // namespace

ProductRoute choose_product(const ProductDevice& device, const Product& product, size_t part) {
  for (const Rule& rule : kRules) {
    if (rule.takes(device, product, product.parts[part])) return rule.route;
  }
  RF_UNREACHABLE("a product without a kernel");
}

const char* name_of(ProductRoute route) {
  return std::ranges::find(kRules, route, &Rule::route)->name;
}

// A tile that is mostly empty wastes its matrix instructions, one that is too small reads its weights again. Portable
// kernels compute the rows of a tile of eight one by one.
uint32_t choose_expert_tile(const ProductDevice& device, uint32_t n_rows, uint32_t n_used, uint32_t n_experts) {
  if (n_rows < 2) return 0;
  const uint64_t n_pairs = uint64_t{n_rows} * n_used;
  const auto mean_is_at_most = [&](uint32_t n) { return n_pairs <= uint64_t{n} * n_experts; };
  if (mean_is_at_most(4)) return 8;
  if (mean_is_at_most(12)) return 16;
  return mean_is_at_most(64) || !device.has_hopper ? 64 : 128;
}

ExpertRoute choose_expert_product(const ProductDevice& device, DType dtype, uint32_t width, uint32_t tile_rows) {
  if (tile_rows == 0) return ExpertRoute::by_pair;
  if (device.has_hopper && width % 256 == 0 && is_for_hopper(dtype)) return ExpertRoute::hopper;
  if (!device.has_panels || !device.has_fragments || width % kPackedColumns != 0 ||
      product_kind(dtype) == ProductKind::f32) {
    return ExpertRoute::few;
  }
  return tile_rows == kStreamExpertRows     ? ExpertRoute::streamed
         : tile_rows == kExpertFragmentRows ? ExpertRoute::fragments
                                            : ExpertRoute::few;
}

uint64_t many_inputs_bytes(uint32_t n_rows, uint32_t rows_at_once, uint32_t n_pieces, uint32_t n_scales) {
  const uint64_t padded = (n_rows + rows_at_once - 1) / rows_at_once * rows_at_once;
  return (padded * n_pieces * many_row_bytes(n_scales) + 255) / 256 * 256;
}

uint64_t rows_inputs_bytes(uint32_t n_rows, uint32_t n_pieces, uint32_t n_scales) {
  const uint32_t at_once = rows_at_once(n_rows), n_sets = (n_rows + at_once - 1) / at_once;
  return uint64_t{n_sets} * n_pieces * rows_place_bytes(at_once, n_scales);
}

uint64_t rows_inputs_bytes(const Product& product) {
  uint64_t n_bytes = 0;
  for (const Part& part : product.parts) {
    n_bytes += rows_inputs_bytes(product.n_rows, n_pieces_of(product), strip_shape(part.dtype).n_scales);
  }
  return n_bytes;
}

ManyShape many_shape_of(ManyKind kind, DType dtype) {
  return many_shape(kind, strip_shape(dtype).stage_bytes);
}

std::optional<ManyKind> many_kind(DType dtype, uint32_t n_pieces, uint32_t rows) {
  static constexpr ManyKind kNarrow[] = {ManyKind::rows_8, ManyKind::rows_16, ManyKind::rows_32};
  static constexpr ManyKind kWide[] = {ManyKind::wide_8, ManyKind::wide_16, ManyKind::wide_32};
  std::optional<ManyKind> found;
  for (const ManyKind kind : n_pieces <= 16 ? kNarrow : kWide) {
    if (!many_fits(many_shape_of(kind, dtype), strip_shape(dtype), n_pieces)) break;
    found = kind;
    if (many_shape(kind, 0).rows() >= rows) break;
  }
  return found;
}

uint32_t stream_shared_bytes_of(DType dtype, uint32_t n_pieces, uint32_t n_rows, uint32_t n_items) {
  return is_of_floats(dtype) ? float_stream_shared_bytes(n_pieces, stream_rows_of_kernel(n_rows), n_items)
                             : stream_shared_bytes(strip_shape(dtype), n_pieces);
}

}  // namespace rocmforge::gpu
