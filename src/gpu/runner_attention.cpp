// The steps between the products of queries, keys and values and the product of what was attended to.

#include <fmt/core.h>

#include <algorithm>

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_hopper.h"
#include "gpu/kernels/attend_matrix.h"
#include "gpu/kernels/attend_rows_hopper.h"
#include "gpu/kernels/attend_tiles.h"
#include "gpu/kernels/rope.h"
#include "gpu/runner.h"
#include "model/rope.h"

namespace rocmforge {

using gpu::FixedKernel;

static_assert(gpu::kPagePositions == kPageTokens);

Result<gpu::RopeArgs> GpuBackend::Runner::rope_args(const Rope& step) const {
  const float* factors = TRY(vector_of(step.factors, 0));
  const double* turns = TRY(self_.rope_table(step.rope));
  const bool halves = step.rope.pairs == RopePairs::halves;
  const uint32_t n_pairs = step.rope.n_dims / 2;
  return gpu::RopeArgs{
      .heads = {slot(step.q).data, slot(step.k).data},
      .n_heads = {slot(step.q).width / step.head_size, step.q == step.k ? 0 : slot(step.k).width / step.head_size},
      .positions = batch_.positions,
      .turns = turns,
      .factors = factors,
      .factors_are_made = step.factors && weight(*step.factors).shape.dtype != DType::f32 ? 1u : 0u,
      .magnitude = static_cast<float>(rope_magnitude(step.rope)),
      .head_size = step.head_size,
      .n_pairs = n_pairs,
      .pair_step = halves ? 1u : 2u,
      .pair_apart = halves ? n_pairs : 1u};
}

gpu::StoreKvArgs GpuBackend::Runner::store_args(const StoreKv& step) const {
  const uint32_t width = slot(step.k).width;
  CHECK(slot(step.v).width == width);
  return {cache_of(step.layer), slot(step.k).data, slot(step.v).data, batch_, width};
}

std::byte* GpuBackend::Runner::cache_of(uint32_t layer) const {
  return self_.memory_.data() + self_.layout_.kv[layer];
}

Result<void> GpuBackend::Runner::operator()(const Rope& step) const {
  const gpu::RopeArgs args = TRY(rope_args(step));
  return launch(FixedKernel::rope, gpu::rope_grid(n_rows(step.q), args), gpu::kRopeThreads, args);
}

// The same bits as one after the other.
Result<void> GpuBackend::Runner::rope_and_store(const Rope& rope, const StoreKv& store) const {
  const gpu::RopeArgs turn = TRY(rope_args(rope));
  const gpu::RopeStoreArgs args{turn, store_args(store), gpu::n_turning(turn)};
  return launch(self_.kv_type_ == KvType::f16 ? FixedKernel::rope_store_f16 : FixedKernel::rope_store_f32,
                gpu::rope_store_grid(n_rows(rope.q), args), gpu::kRopeThreads, args);
}

gpu::RowsTurn GpuBackend::Runner::rows_turn(const Rope& rope) const {
  return {
      .head_size = rope.head_size, .n_pairs = rope.rope.n_dims / 2, .are_halves = rope.rope.pairs == RopePairs::halves};
}

// By the first layer that wants them.
Result<gpu::RowsTurn> GpuBackend::Runner::turns_of_rows(const Rope& rope, const StoreKv& store) const {
  const MadeTurns wanted{rope.rope, rope.factors};
  const size_t at = std::ranges::find(made_turns_, wanted) - made_turns_.begin();
  CHECK(at < gpu::kMaxRopeTables);
  const gpu::StoreKvArgs to = store_args(store);
  auto* turns = reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.row_turns + at * gpu::kRowTurnsBytes);
  auto* cache_rows = reinterpret_cast<uint32_t*>(self_.memory_.data() + self_.layout_.cache_rows);
  if (at == made_turns_.size()) {
    const gpu::RowTurnsArgs args{TRY(rope_args(rope)), batch_, n_rows(rope.q), turns, cache_rows};
    TRY(launch(FixedKernel::row_turns, gpu::row_turns_grid(args), gpu::kRopeThreads, args));
    made_turns_.push_back(wanted);
  }
  gpu::RowsTurn turn = rows_turn(rope);
  turn.turns = turns;
  turn.cache_rows = cache_rows;
  turn.cache = to.cache;
  turn.width = to.width;
  turn.caches_halves = self_.kv_type_ == KvType::f16;
  return turn;
}

Result<void> GpuBackend::Runner::operator()(const StoreKv& step) const {
  const gpu::StoreKvArgs args = store_args(step);
  return launch(self_.kv_type_ == KvType::f16 ? FixedKernel::store_kv_f16 : FixedKernel::store_kv_f32,
                gpu::store_kv_grid(n_rows(step.k), args.width), gpu::kStoreKvThreads, args);
}

