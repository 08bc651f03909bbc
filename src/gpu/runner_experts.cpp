// Mixtures of experts: routing, and the products with the experts a row has chosen. The rows of larger batches are
// grouped by expert (kernels/experts.h).

#include <algorithm>
#include <vector>

#include "gpu/kernels/experts.h"
#include "gpu/kernels/experts_fragments.h"
#include "gpu/kernels/matmul_hopper.h"
#include "gpu/kernels/matvec.h"
#include "gpu/kernels/route.h"
#include "gpu/kernels/stream_experts.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::product_kind;
using gpu::ProductKind;

Result<void> GpuBackend::Runner::operator()(const Route& step) const {
  const auto scores = [&] {
    switch (step.gating) {
      case Gating::softmax:
        return gpu::RouteScores::softmax;
      case Gating::softmax_of_chosen:
        return gpu::RouteScores::softmax_of_chosen;
      case Gating::sigmoid:
        return gpu::RouteScores::sigmoid;
    }
    RF_UNREACHABLE("a Gating outside its enum");
  }();
  const gpu::RouteArgs args{.out = slot(step.out).data,
                            .logits = slot(step.logits).data,
                            .bias = TRY(vector_of(step.bias, 0)),
                            .n_experts = step.n_experts,
                            .n_used = step.n_used,
                            .scores = scores,
                            .normalise = step.normalise ? 1u : 0u,
                            .scale = step.scale,
                            .expert_scale = TRY(vector_of(step.expert_scale, 1)),
                            .n_groups = step.n_groups,
                            .n_groups_used = step.n_groups_used};
  TRY(launch(FixedKernel::route, gpu::route_grid(n_rows(step.out)), gpu::kRouteThreads, args));
  const uint32_t tile_rows = facts_.expert_tile_of(step.out, step.n_used, step.n_experts);
  if (tile_rows == 0) return {};
  return launch(FixedKernel::group_experts, gpu::group_experts_grid(step.n_experts), gpu::kGroupExpertsThreads,
                self_.experts_.group_args(args.out, n_rows(step.out) * step.n_used, step.n_experts, tile_rows));
}

// Experts that stay lie one after the other. Those that move are told by a table, from the arena's beginning; the
// entries of those that are absent are never read.
Result<GpuBackend::Runner::ExpertWeights> GpuBackend::Runner::find_experts(const ExpertStack& stack,
                                                                           std::optional<WeightId> bias) const {
  ExpertWeights out{.shape = weights_.tensor(stack.first).shape, .planes = {}};
  if (bias) out.bias = reinterpret_cast<const float*>(weight(*bias).planes.at[0]);  // f32: check_supported
  if (!weights_.experts_move()) {
    out.planes = self_.placement_.planes(weights_.address(stack.first), out.shape);
    out.place.stride = stack.n > 1 ? weights_.address(stack[1]) - weights_.address(stack.first) : 0;
    return out;
  }
  out.planes = self_.placement_.planes(0, out.shape);
  std::vector<uint64_t> at(stack.n);
  for (uint32_t i = 0; i < stack.n; i++) {
    at[i] = weights_.find_address(stack[i]).value_or(0);
  }
  out.place.at = TRY(self_.expert_tables_.put(at, self_.stream_));
  return out;
}

namespace {

// What matvec_FORMAT_1 and experts_FORMAT_8 have in common.
template <class Product, class Input>
gpu::MatvecArgs matvec_args(const Product& product, const Input& input) {
  gpu::MatvecArgs args{};
  args.w = product.w.planes;
  args.experts = product.w.place;
  args.bias = product.w.bias;
  args.out = product.out;
  args.x = input.rows.x;
  args.pairs_per_input = input.pairs_per_input;
  args.n_summed = 1;
  args.n_out = static_cast<uint32_t>(product.w.shape.n_rows);
  args.width = input.rows.width;
  return args;
}

}  // namespace

// Every pair by itself; `sum`: and a row's pairs added. The products have one format and share inputs.
Result<void> GpuBackend::Runner::multiply_pairs(std::span<const ExpertProduct> products, const ExpertInput& input,
                                                SlotId routing, uint32_t n_used, bool sum) const {
  gpu::MatvecArgs args = matvec_args(products.front(), input);
  args.q = quants();
  args.scales = quant_scales();
  args.routing = slot(routing).data;
  args.n_summed = sum ? n_used : 1;
  args.weighed = sum ? 1 : 0;
  args.n_rows = n_rows(routing) * (sum ? 1 : n_used);
  gpu::Grid grid = gpu::matvec_grid(args.n_out, args.n_rows, 1, self_.device_->wave());
  CHECK(products.size() <= 1 + std::size(args.more));
  for (const ExpertProduct& more : products.subspan(1)) {
    const auto n_out = static_cast<uint32_t>(more.w.shape.n_rows);
    args.experts_of_more[args.n_more] = more.w.place;
    args.more[args.n_more++] = {more.w.planes, more.out, more.w.bias, n_out};
    grid.x += gpu::matvec_blocks(n_out, self_.device_->wave());
  }
  return launch(FormatKernel::matvec_1, products.front().w.shape.dtype, grid, gpu::kMatvecThreads, args);
}

