#include "gpu/backend.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "gpu/runner.h"
#include "gpu/supported.h"
#include "model/rope.h"

namespace rocmforge {
namespace {

constexpr size_t kReadingBytes = 4 << 20;

// Rows whose candidates are found by one launch.
uint32_t rows_together(uint32_t max_outputs) {
  return std::clamp(max_outputs, 1u, 128u);
}

uint64_t group_keys_bytes(uint32_t n_rows, uint32_t width) {
  return uint64_t{n_rows} * gpu::n_candidate_chunks(width) * gpu::kCandidateGroupsThreads * sizeof(uint32_t);
}
// A mask, and what is said of its row.
size_t allowed_row_bytes(uint32_t width) {
  return gpu::n_mask_words(width) * sizeof(uint32_t) + sizeof(gpu::AllowedRow);
}
uint64_t candidates_bytes(const PassMemory& memory) {
  uint32_t widest = 1;
  for (const Slot& slot : memory.slots) {
    if (slot.rows == SlotRows::outputs) widest = std::max(widest, slot.width);
  }
  const uint32_t n_rows = rows_together(memory.max_outputs);
  return group_keys_bytes(n_rows, widest) + uint64_t{n_rows} * gpu::n_candidate_chunks(widest) * sizeof(gpu::ChunkSum);
}

}  // namespace

Result<std::unique_ptr<GpuBackend>> GpuBackend::open(const gpu::GpuApi& api, uint32_t device,
                                                     const gpu::SelfTestOptions& self_test) {
  auto opened = TRY(gpu::Device::open(api, device));  // not inside new: what that has allocated would be left behind
  TRY(gpu::test_for_use(*opened, self_test));
  return std::unique_ptr<GpuBackend>(new GpuBackend(std::move(opened)));
}

GpuBackend::GpuBackend(std::unique_ptr<gpu::Device> device)
    : device_(std::move(device)),
      name_(fmt::format("{} ({})", device_->api().module, device_->name())),
      kernels_(*device_),
      placement_(*device_) {}

GpuBackend::~GpuBackend() {
  release();
}

Result<void> GpuBackend::check_steps(std::span<const Step> steps, const WeightStore& weights) const {
  for (const Step& step : steps) TRY(gpu::check_supported(step, weights));
  return {};
}

uint64_t GpuBackend::pass_bytes(const PassMemory& memory) const {
  return gpu::pass_layout(memory).total_bytes + candidates_bytes(memory) +
         gpu::ExpertTables::kTables * gpu::ExpertTables::kTableBytes +
         gpu::ExpertMemory::n_bytes(memory, device_->has_hopper()) +
         (device_->has_fragments() ? gpu::PanelMemory::n_bytes(memory) : 0);
}

Result<void> GpuBackend::reserve(const PassMemory& memory) {
  release();
  auto done = allocate(memory);
  if (!done.ok()) release();
  return done;
}

Result<void> GpuBackend::allocate(const PassMemory& memory) {
  using gpu::Memory;
  layout_ = gpu::pass_layout(memory);
  stream_ = TRY(gpu::Stream::make(*device_));
  memory_ = TRY(Memory::allocate(*device_, Memory::Kind::device, layout_.total_bytes));
  group_keys_ = TRY(Memory::allocate(*device_, Memory::Kind::device, candidates_bytes(memory)));
  candidates_ = TRY(Memory::allocate(*device_, Memory::Kind::pinned,
                                     std::max<size_t>(1, memory.max_outputs) * sizeof(RowCandidates)));
  reading_ = TRY(Memory::allocate(*device_, Memory::Kind::pinned, kReadingBytes));
  rope_staging_ =
      TRY(Memory::allocate(*device_, Memory::Kind::pinned, gpu::kMaxRopeTables * gpu::kMaxRopePairs * sizeof(double)));
  batch_ = TRY(gpu::BatchUpload::make(*device_, memory_.data() + layout_.batch,
                                      {.max_rows = memory.max_rows,
                                       .max_pages = layout_.max_pages,
                                       .n_states = memory.n_states,
                                       .n_window_pages = memory.n_window_pages}));
  expert_tables_ = TRY(gpu::ExpertTables::make(*device_));
  experts_ = TRY(gpu::ExpertMemory::make(*device_, memory));
  if (device_->has_fragments()) panels_ = TRY(gpu::PanelMemory::make(*device_, memory));
  TRY(stream_.fill(memory_.data() + layout_.attention_arrivals, 0, layout_.attention_arrivals_bytes));
  for (size_t i = 0; i < memory.slots.size(); i++) {
    const Slot& slot = memory.slots[i];
    slot_shapes_.push_back({slot.width, slot.rows});
    slots_.push_back({slot_shapes_.back(), reinterpret_cast<float*>(memory_.data() + layout_.slots[i])});
  }
  kv_type_ = memory.kv_type;
  max_outputs_ = memory.max_outputs;
  max_positions_ = memory.n_pages * kPageTokens;
  return {};
}

void GpuBackend::release() {
  // A device that fails here has nothing under way.
  if (memory_.data() != nullptr) static_cast<void>(stream_.finish().ok());
  recordings_.clear();
  stream_ = {};
  batch_ = {};
  expert_tables_ = {};
  experts_ = {};
  panels_ = {};
  rope_staging_.reset();
  reading_.reset();
  candidates_.reset();
  allowed_candidates_.reset();
  masks_.reset();
  group_keys_.reset();
  memory_.reset();
  slots_.clear();
  parts_ = {};
  slot_shapes_.clear();
  rope_tables_.clear();
  max_outputs_ = n_rows_ = n_outputs_ = 0;
}

Result<const double*> GpuBackend::rope_table(const RopeSpec& rope) {
  for (const RopeTable& table : rope_tables_) {
    if (table.rope == rope) return table.turns;
  }
  const std::vector<double> turns = rope_turns(rope);
  if (rope_tables_.size() == gpu::kMaxRopeTables || turns.size() > gpu::kMaxRopePairs) {
    return Error{ErrorCode::unsupported, fmt::format("gpu: {} tables of rope frequencies, the last of {} pairs",
                                                     rope_tables_.size() + 1, turns.size())};
  }
  const size_t offset = rope_tables_.size() * gpu::kMaxRopePairs * sizeof(double);
  std::byte* staging = rope_staging_.data() + offset;
  std::memcpy(staging, turns.data(), turns.size() * sizeof(double));
  auto* on_device = reinterpret_cast<double*>(memory_.data() + layout_.rope_tables + offset);
  TRY(stream_.copy(on_device, staging, turns.size() * sizeof(double), gpu::CopyKind::to_device));
  rope_tables_.push_back({rope, on_device});
  return on_device;
}

Result<void> GpuBackend::begin_pass(const Batch& batch) {
  CHECK(memory_.data() != nullptr && batch.n_outputs() <= max_outputs_);
  n_rows_ = batch.n_rows();
  n_outputs_ = batch.n_outputs();
  is_recordable_ = false;
  found_candidates_.reset();
  return placement_.make_visible(stream_);
}

Result<void> GpuBackend::finish() {
  TRY(stream_.finish());
  batch_.was_finished();
  return {};
}

Result<void> GpuBackend::run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) {
  TRY(begin_pass(batch));
  const gpu::PassPlan plan = TRY(gpu::plan_pass(Runner::facts_of(*this, weights), {&steps, 1}));
  return launch(plan.steps, batch, weights);
}