Result<void> GpuBackend::Runner::operator()(const Attend& step) const {
  CHECK(slot(step.q).width == step.n_heads * step.head_size && slot(step.out).width == slot(step.q).width);
  if (step.chunk != 0 && extent_.longest > step.chunk) {
    return Error{ErrorCode::unsupported,
                 fmt::format("gpu: attention in chunks of {} positions, and {} of them; use the CPU", step.chunk,
                             extent_.longest)};
  }
  const uint32_t n = n_rows(step.q);
  tell(step);
  const float* sinks = TRY(vector_of(step.sinks, 0));
  gpu::AttendArgs args{.out = slot(step.out).data,
                       .q = slot(step.q).data,
                       .cache = cache_of(step.layer),
                       .sinks = sinks,
                       .batch = batch_,
                       .n_heads = step.n_heads,
                       .n_kv_heads = step.n_kv_heads,
                       .head_size = step.head_size,
                       .window = step.window,
                       .scale = step.scale,
                       .softcap = step.softcap};
  const bool f16 = self_.kv_type_ == KvType::f16;
  // Passes that may be recorded do without: launched and replayed they give the same bits.
  if (f16 && n > gpu::Recordings::kMaxMixedRows && extent_.most_rows >= gpu::kMinTiledRows &&
      gpu::has_attend_tiles(step.head_size)) {
    if (self_.device_->has_hopper() && gpu::has_attend_hopper(step.head_size, step.softcap)) {
      const auto kernel = step.head_size <= 64 ? FixedKernel::attend_hopper_64 : FixedKernel::attend_hopper_128;
      TRY(launch(TRY(self_.kernels_.get(kernel)),
                 {gpu::attend_hopper_grid(n, step.n_heads), gpu::kAttendHopperThreads,
                  gpu::attend_hopper_shared_bytes(step.head_size)},
                 gpu::AttendTilesArgs{args, n}));
    } else {
      TRY(launch(step.head_size <= 64 ? FixedKernel::attend_tiles_64 : FixedKernel::attend_tiles_128,
                 gpu::attend_tiles_grid(n, step.n_heads, self_.device_->wave()), gpu::kAttendTilesThreads,
                 gpu::AttendTilesArgs{args, n}));
    }
    if (extent_.fewest_rows >= gpu::kMinTiledRows) return {};
    args.min_tiled_rows = gpu::kMinTiledRows;
  }
  return attend_by_rows(args, n);
}

// Many at once where there is a kernel for them. Else as many rows at a time as there is memory for what is found of
// their chunks.
Result<void> GpuBackend::Runner::attend_by_rows(gpu::AttendArgs args, uint32_t n) const {
  const gpu::PassLayout& layout = self_.layout_;
  const bool f16 = self_.kv_type_ == KvType::f16;
  const bool by_matrix = f16 && self_.device_->has_mma() && gpu::has_attend_matrix(args.head_size);
  const auto kernel = [&](FixedKernel matrix, FixedKernel halves, FixedKernel floats) {
    return by_matrix ? matrix : f16 ? halves : floats;
  };
  const FixedKernel chosen =
      args.head_size <= 64
          ? kernel(FixedKernel::attend_matrix_64, FixedKernel::attend_f16_64, FixedKernel::attend_f32_64)
      : args.head_size <= 128
          ? kernel(FixedKernel::attend_matrix_128, FixedKernel::attend_f16_128, FixedKernel::attend_f32_128)
          : kernel(FixedKernel::attend_matrix_256, FixedKernel::attend_f16_256, FixedKernel::attend_f32_256);
  const uint32_t heads_of_block = by_matrix ? gpu::kMatrixHeads : gpu::kAttendHeads;
  const uint32_t head_blocks = gpu::attend_head_blocks(args, heads_of_block);
  if (const gpu::AttendRowsArgs rows{args, n, head_blocks};
      by_matrix && self_.device_->has_hopper() && gpu::has_attend_rows(rows)) {
    const uint32_t size = args.head_size <= 64 ? 64 : 128;
    return launch(TRY(self_.kernels_.get(size == 64 ? FixedKernel::attend_rows_64 : FixedKernel::attend_rows_128)),
                  {gpu::attend_rows_grid(rows), gpu::kAttendThreads, gpu::attend_rows_shared_bytes(size)}, rows);
  }
  const uint64_t n_parts = uint64_t{args.n_heads} * gpu::kMaxChunks;  // of a row
  const uint64_t part_floats = gpu::attend_part_floats(args.head_size);
  const uint64_t fit = layout.attention_parts_bytes / (n_parts * (part_floats + 2) * sizeof(float));
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(fit, gpu::kMaxSplitRows));
  CHECK(most > 0 && uint64_t{head_blocks} * most * sizeof(uint32_t) <= layout.attention_arrivals_bytes);
  args.parts = reinterpret_cast<float*>(self_.memory_.data() + layout.attention_parts);
  args.tops = args.parts + most * n_parts * part_floats;
  args.arrivals = reinterpret_cast<uint32_t*>(self_.memory_.data() + layout.attention_arrivals);
  for (uint32_t first = 0; first < n; first += most) {
    const uint32_t n_now = std::min(most, n - first);
    args.n_blocks = gpu::attend_blocks_of_row(n_now, head_blocks, extent_.longest, args.window);
    TRY(launch(chosen, gpu::attend_grid(n_now, args, heads_of_block), gpu::kAttendThreads, args));
    const uint64_t width = uint64_t{n_now} * args.n_heads * args.head_size;
    args.out += width;
    args.q += width;
    args.batch.positions += n_now;
    args.batch.first_page += n_now;
    args.batch.n_together += n_now;
  }
  return {};
}

}  // namespace rocmforge
