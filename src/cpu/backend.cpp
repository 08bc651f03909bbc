#include "cpu/backend.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "cpu/isa/choose.h"
#include "cpu/pass.h"
#include "cpu/pass_memory.h"
#include "plan/step_name.h"

namespace rocmforge {

using cpu::Weight;

CpuBackend::CpuBackend(const Options& options)
    : kernels_(options.kernels != nullptr ? *options.kernels : cpu::choose_kernels()),
      available_memory_(options.available_memory),
      workers_(options.n_threads != 0 ? options.n_threads : available_cores()),
      name_(fmt::format("cpu ({}, {} thread{})", kernels_.name, workers_.n_threads(),
                        workers_.n_threads() == 1 ? "" : "s")),
      placement_(kernels_, options.available_memory),
      multiplier_(kernels_, workers_),
      experts_(multiplier_, workers_),
      attention_(kernels_, workers_),
      text_attention_(kernels_, workers_) {}

uint64_t CpuBackend::pass_bytes(const PassMemory& memory) const {
  const uint64_t workspace =
      cpu::Multiplier::workspace_bytes(workers_.n_threads(), cpu::max_input_width(memory), memory.max_rows);
  const CheckedU64 total =
      cpu::all_slot_bytes(memory) + cpu::kv_shape(memory).total_bytes() + cpu::state_cache_bytes(memory) + workspace;
  return total.get().value_or(std::numeric_limits<uint64_t>::max());
}

Result<void> CpuBackend::reserve(const PassMemory& memory) {
  release();
  const uint64_t available = available_memory_();
  // Whether it fits all together; what is allocated below are parts of it.
  if (const uint64_t needed = pass_bytes(memory); needed > available) {
    return cpu::Memory::allocate(needed, available, "context and workspace").error();
  }
  slot_memory_ = TRY(cpu::Memory::allocate(cpu::all_slot_bytes(memory).value(), available, "workspace"));
  const cpu::KvShape shape = cpu::kv_shape(memory);
  kv_ = cpu::KvCache(shape, TRY(cpu::Memory::allocate(shape.total_bytes(), available, "context")));
  states_ = cpu::StateCache(memory, TRY(cpu::Memory::allocate(cpu::state_cache_bytes(memory), available, "states")));
  uint64_t at = 0;
  for (const Slot& slot : memory.slots) {
    slots_.push_back({reinterpret_cast<float*>(slot_memory_.data() + at), slot.width, slot.rows});
    at += cpu::slot_bytes(slot, memory).value();
  }
  multiplier_.reserve(cpu::max_input_width(memory), memory.max_rows);
  max_rows_ = memory.max_rows;
  max_outputs_ = memory.max_outputs;
  return {};
}

void CpuBackend::release() {
  slots_.clear();
  slot_memory_.release();
  kv_ = {};
  states_ = {};
  multiplier_.reserve(0, 0);
  candidates_ = {};
  allowed_candidates_ = {};
  max_rows_ = max_outputs_ = n_rows_ = n_outputs_ = 0;
}

Result<void> CpuBackend::run(std::span<const Step> steps, const Batch& batch, const FindWeight& find) {
  CHECK(batch.n_rows() <= max_rows_ && batch.n_outputs() <= max_outputs_);
  n_rows_ = batch.n_rows();
  n_outputs_ = batch.n_outputs();
  const Pass pass(*this, batch, find);
  for (const Step& step : steps) {
    const TraceSpan span("step", step_name(step), {{{"rows", uint64_t{n_rows_}}}});
    std::visit(pass, step);
  }
  return {};
}

Result<void> CpuBackend::run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) {
  return run(steps, batch, [&](WeightId id) {
    const LazyTensor& tensor = weights.tensor(id);
    return Weight{tensor.shape, placement_.base() + weights.address(id), cpu::packed_format(kernels_, tensor.shape)};
  });
}

Result<void> CpuBackend::read(std::span<float> out, SlotId slot) {
  CHECK(slot.value < slots_.size());
  const SlotMemory& memory = slots_[slot.value];
  const uint64_t n_rows = memory.rows == SlotRows::batch ? n_rows_ : n_outputs_;
  CHECK(out.size() == n_rows * memory.width);
  std::copy_n(memory.data, out.size(), out.data());
  return {};
}

Result<std::span<const RowCandidates>> CpuBackend::read_candidates(uint32_t n, SlotId logits) {
  CHECK(logits.value < slots_.size());
  const SlotMemory& memory = slots_[logits.value];
  CHECK(memory.rows == SlotRows::outputs && n <= n_outputs_);
  if (candidates_.size() < n) candidates_.resize(n);
  workers_.run(n, [&](size_t r, size_t) {
    select_candidates(candidates_[r], std::span(memory.data + r * memory.width, memory.width), kernels_.sum_of_powers);
  });
  return std::span<const RowCandidates>(candidates_).first(n);
}

Result<std::span<const RowCandidates>> CpuBackend::read_allowed_candidates(std::span<const AllowedTokens> rows,
                                                                           SlotId logits) {
  CHECK(logits.value < slots_.size());
  const SlotMemory& memory = slots_[logits.value];
  CHECK(memory.rows == SlotRows::outputs && rows.size() <= n_outputs_);
  if (allowed_candidates_.size() < rows.size()) allowed_candidates_.resize(rows.size());
  workers_.run(rows.size(), [&](size_t i, size_t) {
    const std::span<const float> row(memory.data + size_t{rows[i].row} * memory.width, memory.width);
    select_candidates(allowed_candidates_[i], row, rows[i]);
  });
  return std::span<const RowCandidates>(allowed_candidates_).first(rows.size());
}

}  // namespace rocmforge