// The plan is that of the whole pass: the same launches whatever is resident.
Result<void> GpuBackend::run_part(const PassPart& part, const Batch& batch, const WeightStore& weights) {
  TRY(begin_pass(batch));
  const Step* first_step = part.stages.front().data();
  if (parts_.first_step != first_step || parts_.n_rows != n_rows_ || parts_.n_outputs != n_outputs_) {
    parts_ = {};
    parts_.plan = TRY(gpu::plan_pass(Runner::facts_of(*this, weights), part.stages));
    parts_.first_step = first_step;
    parts_.n_rows = n_rows_;
    parts_.n_outputs = n_outputs_;
  }
  return launch(parts_.plan.of_steps(parts_.plan.stages[part.stage] + part.first, part.n), batch, weights);
}

Result<void> GpuBackend::launch(std::span<const gpu::PassStep> steps, const Batch& batch, const WeightStore& weights) {
  const gpu::BatchViews views = TRY(batch_.copy(batch, stream_));
  const auto n_sequences = static_cast<uint32_t>(batch.sequences.size());
  const Runner runner(*this, views, {batch_.longest(), n_sequences, batch_.fewest_rows(), batch_.most_rows()}, weights);
  TRY(runner.run(steps));
  return placement_.mark_read(stream_);
}

Result<void> GpuBackend::run_settled(std::span<const std::span<const Step>> stages, const Batch& batch,
                                     const WeightStore& weights) {
  if (!gpu::Recordings::takes(batch)) {
    for (size_t i = 0; i < stages.size(); i++) TRY(run_part({stages, i, 0, stages[i].size()}, batch, weights));
    return {};
  }
  TRY(begin_pass(batch));
  const gpu::BatchViews views = TRY(batch_.offer(batch, stream_));
  // Launched for the longest sequence there can be: what is recorded must serve all.
  const auto runner = [&] { return Runner(*this, views, {max_positions_, n_rows_}, weights); };
  const auto plan = [&] { return gpu::plan_pass(Runner::facts_of(*this, weights), stages); };
  auto& entry = *TRY(recordings_.find({stages.front().data(), placement_.base(), n_rows_, n_outputs_}, stream_));
  if (device_->records() && gpu::Recordings::wants_recording(entry)) {
    auto graphs = record(TRY(plan()), runner(), entry.candidates_of);
    if (graphs.ok()) {
      entry.graphs = std::move(*graphs);
    } else {
      recordings_.refuse(entry, graphs.error());
    }
  }
  is_recordable_ = true;
  if (!entry.graphs.empty()) {
    for (const gpu::Graph& graph : entry.graphs) TRY(stream_.launch(graph));
    found_candidates_ = entry.candidates_of;
  } else {
    TRY(take_batch());
    TRY(runner().run(TRY(plan()).steps));
    entry.was_run = true;
  }
  return placement_.mark_read(stream_);
}

