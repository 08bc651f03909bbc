#pragma once
// What passes launch on a card that need not be here: the steps that run together, and the kernels of each. The runner
// itself puts them on a device that runs nothing (gpu/dry_device.h), so tables and code that choose are those of a real
// pass. No weight is read.
//
// Threads: one at a time.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/backend.h"
#include "gpu/kernels/target.h"
#include "plan/execution_plan.h"

namespace rocmforge::gpu {

// One entry of a PassPlan.
struct StepView {
  size_t stage = 0, first = 0, n = 0;   // the plan's steps, from this one of this stage on, perhaps into the next stage
  std::vector<const Step*> steps = {};  // the same
  const char* kind = "";                // "StreamStep"
  bool writes_next_inputs = false;      // RowsStep::next_product
  std::vector<std::string> kernels = {};  // in the order of their launches
};

struct PassView {
  uint32_t n_rows = 0, n_sequences = 0;
  std::vector<StepView> steps;
};

class PassViewer {
 public:
  struct Options {
    uint32_t n_context = 0;  // PlanOptions
    KvType kv_type = KvType::f16;
    bool fuse = true;
  };
  static constexpr uint32_t kMaxRows = 2048;  // of a pass

  // As ROCMFORGE_GPU says (gpu/device.h).
  static Result<std::unique_ptr<PassViewer>> open(const std::string& name, const Target& target,
                                                  std::shared_ptr<const gguf::GgufFile> file, const Options& options);
  const ExecutionPlan& plan() const { return *plan_; }

  // Up to Recordings::kMaxRows rows are a token each of as many sequences. More rows are prompts, as long as the
  // context allows; an encoder's rows are texts. REQUIRES: 0 < n_rows <= kMaxRows
  Result<PassView> view(uint32_t n_rows);

 private:
  PassViewer() = default;

  std::unique_ptr<GpuBackend> backend_;
  std::unique_ptr<ExecutionPlan> plan_;
  std::vector<std::string> launched_;  // since the last step began
};

// The target of a GPU that is open; none: the backend is no GPU's.
std::optional<Target> target_of(const Backend& backend);

}  // namespace rocmforge::gpu