// Grouped rows; products of pairs that share inputs, in one launch where a kernel takes several.
Result<void> GpuBackend::Runner::multiply_groups(std::span<const ExpertProduct> products, const ExpertInput& input,
                                                 uint32_t n_pairs, uint32_t n_experts, uint32_t tile_rows) const {
  const uint32_t max_tiles = gpu::max_expert_tiles(n_pairs, n_experts, tile_rows);
  const DType dtype = products.front().w.shape.dtype;
  switch (gpu::choose_expert_product(facts_.device, dtype, input.rows.width, tile_rows)) {
    case gpu::ExpertRoute::hopper:
      return multiply_groups_on_hopper(products, input, n_pairs, n_experts, tile_rows);
    case gpu::ExpertRoute::streamed:
      return multiply_groups_by_fragments(products, input, max_tiles, true);
    case gpu::ExpertRoute::fragments:
      return multiply_groups_by_fragments(products, input, max_tiles, false);
    case gpu::ExpertRoute::few:
      for (const ExpertProduct& product : products) {
        gpu::MatvecArgs args = matvec_args(product, input);
        args.q = quants();
        args.scales = quant_scales();
        args.groups = self_.experts_.groups();
        args.n_rows = n_pairs;
        TRY(launch(FormatKernel::experts_8, dtype,
                   gpu::experts_few_grid(args.n_out, max_tiles, tile_rows, self_.device_->wave()), gpu::kMatvecThreads,
                   args));
      }
      return {};
    case gpu::ExpertRoute::by_pair:
      break;
  }
  RF_UNREACHABLE("rows that are not grouped");
}

Result<void> GpuBackend::Runner::multiply_groups_by_fragments(std::span<const ExpertProduct> products,
                                                              const ExpertInput& input, uint32_t max_tiles,
                                                              bool is_streamed) const {
  const gpu::PanelOrder order = is_streamed ? gpu::PanelOrder::tiles_by_column : gpu::PanelOrder::tiles_by_row;
  const gpu::PanelsArgs panels{
      self_.panels_.input(), self_.experts_.input_scales(), input.rows.x, input.rows.n_rows, input.rows.width, order};
  CHECK(uint64_t{gpu::padded_to(panels.n_rows, gpu::kInputPanelRows)} * panels.width * 2 <=
        self_.panels_.input_bytes());
  TRY(launch(FixedKernel::panels, gpu::panels_grid(panels), gpu::kPanelsThreads, panels));
  gpu::ExpertsFragmentsArgs args{
      {}, self_.experts_.groups(), panels.panels, panels.scales, input.pairs_per_input, panels.width};
  CHECK(products.size() <= std::size(args.parts));
  for (size_t i = 0; i < products.size(); i++) {
    const ExpertWeights& w = products[i].w;
    args.parts[i] = {w.planes, w.place, w.bias, products[i].out, static_cast<uint32_t>(w.shape.n_rows)};
  }
  if (is_streamed) {
    const gpu::Grid grid = gpu::stream_experts_grid(args, max_tiles, self_.device_->wave());
    return launch(FormatKernel::experts_16, products.front().w.shape.dtype, grid, gpu::kStreamFragmentsThreads, args);
  }
  return launch(FormatKernel::experts_64, products.front().w.shape.dtype, gpu::experts_fragments_grid(args, max_tiles),
                gpu::kExpertFragmentThreads, args);
}