// With the extent that the same pass has in run_settled().
Result<void> GpuBackend::run_each(std::span<const std::span<const Step>> stages, const Batch& batch,
                                  const WeightStore& weights,
                                  const std::function<void(const gpu::PassPlan& pass, size_t entry)>& after) {
  TRY(begin_pass(batch));
  const gpu::PassPlan plan = TRY(gpu::plan_pass(Runner::facts_of(*this, weights), stages));
  const gpu::BatchViews views = TRY(batch_.copy(batch, stream_));
  Runner::Extent extent{max_positions_, n_rows_};
  if (!gpu::Recordings::takes(batch)) {
    extent = {batch_.longest(), static_cast<uint32_t>(batch.sequences.size()), batch_.fewest_rows(),
              batch_.most_rows()};
  }
  const Runner runner(*this, views, extent, weights);
  for (size_t i = 0; i < plan.steps.size(); i++) {
    TRY(runner.run({&plan.steps[i], 1}));
    after(plan, i);
  }
  return placement_.mark_read(stream_);
}

// The one that is offered.
Result<void> GpuBackend::take_batch() {
  const gpu::TakeBatchArgs args = batch_.take_args();
  return stream_.launch(TRY(kernels_.get(gpu::FixedKernel::take_batch)), gpu::take_batch_grid(args.max_words),
                        gpu::kTakeBatchThreads, args);
}

