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

bool reads(const Step& step, SlotId id) {
  return std::visit(
      [&](const auto& s) {
        using T = std::decay_t<decltype(s)>;
        if constexpr (std::is_same_v<T, Norm> || std::is_same_v<T, Matmul> || std::is_same_v<T, TakeRows> ||
                      std::is_same_v<T, TakeColumns>) {
          return s.in == id;
        } else if constexpr (std::is_same_v<T, Rope>) {
          return s.q == id || s.k == id;
        } else if constexpr (std::is_same_v<T, StoreKv>) {
          return s.k == id || s.v == id;
        } else if constexpr (std::is_same_v<T, Temper> || std::is_same_v<T, Scale>) {
          return s.slot == id;
        } else if constexpr (std::is_same_v<T, Gate>) {
          return s.in == id || s.gate == id;
        } else if constexpr (std::is_same_v<T, WeighExperts>) {
          return s.routing == id || std::ranges::find(s.slots, id) != s.slots.end();
        } else if constexpr (std::is_same_v<T, Attend>) {
          return s.q == id;
        } else if constexpr (std::is_same_v<T, Activate>) {
          return s.gate == id || (s.gated && s.up == id);
        } else if constexpr (std::is_same_v<T, Add>) {
          return s.in == id || s.out == id;
        } else if constexpr (std::is_same_v<T, Route>) {
          return s.logits == id;
        } else if constexpr (std::is_same_v<T, ExpertMatmul> || std::is_same_v<T, ExpertCombine>) {
          return s.in == id || s.routing == id;
        } else {
          static_assert(std::is_same_v<T, Embed>);
          return false;
        }
      },
      step);
}
bool writes(const Step& step, SlotId id) {
  return std::visit(
      [&](const auto& s) {
        using T = std::decay_t<decltype(s)>;
        if constexpr (std::is_same_v<T, Matmul> || std::is_same_v<T, ExpertMatmul>) {
          return std::ranges::any_of(s.parts, [&](const auto& part) { return part.out == id; });
        } else if constexpr (std::is_same_v<T, Rope> || std::is_same_v<T, StoreKv> || std::is_same_v<T, Temper> ||
                             std::is_same_v<T, Scale> || std::is_same_v<T, WeighExperts>) {
          return false;  // nothing that it does not read
        } else {
          return s.out == id;
        }
      },
      step);
}
// Whether one of the steps wants what a slot holds now.
bool is_wanted(SlotId id, std::span<const Step> steps) {
  for (const Step& step : steps) {
    if (reads(step, id)) return true;
    if (writes(step, id)) return false;
  }
  return false;
}

}  // namespace

bool GpuBackend::Runner::can_stream_rows(const Matmul& step) const {
  const uint32_t n_pieces = slot(step.in).width / gpu::kStreamColumns, rows = n_rows(step.in);
  if (rows < gpu::kRowsMinRows || rows > gpu::kRowsMaxRows || n_pieces > gpu::kManyMaxPieces) return false;
  for (const Matmul::Part& part : step.parts) {
    const WeightShape& shape = weights_.tensor(part.weight).shape;
    if (!gpu::has_rows_kernels(shape.dtype) || shape.n_rows % gpu::kStreamOutputs != 0) return false;
    if (part.bias && weights_.tensor(*part.bias).shape.dtype != DType::f32) return false;
  }
  return all_input_bytes(step) <= self_.layout_.quants_bytes;
}

uint64_t GpuBackend::Runner::all_input_bytes(const Matmul& step) const {
  uint64_t n_bytes = 0;
  for (const Matmul::Part& part : step.parts) {
    const uint32_t n_scales = gpu::strip_shape(weights_.tensor(part.weight).shape.dtype).n_scales;
    n_bytes += input_bytes(n_rows(step.in), slot(step.in).width / gpu::kStreamColumns, n_scales);
  }
  return n_bytes;
}

