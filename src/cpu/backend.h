#pragma once
// Runs plans on the CPU: slots are rows of floats, weights lie where CpuPlacement put them, steps run one after the
// other, each split over the backend's own threads.
//
// The bits of every result are the same for any batch, chunking and number of threads (see isa/kernels.h).

#include <functional>
#include <string>
#include <vector>

#include "cpu/attention.h"
#include "cpu/experts.h"
#include "cpu/kv_cache.h"
#include "cpu/matmul.h"
#include "cpu/memory.h"
#include "cpu/placement.h"
#include "cpu/rope.h"
#include "cpu/state_cache.h"
#include "cpu/text_attention.h"
#include "cpu/weight.h"
#include "cpu/workers.h"
#include "plan/backend.h"

namespace rocmforge {

class CpuBackend final : public Backend {
 public:
  struct Options {
    size_t n_threads = 0;                   // 0: one per available core
    const cpu::Kernels* kernels = nullptr;  // nullptr: the best this machine has (isa/choose.h)
    std::function<uint64_t()> available_memory = cpu::available_memory;
  };
  explicit CpuBackend(const Options& options);
  CpuBackend() : CpuBackend(Options()) {}

  std::string_view name() const override { return name_; }
  Placement& placement() override { return placement_; }
  const cpu::Kernels& kernels() const { return kernels_; }

  Fusions fusions() const override { return {.row_chain = true, .rows_matmul = true, .cached_attend = true}; }

  uint64_t pass_bytes(const PassMemory& memory) const override;
  Result<void> reserve(const PassMemory& memory) override;
  void release() override;
  Result<void> run(std::span<const Step> steps, const Batch& batch, const WeightStore& weights) override;
  Result<void> read(std::span<float> out, SlotId slot) override;
  Result<std::span<const RowCandidates>> read_candidates(uint32_t n, SlotId logits) override;
  Result<std::span<const RowCandidates>> read_allowed_candidates(std::span<const AllowedTokens> rows,
                                                                 SlotId logits) override;

  // The same with weights from anywhere.
  using FindWeight = std::function<cpu::Weight(WeightId)>;
  Result<void> run(std::span<const Step> steps, const Batch& batch, const FindWeight& find);

 private:
  class Pass;
  struct SlotMemory {
    float* data = nullptr;
    uint32_t width = 0;
    SlotRows rows = SlotRows::batch;
  };

  const cpu::Kernels& kernels_;
  std::function<uint64_t()> available_memory_;
  cpu::Workers workers_;
  std::string name_;
  CpuPlacement placement_;

  cpu::Memory slot_memory_;
  std::vector<SlotMemory> slots_;
  uint32_t max_rows_ = 0, max_outputs_ = 0;
  uint32_t n_rows_ = 0, n_outputs_ = 0;    // of the last batch
  std::vector<RowCandidates> candidates_;  // as many as were read at once: nothing to allocate or clear in a step
  std::vector<RowCandidates> allowed_candidates_;
  cpu::KvCache kv_;
  cpu::StateCache states_;
  cpu::Multiplier multiplier_;
  cpu::Experts experts_;
  cpu::Attention attention_;
  cpu::TextAttention text_attention_;
  cpu::RopeAngles rope_;
};

}  // namespace rocmforge