// A driver prepares the launch of a graph for as long as it is, and the device idles: a short one goes first.
Result<std::vector<gpu::Graph>> GpuBackend::record(const gpu::PassPlan& plan, const Runner& runner,
                                                   std::optional<SlotId> candidates_of) {
  constexpr size_t kStagesOfTheFirst = 3;
  const size_t n_stages = plan.n_stages(), n_first = std::min(kStagesOfTheFirst, n_stages - 1);
  std::vector<gpu::Graph> graphs;
  graphs.push_back(TRY(capture([&]() -> Result<void> {
    TRY(take_batch());
    return runner.run(plan.of_stages(0, n_first));
  })));
  graphs.push_back(TRY(capture([&]() -> Result<void> {
    TRY(runner.run(plan.of_stages(n_first, n_stages - n_first)));
    return candidates_of ? find_candidates(n_outputs_, *candidates_of) : Result<void>();
  })));
  return graphs;
}

Result<gpu::Graph> GpuBackend::capture(const std::function<Result<void>()>& put_on_stream) {
  TRY(stream_.begin_capture());
  const auto done = put_on_stream();
  auto graph = stream_.end_capture();  // in any case: a stream that goes on capturing runs nothing
  if (!done.ok()) return done.error();
  return graph;
}

Result<void> GpuBackend::copy_to_host(std::span<std::byte> out, const void* from) {
  const auto* at = static_cast<const std::byte*>(from);
  while (!out.empty()) {
    const size_t n = std::min(out.size(), kReadingBytes);
    TRY(stream_.copy(reading_.data(), at, n, gpu::CopyKind::to_host));
    TRY(finish());
    std::memcpy(out.data(), reading_.data(), n);
    out = out.subspan(n);
    at += n;
  }
  return {};
}

Result<void> GpuBackend::read(std::span<float> out, SlotId slot) {
  const SlotMemory& from = slots_[slot.value];
  CHECK(out.size() == size_t{from.rows == SlotRows::batch ? n_rows_ : n_outputs_} * from.width);
  return copy_to_host(std::as_writable_bytes(out), from.data);
}

Result<std::span<const RowCandidates>> GpuBackend::read_candidates(uint32_t n, SlotId logits) {
  CHECK(slots_[logits.value].rows == SlotRows::outputs && n <= n_outputs_);
  if (n == 0) return std::span<const RowCandidates>();
  if (found_candidates_ != logits) {
    TRY(find_candidates(n, logits));
    if (is_recordable_ && n == n_outputs_ && recordings_.last_found().graphs.empty()) {
      recordings_.last_found().candidates_of = logits;
    }
  }
  TRY(finish());
  return std::span(reinterpret_cast<const RowCandidates*>(candidates_.data()), n);
}

gpu::CandidatesArgs GpuBackend::candidates_args(const SlotMemory& logits, RowCandidates* out) const {
  const uint64_t n_keys_bytes = group_keys_bytes(rows_together(max_outputs_), logits.width);
  return {.out = out,
          .logits = logits.data,
          .group_keys = reinterpret_cast<uint32_t*>(group_keys_.data()),
          .chunks = reinterpret_cast<gpu::ChunkSum*>(group_keys_.data() + n_keys_bytes),
          .width = logits.width,
          .n_chunks = gpu::n_candidate_chunks(logits.width)};
}

