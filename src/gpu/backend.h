#pragma once
// Runs plans on a GPU, or on the emulation of one. Slots are rows of floats in device memory, weights lie where
// GpuPlacement put them, and every step is one or a few launches on one stream. run() returns when the work is queued;
// read() waits for it.
//
// With all weights resident, a pass whose form (number of rows and outputs) occurs a second time is recorded as a graph
// and replayed from then on; the results are bit-identical to those of the launches. On a device that cannot record,
// or that replays wrongly, every pass is launched.
//
// No memory is allocated on the device between reserve() and release().
//
// Threads: one pass at a time.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/batch_upload.h"
#include "gpu/choice_log.h"
#include "gpu/device.h"
#include "gpu/expert_memory.h"
#include "gpu/expert_tables.h"
#include "gpu/kernel_set.h"
#include "gpu/kernels/candidates.h"
#include "gpu/panel_memory.h"
#include "gpu/pass_facts.h"
#include "gpu/pass_layout.h"
#include "gpu/pass_plan.h"
#include "gpu/placement.h"
#include "gpu/recordings.h"
#include "gpu/self_test_policy.h"
#include "plan/backend.h"

namespace rocmforge {

class GpuBackend final : public Backend {
 public:
  // `api` must outlive the backend; modules are never closed (gpu/module.h). A device that fails its self-test is
  // refused, or does without what failed.
  static Result<std::unique_ptr<GpuBackend>> open(const gpu::GpuApi& api, uint32_t device,
                                                  const gpu::SelfTestOptions& self_test = {});
  ~GpuBackend() override;

  std::string_view name() const override { return name_; }
  Placement& placement() override { return placement_; }
  uint32_t rows_of_a_pass() const override { return 2048; }
  bool runs_ahead() const override { return true; }
  const gpu::Device& device() const { return *device_; }

  void join_steps(bool joins) override { joins_steps_ = joins; }
  Result<void> check_steps(std::span<const Step> steps, const WeightStore& weights) const override;
  uint64_t pinned_bytes() const override { return device_->pinned_bytes(); }
  uint64_t n_refused_recordings() const override { return recordings_.n_refused(); }

  uint64_t pass_bytes(const PassMemory& memory) const override;
  Result<void> reserve(const PassMemory& memory) override;
  void release() override;
  Result<void> run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) override;
  Result<void> run_part(const PassPart& part, const Batch& batch, const WeightStore& weights) override;
  Result<void> run_settled(std::span<const std::span<const Step>> stages, const Batch& batch,
                           const WeightStore& weights) override;
  // A pass of resident weights, launched and neither recorded nor replayed; `after` is called behind each entry of its
  // plan (gpu/pass_view.h).
  Result<void> run_each(std::span<const std::span<const Step>> stages, const Batch& batch, const WeightStore& weights,
                        const std::function<void(const gpu::PassPlan& pass, size_t entry)>& after);
  Result<void> read(std::span<float> out, SlotId slot) override;
  Result<std::span<const RowCandidates>> read_candidates(uint32_t n, SlotId logits) override;
  Result<std::span<const RowCandidates>> read_allowed_candidates(std::span<const AllowedTokens> rows,
                                                                 SlotId logits) override;

 private:
  class Runner;
  struct SlotMemory : gpu::SlotShape {
    float* data = nullptr;
  };
  struct RopeTable {
    RopeSpec rope;
    double* turns = nullptr;
  };

  explicit GpuBackend(std::unique_ptr<gpu::Device> device);
  Result<void> allocate(const PassMemory& memory);
  Result<void> copy_to_host(std::span<std::byte> out, const void* from);
  Result<const double*> rope_table(const RopeSpec& rope);
  gpu::CandidatesArgs candidates_args(const SlotMemory& logits, RowCandidates* out) const;
  Result<void> find_candidates(uint32_t n, SlotId logits);
  Result<void> find_allowed_candidates(std::span<const AllowedTokens> rows, SlotId logits, RowCandidates* out);
  Result<void> begin_pass(const Batch& batch);
  Result<void> launch(std::span<const gpu::PassStep> steps, const Batch& batch, const WeightStore& weights);
  Result<void> finish();  // waits for all pending work
  Result<void> take_batch();
  Result<std::vector<gpu::Graph>> record(const gpu::PassPlan& plan, const Runner& runner,
                                         std::optional<SlotId> candidates_of);
  Result<gpu::Graph> capture(const std::function<Result<void>()>& put_on_stream);

  std::unique_ptr<gpu::Device> device_;
  std::string name_;
  gpu::KernelSet kernels_;
  GpuPlacement placement_;

  gpu::Memory memory_;      // of the pass
  gpu::Memory candidates_;  // pinned, RowCandidates of all output rows
  // for the rows of logits processed together, and the sums of their chunks (kernels/candidates.h)
  gpu::Memory group_keys_;
  // Made when a mask is first needed: pinned, RowCandidates of all output rows, behind them a launch's masks; and these
  // on the device.
  gpu::Memory allowed_candidates_, masks_;
  gpu::Memory reading_;       // pinned, for reading results
  gpu::Memory rope_staging_;  // pinned, kMaxRopeTables tables
  gpu::PassLayout layout_;
  std::vector<SlotMemory> slots_;
  std::vector<gpu::SlotShape> slot_shapes_;  // the same
  std::vector<RopeTable> rope_tables_;
  KvType kv_type_ = KvType::f16;
  uint32_t max_outputs_ = 0;
  uint32_t n_rows_ = 0, n_outputs_ = 0;  // of the last batch
  uint32_t max_positions_ = 0;           // of a sequence
  bool joins_steps_ = true;
  gpu::ChoiceLog choices_;
  gpu::BatchUpload batch_;
  gpu::ExpertTables expert_tables_;
  gpu::ExpertMemory experts_;
  gpu::PanelMemory panels_;
  gpu::Recordings recordings_;
  // The plan of the last pass that was run by parts.
  struct PartsPlan {
    const Step* first_step = nullptr;  // of the pass
    uint32_t n_rows = 0, n_outputs = 0;
    gpu::PassPlan plan = {};
  } parts_;
  // Of the last pass: whether recordings_ holds it, and the slot whose top-k candidates it finds itself.
  bool is_recordable_ = false;
  std::optional<SlotId> found_candidates_;
  gpu::Stream stream_;
};

}  // namespace rocmforge
