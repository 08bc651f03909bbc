// Products of 17 rows and more on Hopper (kernels/stream_rows_hopper.h): one launch makes the inputs, in the order of
// every format that takes them, and one multiplies, or one for each format where no kernel takes both.

#include <algorithm>
#include <vector>

#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::ProductRoute;
using gpu::RowsArgs;

gpu::ManyOrders GpuBackend::Runner::orders_of(const Matmul& product, uint8_t* to) const {
  const uint32_t rows = n_rows(product.in), n_pieces = slot(product.in).width / gpu::kStreamColumns;
  gpu::ManyOrders orders{.layout = gpu::ManyLayout::panels, .rows_at_once = gpu::rows_at_once(rows)};
  for (const Matmul::Part& part : product.parts) {
    const gpu::ManyOrder order = gpu::many_order(weights_.tensor(part.weight).shape.dtype);
    if (orders.find(order) != nullptr) continue;
    const uint32_t n_scales = gpu::many_scales(order);
    orders.add(order, to, gpu::rows_place_bytes(orders.rows_at_once, n_scales));
    to += gpu::rows_inputs_bytes(rows, n_pieces, n_scales);
  }
  return orders;
}

// The inputs come from a launch of their own or from the previous product's epilogue; the two use different buffers, as
// either may still be read.
uint8_t* GpuBackend::Runner::rows_inputs(uint32_t which) const {
  return reinterpret_cast<uint8_t*>(quants()) + which * facts_.rows_inputs_room();
}
float* GpuBackend::Runner::row_input_scales(uint32_t which) const {
  return reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.row_input_scales) + which * gpu::kMaxNormedRows;
}
float* GpuBackend::Runner::row_squares() const {
  return reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.row_squares);
}

Result<gpu::RowsNext> GpuBackend::Runner::write_inputs_of(const gpu::RowsStep& step) const {
  return gpu::RowsNext{.norm_weight = TRY(vector_of(step.next_norm->weight, 0)),
                       .lifts = row_input_scales(step.scales_at),
                       .squares = row_squares(),
                       .to = orders_of(*step.next_product, rows_inputs(1))};
}

Result<void> GpuBackend::Runner::launch_rows(std::span<const StreamPart> formats, const gpu::StreamStep& step) const {
  const gpu::StreamArgs& first = formats.front().args;
  const uint32_t n_pieces = first.width / gpu::kStreamColumns, at_once = gpu::rows_at_once(first.n_rows);
  const uint32_t scales_at = step.rows.scales_at;
  const gpu::ManyOrders inputs = orders_of(*step.product, rows_inputs(step.rows.inputs_are_written ? 1 : 0));
  gpu::RowsNorm left;
  if (step.rows.inputs_are_written) {
    left = {row_squares(), row_input_scales(scales_at), row_input_scales(scales_at ^ 1), step.norm->epsilon};
  } else {
    gpu::ManyInputsArgs args = gpu::many_inputs(first, inputs);
    if (step.norm != nullptr) args.lifts = row_input_scales(scales_at);
    TRY(launch(FixedKernel::stream_many_inputs, gpu::many_inputs_grid(args), gpu::kManyInputsThreads, args));
  }
  std::vector<RowsArgs> products;
  uint32_t n_tiles = 0;
  for (const StreamPart& part : formats) {
    products.push_back(rows_args(part));
    products.back().x = inputs.find(gpu::many_order(part.dtype));
    products.back().norm = left;
    left.next_lifts = nullptr;  // one launch is enough
    n_tiles += products.back().n_tiles;
  }

  const auto shared_bytes = [&](const StreamPart& part) {
    return gpu::rows_shared_bytes(gpu::strip_shape(part.dtype), at_once);
  };
  const FormatKernel kernel = at_once == 32   ? FormatKernel::rows_32
                              : at_once == 64 ? FormatKernel::rows_64
                                              : FormatKernel::rows_128;
  if (formats.size() == 2 && gpu::has_pair_kernels(formats[0].dtype, formats[1].dtype) &&
      n_tiles <= gpu::kStreamBlocks) {
    gpu::RowsPairArgs both{products[0], products[1]};
    divide(both, n_pieces);
    both.second.first_block = both.first.n_blocks;
    both.second.partial += uint64_t{both.first.n_blocks} * gpu::kRowsTileSums;
    both.second.counters += 2 * both.first.n_tiles;
    return launch(TRY(self_.kernels_.get(kernel, formats[0].dtype, formats[1].dtype)),
                  {{both.first.n_blocks + both.second.n_blocks},
                   gpu::rows_threads(at_once),
                   std::max(shared_bytes(formats[0]), shared_bytes(formats[1]))},
                  both);
  }
  for (size_t i = 0; i < formats.size(); i++) {
    RowsArgs& args = products[i];
    args.n_shares = facts_.shares_of(args.n_tiles, n_pieces);
    args.n_blocks = std::min(args.n_tiles * args.n_shares, gpu::kStreamBlocks);
    TRY(launch(TRY(self_.kernels_.get(kernel, formats[i].dtype)),
               {{args.n_blocks}, gpu::rows_threads(at_once), shared_bytes(formats[i])}, args));
  }
  return {};
}

// Divides two formats into slices so that the largest amount of work of a block is smallest. A piece of Q6_K counts
// twice.
// REQUIRES: no more tiles than blocks
void GpuBackend::Runner::divide(gpu::RowsPairArgs& both, uint32_t n_pieces) const {
  const uint32_t n_tiles[] = {both.first.n_tiles, both.second.n_tiles}, most = std::min(gpu::kRowsMaxShares, n_pieces);
  const uint64_t room = std::clamp<uint64_t>(facts_.room_for_shares(n_tiles[0] + n_tiles[1]), n_tiles[0] + n_tiles[1],
                                             gpu::kStreamBlocks);
  const uint32_t fewest = 2 * (n_tiles[0] + n_tiles[1]) <= room ? std::min(most, 2u) : 1;
  uint32_t least = UINT32_MAX;
  for (uint32_t first = fewest; first <= most; first++) {
    for (uint32_t second = fewest; second <= most; second++) {
      if (first * n_tiles[0] + second * n_tiles[1] > room) break;
      const auto work_of = [&](uint32_t n_shares) { return (n_pieces + n_shares - 1) / n_shares; };
      const uint32_t work = std::max(work_of(first), 2 * work_of(second));
      if (work >= least) continue;
      least = work;
      both.first.n_shares = first;
      both.second.n_shares = second;
    }
  }
  for (RowsArgs* args : {&both.first, &both.second}) args->n_blocks = args->n_tiles * args->n_shares;
}

gpu::RowsArgs GpuBackend::Runner::rows_args(const StreamPart& part) const {
  const gpu::StreamArgs& from = part.args;
  RowsArgs args{.x = nullptr, .n_rows = from.n_rows, .width = from.width, .n_parts = from.n_parts};
  std::ranges::copy(from.parts, args.parts);
  if (from.activated != nullptr) args.parts[0].out = args.parts[1].out = nullptr;
  args.sum = from.sum;
  args.sum_scale = from.sum_scale;
  args.after = from.after;
  args.activated = from.activated;
  std::ranges::copy(from.roles, args.roles);
  args.turn = part.turn;
  args.next = part.next;
  args.n_tiles = gpu::rows_tiles(part.n_strips * (from.activated != nullptr ? 2 : 1), gpu::rows_at_once(from.n_rows));
  args.partial = reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.attention_parts);
  args.counters = reinterpret_cast<uint32_t*>(self_.memory_.data() + self_.layout_.attention_arrivals);
  return args;
}

}  // namespace rocmforge
