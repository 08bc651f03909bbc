// Products of 17 rows and more on Hopper (kernels/stream_rows_hopper.h): one launch makes the inputs, in the order of
// every format that takes them, and one multiplies, or one for each format where no kernel takes both.

#include <algorithm>
#include <vector>

#include "gpu/kernels/stream_rows_hopper.h"
#include "gpu/runner.h"

namespace rocmforge {

using gpu::FixedKernel;
using gpu::FormatKernel;
using gpu::RowsArgs;

namespace {

// Of inputs in one order.
uint64_t input_bytes(uint32_t n_rows, uint32_t n_pieces, uint32_t n_scales) {
  const uint32_t at_once = gpu::rows_at_once(n_rows), n_sets = (n_rows + at_once - 1) / at_once;
  return uint64_t{n_sets} * n_pieces * gpu::rows_place_bytes(at_once, n_scales);
}

// The kernel for weights of two formats.
std::optional<FixedKernel> pair_kernel(DType first, DType second, uint32_t at_once) {
  if (second != DType::q6_k) return std::nullopt;
  if (first == DType::q4_k) {
    return at_once == 32   ? FixedKernel::stream_rows_q4_k_q6_k_32
           : at_once == 64 ? FixedKernel::stream_rows_q4_k_q6_k_64
                           : FixedKernel::stream_rows_q4_k_q6_k_128;
  }
  if (first == DType::q5_k) {
    return at_once == 32   ? FixedKernel::stream_rows_q5_k_q6_k_32
           : at_once == 64 ? FixedKernel::stream_rows_q5_k_q6_k_64
                           : FixedKernel::stream_rows_q5_k_q6_k_128;
  }
  return std::nullopt;
}

}  // namespace

bool GpuBackend::Runner::can_stream_rows(const Matmul& step) const {
  const uint32_t n_pieces = slot(step.in).width / gpu::kStreamColumns, rows = n_rows(step.in);
  if (rows < gpu::kRowsMinRows || rows > gpu::kRowsMaxRows || n_pieces > gpu::kManyMaxPieces) return false;
  uint64_t n_bytes = 0;
  for (const Matmul::Part& part : step.parts) {
    const WeightShape& shape = weights_.tensor(part.weight).shape;
    if (!gpu::has_rows_kernels(shape.dtype) || shape.n_rows % gpu::kStreamOutputs != 0) return false;
    if (part.bias && weights_.tensor(*part.bias).shape.dtype != DType::f32) return false;
    n_bytes += input_bytes(rows, n_pieces, gpu::strip_shape(shape.dtype).n_scales);
  }
  return n_bytes <= self_.layout_.quants_bytes;
}

// REQUIRES: can_stream_rows(product). Turning is done where shares are added up: there must be two of them at least.
bool GpuBackend::Runner::can_turn_rows(const Matmul& product, const Rope& rope) const {
  static_assert(gpu::kRowsMaxRows <= gpu::kMaxTurnedRows);
  const gpu::RowsTurn turn = rows_turn(rope);
  uint32_t n_tiles = 0;
  for (const Matmul::Part& part : product.parts) {
    if (!gpu::can_turn_rows(turn, slot(part.out).width)) return false;
    n_tiles += gpu::rows_tiles(slot(part.out).width / gpu::kStreamOutputs);  // one format may have fewer for all parts
  }
  const bool is_made = std::ranges::find(made_turns_, MadeTurns{rope.rope, rope.factors}) != made_turns_.end();
  return turn.n_pairs <= gpu::kMaxTurnedPairs && (is_made || made_turns_.size() < gpu::kMaxRopeTables) &&
         slot(product.in).width >= 2 * gpu::kStreamColumns &&
         2 * n_tiles <= std::min<uint64_t>(gpu::kStreamBlocks, room_for_shares(n_tiles));
}

Result<void> GpuBackend::Runner::launch_rows(std::span<const StreamPart> formats) const {
  const gpu::StreamArgs& first = formats.front().args;
  const uint32_t n_pieces = first.width / gpu::kStreamColumns, at_once = gpu::rows_at_once(first.n_rows);
  gpu::ManyInputsArgs inputs = gpu::many_inputs(first, gpu::ManyLayout::panels, at_once);
  auto* end = reinterpret_cast<uint8_t*>(quants());
  std::vector<RowsArgs> products;
  uint32_t n_tiles = 0;
  for (const StreamPart& part : formats) {
    const gpu::ManyOrder order = gpu::many_order(part.dtype);
    const auto known = std::span(inputs.orders).first(inputs.n_orders);
    size_t at = std::ranges::find(known, order) - known.begin();
    if (at == known.size()) {
      const uint32_t n_scales = gpu::many_scales(order);
      inputs.add(order, end, gpu::rows_place_bytes(at_once, n_scales));
      end += input_bytes(first.n_rows, n_pieces, n_scales);
    }
    products.push_back(rows_args(part));
    products.back().x = inputs.out[at];
    n_tiles += products.back().n_tiles;
  }
  TRY(launch(FixedKernel::stream_many_inputs, gpu::many_inputs_grid(inputs), gpu::kManyInputsThreads, inputs));

  const auto shared_bytes = [&](const StreamPart& part) {
    return gpu::rows_shared_bytes(gpu::strip_shape(part.dtype), at_once);
  };
  const auto kernel =
      formats.size() == 2 ? pair_kernel(formats[0].dtype, formats[1].dtype, at_once) : std::optional<FixedKernel>();
  if (kernel && n_tiles <= gpu::kStreamBlocks) {
    gpu::RowsPairArgs both{products[0], products[1]};
    divide(both, n_pieces);
    both.second.first_block = both.first.n_blocks;
    both.second.partial += uint64_t{gpu::rows_passes(first.n_rows, at_once)} * both.first.n_blocks * gpu::kRowsPassSums;
    both.second.counters += 2 * both.first.n_tiles;
    return launch(TRY(self_.kernels_.get(*kernel)),
                  {{both.first.n_blocks + both.second.n_blocks},
                   gpu::rows_threads(at_once),
                   std::max(shared_bytes(formats[0]), shared_bytes(formats[1]))},
                  both);
  }
  for (size_t i = 0; i < formats.size(); i++) {
    RowsArgs& args = products[i];
    args.n_shares = shares_of(args.n_tiles, n_pieces);
    args.n_blocks = std::min(args.n_tiles * args.n_shares, gpu::kStreamBlocks);
    const FormatKernel of_format = at_once == 32   ? FormatKernel::rows_32
                                   : at_once == 64 ? FormatKernel::rows_64
                                                   : FormatKernel::rows_128;
    TRY(launch(TRY(self_.kernels_.get(of_format, formats[i].dtype)),
               {{args.n_blocks}, gpu::rows_threads(at_once), shared_bytes(formats[i])}, args));
  }
  return {};
}

// Tiles times shares that there is room for. Sums are left where attention leaves its own, which are not needed any
// more or not yet.
uint64_t GpuBackend::Runner::room_for_shares(uint32_t n_tiles) const {
  constexpr uint32_t kMostPasses = 2;  // the same for fewer rows, so that they get the same bits
  static_assert(gpu::rows_passes(gpu::kRowsMaxRows, 128) <= kMostPasses && gpu::rows_passes(64, 64) <= kMostPasses);
  if (2 * n_tiles * sizeof(uint32_t) > self_.layout_.attention_arrivals_bytes) return 0;
  return self_.layout_.attention_parts_bytes / (gpu::kRowsPassSums * sizeof(float)) / kMostPasses;
}

uint32_t GpuBackend::Runner::shares_of(uint32_t n_tiles, uint32_t n_pieces) const {
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(room_for_shares(n_tiles) / n_tiles, 1, gpu::rows_shares(n_tiles, n_pieces)));
}

// Shares of two formats, so that the block with the most to do has the least. A piece of Q6_K is two of others'.
// REQUIRES: no more tiles than blocks
void GpuBackend::Runner::divide(gpu::RowsPairArgs& both, uint32_t n_pieces) const {
  const uint32_t n_tiles[] = {both.first.n_tiles, both.second.n_tiles}, most = std::min(gpu::kRowsMaxShares, n_pieces);
  const uint64_t room =
      std::clamp<uint64_t>(room_for_shares(n_tiles[0] + n_tiles[1]), n_tiles[0] + n_tiles[1], gpu::kStreamBlocks);
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
  args.n_tiles = gpu::rows_tiles(part.n_strips * (from.activated != nullptr ? 2 : 1));
  args.partial = reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.attention_parts);
  args.counters = reinterpret_cast<uint32_t*>(self_.memory_.data() + self_.layout_.attention_arrivals);
  return args;
}

}  // namespace rocmforge