// The device writes them to the host's memory itself: they are small, and a copy takes longer to begin than to run.
Result<void> GpuBackend::find_candidates(uint32_t n, SlotId logits) {
  const SlotMemory& from = slots_[logits.value];
  const uint32_t together = rows_together(max_outputs_);
  for (uint32_t first = 0; first < n; first += together) {
    gpu::CandidatesArgs args = candidates_args(from, reinterpret_cast<RowCandidates*>(candidates_.data()) + first);
    args.logits += size_t{first} * from.width;
    const uint32_t n_rows = std::min(n - first, together);
    TRY(stream_.launch(TRY(kernels_.get(gpu::FixedKernel::candidate_groups)), gpu::candidate_groups_grid(n_rows, args),
                       gpu::kCandidateGroupsThreads, args));
    TRY(stream_.launch(TRY(kernels_.get(gpu::FixedKernel::candidates)), gpu::candidates_grid(n_rows),
                       gpu::kCandidatesThreads, args));
  }
  return {};
}

Result<std::span<const RowCandidates>> GpuBackend::read_allowed_candidates(std::span<const AllowedTokens> rows,
                                                                           SlotId logits) {
  using gpu::Memory;
  const SlotMemory& from = slots_[logits.value];
  CHECK(from.rows == SlotRows::outputs && rows.size() <= n_outputs_);
  const uint32_t together = rows_together(max_outputs_);
  const size_t n_out_bytes = size_t{max_outputs_} * sizeof(RowCandidates);
  if (allowed_candidates_.data() == nullptr) {
    const size_t n_mask_bytes = together * allowed_row_bytes(from.width);
    allowed_candidates_ = TRY(Memory::allocate(*device_, Memory::Kind::pinned, n_out_bytes + n_mask_bytes));
    masks_ = TRY(Memory::allocate(*device_, Memory::Kind::device, n_mask_bytes));
  }
  auto* out = reinterpret_cast<RowCandidates*>(allowed_candidates_.data());
  for (size_t first = 0; first < rows.size(); first += together) {
    const size_t n = std::min<size_t>(rows.size() - first, together);
    TRY(find_allowed_candidates(rows.subspan(first, n), logits, out + first));
    TRY(finish());  // before the next masks are written over these
  }
  return std::span<const RowCandidates>(out, rows.size());
}

Result<void> GpuBackend::find_allowed_candidates(std::span<const AllowedTokens> rows, SlotId logits,
                                                 RowCandidates* out) {
  const SlotMemory& from = slots_[logits.value];
  const size_t n_words = gpu::n_mask_words(from.width);
  std::byte* const staging = allowed_candidates_.data() + size_t{max_outputs_} * sizeof(RowCandidates);
  auto* const masks = reinterpret_cast<uint32_t*>(staging);
  auto* const of_rows = reinterpret_cast<gpu::AllowedRow*>(masks + rows.size() * n_words);
  for (size_t i = 0; i < rows.size(); i++) {
    const size_t n_bytes = std::min(rows[i].mask.size_bytes(), n_words * sizeof(uint32_t));
    std::memset(masks + i * n_words, 0, n_words * sizeof(uint32_t));
    std::memcpy(masks + i * n_words, rows[i].mask.data(), n_bytes);
    of_rows[i] = {rows[i].row, rows[i].n_allowed};
  }
  TRY(stream_.copy(masks_.data(), staging, rows.size() * allowed_row_bytes(from.width), gpu::CopyKind::to_device));
  const gpu::AllowedCandidatesArgs args{
      .all = candidates_args(from, out),
      .rows = reinterpret_cast<gpu::AllowedRow*>(reinterpret_cast<uint32_t*>(masks_.data()) + rows.size() * n_words),
      .masks = reinterpret_cast<uint32_t*>(masks_.data()),
      .n_words = gpu::n_mask_words(from.width)};
  const auto n_rows = static_cast<uint32_t>(rows.size());
  TRY(stream_.launch(TRY(kernels_.get(gpu::FixedKernel::allowed_groups)), gpu::candidate_groups_grid(n_rows, args.all),
                     gpu::kCandidateGroupsThreads, args));
  return stream_.launch(TRY(kernels_.get(gpu::FixedKernel::allowed_candidates)), gpu::candidates_grid(n_rows),
                        gpu::kCandidatesThreads, args);
}

}  // namespace rocmforge