Result<void> GpuBackend::Runner::multiply_groups_on_hopper(std::span<const ExpertProduct> products,
                                                           const ExpertInput& input, uint32_t n_pairs,
                                                           uint32_t n_experts, uint32_t tile_rows) const {
  const DType dtype = products.front().w.shape.dtype;
  const uint32_t max_tiles = gpu::max_expert_tiles(n_pairs, n_experts, tile_rows), width = input.rows.width;
  const gpu::TilesArgs tiles{.tiles = self_.experts_.input_tiles(),
                             .scales = self_.experts_.input_scales(),
                             .x = input.rows.x,
                             .n_rows = max_tiles * tile_rows,
                             .width = width,
                             .tile_rows = tile_rows,
                             .groups = self_.experts_.groups(),
                             .pairs_per_input = input.pairs_per_input};
  CHECK(uint64_t{tiles.n_rows} * width * 2 <= self_.experts_.input_tiles_bytes());
  TRY(launch(FormatKernel::tiles, dtype, gpu::tiles_grid(tiles), gpu::kTilesThreads, tiles));
  gpu::HopperExpertsArgs args{{{}, tiles.tiles, tiles.scales, 0, width}, tiles.groups, {}};
  CHECK(products.size() <= std::size(args.places));
  uint32_t across = 0;
  for (size_t i = 0; i < products.size(); i++) {
    const ExpertWeights& w = products[i].w;
    const auto n_out = static_cast<uint32_t>(w.shape.n_rows);
    args.product.parts[i] = {w.planes, products[i].out, w.bias, n_out};
    args.places[i] = w.place;
    across += gpu::hopper_across(n_out);
  }
  const FormatKernel kernel = tile_rows == 8    ? FormatKernel::experts_hopper_8
                              : tile_rows == 16 ? FormatKernel::experts_hopper_16
                              : tile_rows == 64 ? FormatKernel::experts_hopper_64
                                                : FormatKernel::experts_hopper_128;
  return launch(kernel, dtype, gpu::Grid{across, max_tiles}, gpu::kHopperThreads, args);
}

Result<void> GpuBackend::Runner::operator()(const gpu::ExpertMatmulStep& product) const {
  const ExpertMatmul& step = *product.product;
  const ExpertInput input{{slot(step.in).data, n_rows(step.in), slot(step.in).width}, step.n_used};
  const uint32_t n_experts = step.parts.front().weight.n, n_pairs = input.rows.n_rows * step.n_used;
  const uint32_t tile_rows = facts_.expert_tile_of(step.routing, step.n_used, n_experts);
  std::vector<ExpertProduct> products;
  for (const ExpertMatmul::Part& part : step.parts) {
    products.push_back({TRY(find_experts(part.weight, part.bias)), slot(part.out).data});
    const WeightShape& shape = products.back().w.shape;
    CHECK(shape.row_elements == input.rows.width && shape.n_rows * step.n_used == slot(part.out).width);
  }
  if (product.makes_bytes) TRY(quantize(input.rows));
  tell(step.parts.front().weight, step.routing);
  for (size_t first = 0, n = 0; first < products.size(); first += n) {
    const auto rest = std::span<const ExpertProduct>(products).subspan(first);
    const DType dtype = rest.front().w.shape.dtype;
    n = static_cast<size_t>(std::ranges::find_if(rest, [&](const auto& p) { return p.w.shape.dtype != dtype; }) -
                            rest.begin());
    TRY(tile_rows == 0 ? multiply_pairs(rest.first(n), input, step.routing, step.n_used, false)
                       : multiply_groups(rest.first(n), input, n_pairs, n_experts, tile_rows));
  }
  return {};
}

Result<void> GpuBackend::Runner::operator()(const gpu::ExpertCombineStep& combine) const {
  const ExpertCombine& step = *combine.combine;
  const ExpertWeights w = TRY(find_experts(step.weight, step.bias));
  const auto width = static_cast<uint32_t>(w.shape.row_elements), n_out = static_cast<uint32_t>(w.shape.n_rows);
  CHECK(slot(step.in).width == step.n_used * width && slot(step.out).width == n_out);
  const uint32_t n_pairs = n_rows(step.in) * step.n_used;
  const ExpertInput input{{slot(step.in).data, n_pairs, width}, 1};
  const uint32_t tile_rows = facts_.expert_tile_of(step.routing, step.n_used, step.weight.n);
  if (combine.makes_bytes) TRY(quantize(input.rows));
  tell(step.weight, step.routing);
  float* const apart = self_.experts_.products();
  const ExpertProduct product{w, tile_rows == 0 ? slot(step.out).data : apart};
  if (tile_rows == 0) return multiply_pairs({&product, 1}, input, step.routing, step.n_used, true);
  TRY(multiply_groups({&product, 1}, input, n_pairs, step.weight.n, tile_rows));
  const gpu::CombineExpertsArgs args{slot(step.out).data, apart, slot(step.routing).data, step.n_used, n_out};
  return launch(FixedKernel::combine_experts, gpu::combine_experts_grid(n_rows(step.in), n_out),
                gpu::kCombineExpertsThreads, args);
}

}  // namespace rocmforge