// REQUIRES: can_stream_rows(product). Turning is done where shares are added up: there must be two of them at least.
bool GpuBackend::Runner::can_turn_rows(const Matmul& product, const Rope& rope) const {
  static_assert(gpu::kRowsMaxRows <= gpu::kMaxTurnedRows);
  const gpu::RowsTurn turn = rows_turn(rope);
  uint32_t n_tiles = 0;
  for (const Matmul::Part& part : product.parts) {
    if (!gpu::can_turn_rows(turn, slot(part.out).width)) return false;
    // One format may have fewer for all parts.
    n_tiles += gpu::rows_tiles(slot(part.out).width / gpu::kStreamOutputs, gpu::rows_at_once(n_rows(product.in)));
  }
  const bool is_made = std::ranges::find(made_turns_, MadeTurns{rope.rope, rope.factors}) != made_turns_.end();
  return turn.n_pairs <= gpu::kMaxTurnedPairs && (is_made || made_turns_.size() < gpu::kMaxRopeTables) &&
         slot(product.in).width >= 2 * gpu::kStreamColumns &&
         2 * n_tiles <= std::min<uint64_t>(gpu::kStreamBlocks, room_for_shares(n_tiles));
}

gpu::ManyOrders GpuBackend::Runner::orders_of(const Matmul& product, uint8_t* to) const {
  const uint32_t rows = n_rows(product.in), n_pieces = slot(product.in).width / gpu::kStreamColumns;
  gpu::ManyOrders orders{.layout = gpu::ManyLayout::panels, .rows_at_once = gpu::rows_at_once(rows)};
  for (const Matmul::Part& part : product.parts) {
    const gpu::ManyOrder order = gpu::many_order(weights_.tensor(part.weight).shape.dtype);
    if (orders.find(order) != nullptr) continue;
    const uint32_t n_scales = gpu::many_scales(order);
    orders.add(order, to, gpu::rows_place_bytes(orders.rows_at_once, n_scales));
    to += input_bytes(rows, n_pieces, n_scales);
  }
  return orders;
}

// Made by a launch of its own, or left by the product before: neither is where the other one may still be read.
uint8_t* GpuBackend::Runner::rows_inputs(uint32_t which) const {
  return reinterpret_cast<uint8_t*>(quants()) + which * (self_.layout_.quants_bytes / 2 / 1024 * 1024);
}
float* GpuBackend::Runner::row_lifts(uint32_t which) const {
  return reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.row_lifts) + which * gpu::kMaxNormedRows;
}
float* GpuBackend::Runner::row_squares() const {
  return reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.row_squares);
}

std::optional<GpuBackend::Runner::Taker> GpuBackend::Runner::taker_of(const Matmul& product, const Add& sum,
                                                                      std::span<const Step> after) const {
  static_assert(gpu::kRowsMaxRows <= gpu::kMaxNormedRows && gpu::kManyMaxPieces <= gpu::kMaxNormedPieces);
  if (after.empty()) after = following_;
  // While weights come in a pass runs stage by stage, and the next norm's may not be there: prompts do without, so that
  // they get the same bits then.
  if (self_.n_rows_ != self_.n_outputs_) return std::nullopt;
  // A tile must be 256 columns of the next inputs.
  if (gpu::rows_tile_outputs(gpu::rows_at_once(n_rows(product.in))) != gpu::kStreamColumns) return std::nullopt;
  if (after.size() < 2 || lifted_ != sum.out) return std::nullopt;
  const auto* norm = std::get_if<Norm>(&after[0]);
  const auto* taker = std::get_if<Matmul>(&after[1]);
  if (norm == nullptr || taker == nullptr || norm->in != sum.out || taker->in != norm->out || !can_norm(*norm) ||
      slot(norm->out).rows != SlotRows::batch || !can_stream_rows(*taker)) {
    return std::nullopt;
  }
  // What is not written: the product, and its sum normalised.
  if (is_wanted(sum.in, after) || is_wanted(norm->out, after.subspan(2))) return std::nullopt;
  const uint32_t n_out = slot(sum.out).width, n_tiles = n_out / gpu::kStreamColumns;
  if (n_out % gpu::kStreamColumns != 0 || shares_of(n_tiles, slot(product.in).width / gpu::kStreamColumns) < 2) {
    return std::nullopt;
  }
  const uint64_t room = rows_inputs(1) - rows_inputs(0);
  return all_input_bytes(product) <= room && all_input_bytes(*taker) <= room ? std::optional(Taker{norm, taker})
                                                                             : std::nullopt;
}

