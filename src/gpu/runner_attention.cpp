// The steps between the products of queries, keys and values and the product of what was attended to.

#include <algorithm>

#include "gpu/kernels/attend.h"
#include "gpu/kernels/attend_hopper.h"
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
  return {cache_of(step.layer), slot(step.k).data,  slot(step.v).data,
          batch_of(step.layer), slot(step.k).width, slot(step.v).width};
}

std::byte* GpuBackend::Runner::cache_of(uint32_t layer) const {
  return self_.memory_.data() + self_.layout_.kv[layer];
}

Result<void> GpuBackend::Runner::operator()(const Rope& step) const {
  const gpu::RopeArgs args = TRY(rope_args(step));
  return launch(FixedKernel::rope, gpu::rope_grid(n_rows(step.q), args), gpu::kRopeThreads, args);
}

// The same bits as one after the other.
Result<void> GpuBackend::Runner::operator()(const gpu::RopeStoreStep& step) const {
  const Rope& rope = *step.rope;
  const gpu::RopeArgs turn = TRY(rope_args(rope));
  const gpu::RopeStoreArgs args{turn, store_args(*step.store), gpu::n_turning(turn)};
  return launch(self_.kv_type_ == KvType::f16 ? FixedKernel::rope_store_f16 : FixedKernel::rope_store_f32,
                gpu::rope_store_grid(n_rows(rope.q), args), gpu::kRopeThreads, args);
}

float* GpuBackend::Runner::row_rotations(uint32_t which) const {
  return reinterpret_cast<float*>(self_.memory_.data() + self_.layout_.row_rotations + which * gpu::kRowRotationsBytes);
}
uint32_t* GpuBackend::Runner::cache_rows(uint32_t layer) const {
  return reinterpret_cast<uint32_t*>(self_.memory_.data() + self_.layout_.cache_rows) +
         (is_windowed(layer) ? gpu::kMaxTurnedRows : 0);
}

Result<void> GpuBackend::Runner::make_rotations(const gpu::StreamStep& step) const {
  const gpu::RowRotationsArgs args{TRY(rope_args(*step.rope)), store_args(*step.store).batch, n_rows(step.rope->q),
                                   row_rotations(step.rows.rotations), cache_rows(step.store->layer)};
  return launch(FixedKernel::row_rotations, gpu::row_rotations_grid(args), gpu::kRopeThreads, args);
}

gpu::RowsTurn GpuBackend::Runner::turns_of_rows(const gpu::StreamStep& step) const {
  const gpu::StoreKvArgs to = store_args(*step.store);
  gpu::RowsTurn turn = gpu::rows_turn(*step.rope);
  turn.turns = row_rotations(step.rows.rotations);
  turn.cache_rows = cache_rows(step.store->layer);
  turn.cache = to.cache;
  turn.width = to.width;
  turn.caches_halves = self_.kv_type_ == KvType::f16;
  return turn;
}

Result<void> GpuBackend::Runner::operator()(const StoreKv& step) const {
  const gpu::StoreKvArgs args = store_args(step);
  return launch(self_.kv_type_ == KvType::f16 ? FixedKernel::store_kv_f16 : FixedKernel::store_kv_f32,
                gpu::store_kv_grid(n_rows(step.k), args), gpu::kStoreKvThreads, args);
}

