#pragma once
// A model ready to run, with nothing of it read yet: lazy handles for every weight, and the steps of a forward pass.
//
// from_gguf reads the file's header only and uploads nothing. forward() loads what it needs on first use: while one
// stage computes, the next ones are on their way. Preloading everything first gives the same bits, and so does a budget
// that is too small for all of it: then some stages are read again in every pass (weights/residency.h).
//
// Threads: a plan is immutable but for its weights, which have their own rules (weights/weight_store.h). One pass at a
// time.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model/spec.h"
#include "model/tensors.h"
#include "plan/backend.h"
#include "plan/batch.h"
#include "plan/step.h"
#include "weights/weight_store.h"

namespace rocmforge {

class JsonWriter;

using LayerPlan = LayerWeights<WeightId>;

// The experts of a stage: which of them its rows need is known when they have been routed.
struct StageExperts {
  size_t n_steps_before = 0;  // up to and including the Route
  size_t n_fused_before = 0;  // the same of the fused steps
  SlotId routing;
  uint32_t n_used = 0;
  std::vector<ExpertStack> stacks;
  std::vector<WeightId> in_file_order;
};

// Steps that need the same weights and run together: the embedding, one layer, the output.
struct Stage {
  std::string name;
  std::vector<Step> steps;        // the reference
  std::vector<Step> fused;        // the same as the backend runs them
  std::vector<WeightId> weights;  // each once; without experts
  std::optional<StageExperts> experts = {};
};

inline constexpr uint32_t kDefaultContext = 8192;

// How large passes will be.
struct PassSize {
  uint32_t max_rows = 256;
  uint32_t max_outputs = 1;
  uint32_t n_pages = 0;  // 0: those of one sequence of n_context positions
  KvType kv_type = KvType::f16;
};

struct PlanOptions {
  WeightStore::Options weights;  // its budget, the arena's, follows from the one below where there is one
  uint32_t n_context = 0;  // positions a sequence may have; 0: what the model was trained for, at most kDefaultContext
  // What weights, their staging buffers and passes of this size may take together with what the process holds already;
  // none: everything stays resident.
  std::optional<uint64_t> budget_bytes = {};
  uint64_t held_bytes = 0;
  PassSize pass = {};
  bool fuse = true;  // false: the backend runs the reference, step by step
};

// What a plan will take, before a byte is allocated.
struct MemoryBill {
  uint64_t weight_bytes = 0;  // in the kernels' layout
  uint64_t kv_bytes = 0;
  uint64_t workspace_bytes = 0;
  uint64_t staging_bytes = 0;
  uint64_t held_bytes = 0;  // of the same memory, by the process before; 0 without a budget
  uint64_t total() const { return weight_bytes + kv_bytes + workspace_bytes + staging_bytes + held_bytes; }
};

class ExecutionPlan {
 public:
  // out_of_memory: not even with every layer streamed does it fit the budget.
  static Result<std::unique_ptr<ExecutionPlan>> from_gguf(Backend& backend, std::shared_ptr<const gguf::GgufFile> file,
                                                          const PlanOptions& options = {});

  const ModelSpec& spec() const { return spec_; }
  uint32_t n_context() const { return n_context_; }
  const gguf::GgufFile& file() const { return *file_; }
  Backend& backend() const { return *backend_; }
  WeightStore& weights() const { return *weights_; }

  std::span<const Slot> slots() const { return slots_; }
  std::span<const Stage> stages() const { return stages_; }
  SlotId logits() const { return logits_; }  // one row per output row, n_vocab wide
  SlotId hidden() const { return hidden_; }  // the same rows after the last norm
  // What the backend runs of every stage.
  std::span<const std::span<const Step>> steps() const { return steps_; }
  // The stages that are read in every pass, in their order; none without a budget, or with enough.
  std::span<const uint32_t> streamed_stages() const { return streamed_stages_; }

  const LayerPlan& layer(uint32_t i) const { return handles_.layers[i]; }
  WeightId token_embedding() const { return handles_.token_embedding; }
  WeightId output() const { return handles_.output; }  // the token embedding's handle when tied
  bool is_tied() const { return handles_.tied; }

  PassMemory pass_memory(uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages, KvType kv_type) const;
  MemoryBill memory_bill(const PassMemory& memory) const;
  std::optional<uint64_t> budget_bytes() const { return budget_bytes_; }
  // out_of_memory: passes of this size exceed the budget that the plan was made for.
  Result<void> check_budget(const PassMemory& memory) const;

 private:
  friend class PlanBuilder;
  ExecutionPlan() = default;

  ModelSpec spec_;
  uint32_t n_context_ = 0;
  std::shared_ptr<const gguf::GgufFile> file_;
  Backend* backend_ = nullptr;
  std::unique_ptr<WeightStore> weights_;
  ModelWeights<WeightId> handles_;
  std::vector<Slot> slots_;
  std::vector<Stage> stages_;
  SlotId logits_, hidden_;
  std::vector<std::span<const Step>> steps_;
  std::vector<uint32_t> streamed_stages_;
  std::vector<KvLayer> kv_layers_;  // none where all are alike
  size_t n_loaders_ = 0;
  std::optional<uint64_t> budget_bytes_;
  uint64_t held_bytes_ = 0;
};

struct ForwardOptions {
  uint32_t prefetch_window = 3;                     // stages asked for ahead of the one that computes, but for experts
  std::function<void(uint32_t stage)> after_stage;  // called when a stage's steps are done, before its leases end
  // Asked before each stage of a pass of many rows, and of any pass while weights are absent or move; true ends the
  // pass with `cancelled`.
  std::function<bool()> should_stop = {};
};

// Runs one batch through the whole plan. The backend must have been reserved (Backend::reserve) for such a batch.
// A failure leaves the plan usable: what was loaded stays, the next call tries the rest again.
Result<void> forward(const ExecutionPlan& plan, const Batch& batch, const ForwardOptions& options = {});

// Asks for what the next pass will need, in the order of use, and returns.
void prefetch(const ExecutionPlan& plan);

enum class PlanView : uint8_t { reference, fused };

// The plan as text: stages, steps, weights with type and shape.
std::string to_text(const ExecutionPlan& plan, PlanView view = PlanView::reference);
// The same as an array of stages.
void write_json(JsonWriter& w, const ExecutionPlan& plan, PlanView view);

}  // namespace rocmforge