Result<gpu::RowsNext> GpuBackend::Runner::leave_inputs(const Taker& taker) const {
  left_inputs_ = {taker.product, orders_of(*taker.product, rows_inputs(1))};
  return gpu::RowsNext{.norm_weight = TRY(vector_of(taker.norm->weight, 0)),
                       .lifts = row_lifts(lifts_at_),
                       .squares = row_squares(),
                       .to = left_inputs_->at};
}

Result<void> GpuBackend::Runner::launch_rows(std::span<const StreamPart> formats, const Norm* norm,
                                             const Matmul& product) const {
  const gpu::StreamArgs& first = formats.front().args;
  const uint32_t n_pieces = first.width / gpu::kStreamColumns, at_once = gpu::rows_at_once(first.n_rows);
  const bool are_left = left_inputs_ && left_inputs_->product == &product;
  const gpu::ManyOrders inputs = are_left ? left_inputs_->at : orders_of(product, rows_inputs(0));
  gpu::RowsNorm left;
  if (are_left) {
    left = {row_squares(), row_lifts(lifts_at_), row_lifts(lifts_at_ ^ 1), norm->epsilon};
    lifts_at_ ^= 1;
    left_inputs_.reset();
  } else {
    gpu::ManyInputsArgs args = gpu::many_inputs(first, inputs);
    if (norm != nullptr) {
      args.lifts = row_lifts(lifts_at_);
      lifted_ = norm->in;
    }
    TRY(launch(FixedKernel::stream_many_inputs, gpu::many_inputs_grid(args), gpu::kManyInputsThreads, args));
  }
  std::vector<RowsArgs> products;
  uint32_t n_tiles = 0;
  for (const StreamPart& part : formats) {
    products.push_back(rows_args(part));
    products.back().x = inputs.find(gpu::many_order(part.dtype));
    products.back().norm = left;
    left.next_lifts = nullptr;  // once is enough
    n_tiles += products.back().n_tiles;
  }

  const auto shared_bytes = [&](const StreamPart& part) {
    return gpu::rows_shared_bytes(gpu::strip_shape(part.dtype), at_once);
  };
  const auto kernel =
      formats.size() == 2 ? pair_kernel(formats[0].dtype, formats[1].dtype, at_once) : std::optional<FixedKernel>();
  if (kernel && n_tiles <= gpu::kStreamBlocks) {
    gpu::RowsPairArgs both{products[0], products[1]};
    divide(both, n_pieces);
    both.second.first_block = both.first.n_blocks;
    both.second.partial += uint64_t{both.first.n_blocks} * gpu::kRowsTileSums;
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
  static_assert(gpu::rows_sets(gpu::kRowsMaxRows, 128) == 1);
  if (2 * n_tiles * sizeof(uint32_t) > self_.layout_.attention_arrivals_bytes) return 0;
  return self_.layout_.attention_parts_bytes / (gpu::kRowsTileSums * sizeof(float));
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
  args.next = part.next;
  args.n_tiles = gpu::rows_tiles(part.n_strips * (from.activated != nullptr ? 2 : 1), gpu::rows_at_once(from.n_rows));
  args.partial = reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.attention_parts);
  args.counters = reinterpret_cast<uint32_t*>(self_.memory_.data() + self_.layout_.attention_arrivals);
  return args;
}

}  // namespace rocmforge