Result<void> GpuBackend::Runner::operator()(const Attend& step) const {
  CHECK(slot(step.q).width == step.n_heads * step.head_size &&
        slot(step.out).width == step.n_heads * step.value_head());
  const uint32_t n = n_rows(step.q);
  tell(step);
  const float* sinks = TRY(vector_of(step.sinks, 0));
  gpu::AttendArgs args{.out = slot(step.out).data,
                       .q = slot(step.q).data,
                       .cache = cache_of(step.layer),
                       .sinks = sinks,
                       .batch = batch_of(step.layer),
                       .n_heads = step.n_heads,
                       .n_kv_heads = step.n_kv_heads,
                       .head_size = step.head_size,
                       .value_size = step.value_head(),
                       .window = step.window,
                       .scale = step.scale,
                       .softcap = step.softcap,
                       .chunk = step.chunk,
                       .alibi_bias = step.alibi_bias};
  const gpu::AttendDevice device{self_.device_->has_hopper(), self_.device_->has_mma(), self_.device_->has_fragments()};
  // Passes that may be recorded do without rows together: launched and replayed they give the same bits.
  const gpu::AttendQuery query{
      args, self_.kv_type_ == KvType::f16, n, extent_.most_rows, extent_.longest, gpu::Recordings::kMaxMixedRows};
  if (const auto together = gpu::choose_attend_together(device, query)) {
    TRY(attend_together(*together, {args, n}));
    if (extent_.fewest_rows >= gpu::kMinTiledRows) return {};
    args.min_tiled_rows = gpu::kMinTiledRows;
  }
  return attend_by_rows(gpu::choose_attend_by_row(device, query), args, n);
}

Result<void> GpuBackend::Runner::attend_together(const gpu::AttendChoice& choice,
                                                 const gpu::AttendTilesArgs& args) const {
  const uint32_t n_heads = args.attend.n_heads;
  if (choice.route == gpu::AttendRoute::tiles) {
    return launch(choice.kernel, gpu::attend_tiles_grid(args.n_rows, n_heads, self_.device_->wave()),
                  gpu::kAttendTilesThreads, args);
  }
  return launch(TRY(self_.kernels_.get(choice.kernel)),
                {gpu::attend_hopper_grid(args.n_rows, n_heads), gpu::kAttendHopperThreads,
                 gpu::attend_hopper_shared_bytes(args.attend.head_size)},
                args);
}

// Many at once where there is a kernel for them. Else as many rows at a time as there is memory for what is found of
// their chunks.
Result<void> GpuBackend::Runner::attend_by_rows(const gpu::AttendChoice& choice, gpu::AttendArgs args,
                                                uint32_t n) const {
  const gpu::PassLayout& layout = self_.layout_;
  const uint32_t head_blocks = gpu::attend_head_blocks(args, choice.heads_of_block);
  if (choice.route == gpu::AttendRoute::hopper_rows) {
    const gpu::AttendRowsArgs rows{args, n, head_blocks};
    return launch(TRY(self_.kernels_.get(choice.kernel)),
                  {gpu::attend_rows_grid(rows), gpu::kAttendThreads,
                   gpu::attend_rows_shared_bytes(args.head_size <= 64 ? 64 : 128)},
                  rows);
  }
  const uint64_t n_parts = uint64_t{args.n_heads} * gpu::kMaxChunks;  // of a row
  const uint64_t part_floats = gpu::attend_part_floats(args.value_size);
  const uint64_t fit = layout.attention_parts_bytes / (n_parts * (part_floats + 2) * sizeof(float));
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(fit, gpu::kMaxSplitRows));
  CHECK(most > 0 && uint64_t{head_blocks} * most * sizeof(uint32_t) <= layout.attention_arrivals_bytes);
  args.parts = reinterpret_cast<float*>(self_.memory_.data() + layout.attention_parts);
  args.tops = args.parts + most * n_parts * part_floats;
  args.arrivals = reinterpret_cast<uint32_t*>(self_.memory_.data() + layout.attention_arrivals);
  for (uint32_t first = 0; first < n; first += most) {
    const uint32_t n_now = std::min(most, n - first);
    const uint32_t most_seen =
        args.window == 0 || (args.chunk != 0 && args.chunk < args.window) ? args.chunk : args.window;
    args.n_blocks = gpu::attend_blocks_of_row(n_now, head_blocks, extent_.longest, most_seen);
    TRY(launch(choice.kernel, gpu::attend_grid(n_now, args, choice.heads_of_block), gpu::kAttendThreads, args));
    const uint64_t n_heads = uint64_t{n_now} * args.n_heads;
    args.out += n_heads * args.value_size;
    args.q += n_heads * args.head_size;
    args.batch.positions += n_now;
    args.batch.first_page += n_now;
    args.batch.n_together += n_now;
  }
  return {};
}

}  // namespace rocmforge
