#pragma once
// One visit over the steps of a pass: what each does with the slots. Nothing is kept from one step to the next but the
// angles of rope, and no step looks at its neighbours: what goes together is one step (plan/fuse.h).

#include <optional>
#include <span>
#include <vector>

#include "cpu/backend.h"
#include "cpu/row_operations.h"

namespace rocmforge {

class CpuBackend::Pass {
 public:
  Pass(CpuBackend& backend, const Batch& batch, const FindWeight& find);

  void operator()(const Embed& step) const;
  void operator()(const Norm& step) const { run_one(step); }
  void operator()(const Matmul& step) const { multiply(step, {}); }
  void operator()(const Rope& step) const;
  void operator()(const StoreKv& step) const;
  void operator()(const Attend& step) const { attend(step, {}); }
  void operator()(const Activate& step) const { run_one(step); }
  void operator()(const Add& step) const { run_one(step); }
  void operator()(const Route& step) const;
  void operator()(const ExpertMatmul& step) const;
  void operator()(const ExpertCombine& step) const;
  void operator()(const TakeRows& step) const;
  void operator()(const Temper& step) const;
  void operator()(const Gate& step) const;
  void operator()(const Scale& step) const;
  void operator()(const TakeColumns& step) const;
  void operator()(const WeighExperts& step) const;

  // pass_recurrent.cpp
  void operator()(const Convolve& step) const;
  void operator()(const Scan& step) const;
  void operator()(const DeltaRule& step) const;

  // pass_text.cpp
  void operator()(const AttendBothWays& step) const;
  void operator()(const Pool& step) const;
  void operator()(const AddVector& step) const;
  void operator()(const MixStreams& step) const;
  void operator()(const MatchLength& step) const;
  void operator()(const CutRow& step) const;

  void operator()(const RowChain& step) const { run_rows(step.out(), operations_of(step.steps)); }
  void operator()(const RowsMatmul& step) const { multiply(step.product, operations_of(step.before)); }
  void operator()(const CachedAttend& step) const;

 private:
  const cpu::Kernels& kernels() const { return self_.kernels_; }
  const SlotMemory& slot(SlotId id) const { return self_.slots_[id.value]; }
  uint32_t n_rows(SlotId id) const { return slot(id).rows == SlotRows::batch ? batch_.n_rows() : batch_.n_outputs(); }
  cpu::Rows rows(SlotId id) const { return {slot(id).data, slot(id).width}; }
  float* row(SlotId id, size_t r) const { return rows(id).at(r); }
  template <class F>
  void each_row(SlotId id, F&& f) const;

  // A norm, a bias or factors.
  cpu::Vector vector_of(std::optional<WeightId> id) const;
  // A weight of one element.
  float number_of(WeightId id) const;
  // A row for each expert: its bias.
  std::vector<float> rows_of(std::optional<WeightId> id) const;

  cpu::RowOperation operation_of(const Norm& step) const;
  cpu::RowOperation operation_of(const Activate& step) const;
  cpu::RowOperation operation_of(const Add& step) const;
  std::vector<cpu::RowOperation> operations_of(std::span<const RowStep> steps) const;
  // On every row of a slot that they make.
  void run_rows(SlotId out, std::span<const cpu::RowOperation> operations) const;
  template <class S>
  void run_one(const S& step) const {
    const cpu::RowOperation operation = operation_of(step);
    run_rows(step.out, std::span(&operation, 1));
  }

  // `before` makes each row of the input where it is prepared.
  void multiply(const Matmul& step, std::span<const cpu::RowOperation> before) const;
  // What a product's outputs go through after it.
  void finish_part(const Matmul& step, const Matmul::Part& part) const;
  void attend(const Attend& step, const cpu::Attention::Before& before) const;
  // Where the state that a sequence begins with lies, null where that is zeros; and where the one it leaves goes.
  struct States {
    const float* before;
    float* after;
  };
  States states_of(const BatchSequence& sequence, uint32_t layer, uint32_t state_at) const;

  void prepare_rope(const Rope& step) const;
  // Of a sequence's one row: rotates a key-value head and its queries, and stores it.
  void store_head(const CachedAttend& step, const BatchSequence& sequence, uint32_t kv_head) const;
  cpu::ExpertPart expert_part(const ExpertStack& stack, SlotId out, uint32_t n_products,
                              const std::vector<float>& bias) const;

  CpuBackend& self_;
  const Batch& batch_;
  const FindWeight& find_;
  std::vector<uint32_t> positions_;  // by batch row
};

}  // namespace rocmforge
