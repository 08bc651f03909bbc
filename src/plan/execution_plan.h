#pragma once
// A model ready to run: lazy handles for every weight, and the steps of a forward pass. No weight has been read yet.
//
// from_gguf reads the file's header only and uploads nothing. forward() loads weights on first use: while one stage
// computes, the next stages are being read. Preloading all weights gives the same bits. Under a budget smaller than the
// model, some stages are read again in every pass (weights/residency.h); the bits are the same.
//
// Threads: a plan is immutable except for its weights, which have their own rules (weights/weight_store.h). One pass at
// a time.

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

// The experts of a stage. Which of them are needed is known only after the stage's Route step.
struct StageExperts {
  size_t n_steps_before = 0;  // up to and including the Route
  size_t n_fused_before = 0;  // the same for the fused steps
  SlotId routing;
  uint32_t n_used = 0;
  std::vector<ExpertStack> stacks;
  std::vector<WeightId> in_file_order;
};

// Steps that need the same weights and run together: the embedding, one layer, the output.
struct Stage {
  std::string name;
  std::vector<Step> steps;        // the reference: no step is fused
  std::vector<Step> fused;        // the steps that the backend runs
  std::vector<WeightId> weights;  // each once; experts excluded
  // Of the norm that the next stage begins with: the backend may run that together with the end of this one. Weights of
  // norms are never streamed.
  std::vector<WeightId> next_norm = {};
  std::optional<StageExperts> experts = {};
};

inline constexpr uint32_t kDefaultContext = 8192;

// The largest pass.
struct PassSize {
  uint32_t max_rows = 256;
  uint32_t max_outputs = 1;
  uint32_t n_pages = 0;  // 0: enough for one sequence of n_context positions
  KvType kv_type = KvType::f16;
  uint32_t n_states = 0;       // 0: kStatesBudgeted, if the model has recurrent layers
  bool in_token_loop = false;  // a token loop runs it, which gives pages of windows back; else they are all kept
};

struct PlanOptions {
  WeightStore::Options weights;  // weights.budget_bytes is derived from budget_bytes if that is set
  uint32_t n_context = 0;        // the longest sequence, in positions; 0: the trained context, at most kDefaultContext
  // Limit on weights, staging buffers and passes of this size plus held_bytes, which the process holds already. None:
  // everything stays resident.
  std::optional<uint64_t> budget_bytes = {};
  uint64_t held_bytes = 0;
  PassSize pass = {};
  bool fuse = true;  // false: the backend runs the reference, step by step
};

// The memory that a plan will take, known before a byte is allocated.
struct MemoryBill {
  uint64_t weight_bytes = 0;  // in the kernels' layout
  uint64_t kv_bytes = 0;
  uint64_t window_bytes = 0;  // of kv_bytes: pages that windowed layers have of their own
  uint64_t state_bytes = 0;   // state slots of recurrent layers
  uint64_t workspace_bytes = 0;
  uint64_t staging_bytes = 0;
  uint64_t held_bytes = 0;  // of the same memory, held by the process before; 0 without a budget
  uint64_t total() const {
    return weight_bytes + kv_bytes + state_bytes + workspace_bytes + staging_bytes + held_bytes;
  }
};

class ExecutionPlan {
 public:
  // out_of_memory: the plan does not fit the budget even with every layer streamed.
  static Result<std::unique_ptr<ExecutionPlan>> from_gguf(Backend& backend, std::shared_ptr<const gguf::GgufFile> file,
                                                          const PlanOptions& options = {});

  const ModelSpec& spec() const { return spec_; }
  uint32_t n_context() const { return n_context_; }
  const gguf::GgufFile& file() const { return *file_; }
  Backend& backend() const { return *backend_; }
  WeightStore& weights() const { return *weights_; }

  std::span<const Slot> slots() const { return slots_; }
  std::span<const Stage> stages() const { return stages_; }
  // One row per output row. An encoder has no logits; what it has instead of hidden states are embeddings.
  bool has_logits() const { return !spec_.attends_both_ways; }
  SlotId logits() const { return logits_; }  // n_vocab wide
  SlotId hidden() const { return hidden_; }  // after the last norm; pooled, where texts are pooled
  // The fewest rows that passes are reserved for: an encoder's text is in one pass.
  uint32_t least_rows() const { return has_logits() ? 1 : n_context_; }
  std::optional<SlotId> scores() const { return scores_; }  // of a classifier head, if the model has one
  uint32_t embedding_width() const { return slots_[hidden_.value].width; }
  // The pooling of a text unless somebody asks for another.
  Pooling default_pooling() const { return spec_.pooling.value_or(Pooling::mean); }
  // The steps that the backend runs, by stage.
  std::span<const std::span<const Step>> steps() const { return steps_; }
  // The stages that are read again in every pass, ascending; empty if all weights stay resident.
  std::span<const uint32_t> streamed_stages() const { return streamed_stages_; }

  const LayerPlan& layer(uint32_t i) const { return handles_.layers[i]; }
  WeightId token_embedding() const { return handles_.token_embedding; }
  WeightId output() const { return handles_.output; }  // the token embedding's handle when tied
  bool is_tied() const { return handles_.tied; }

  // Whether the model has recurrent layers. The sequences of its batches name state slots (plan/batch.h).
  bool has_states() const { return !state_widths_.empty(); }
  // State slots of a single sequence: one for the committed state, one that a pass writes.
  static constexpr uint32_t kStatesAlone = 2;
  // State slots that a budget leaves room for: two more, kept for later prompts.
  static constexpr uint32_t kStatesBudgeted = 4;
  uint64_t state_bytes() const;  // bytes of one state slot

  // The widest window of the windowed layers, in positions; 0: there are none whose pages could be given back. Models
  // with recurrent layers keep all pages.
  uint32_t window() const { return window_; }

  PassMemory pass_memory(uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages, KvType kv_type,
                         uint32_t n_states = kStatesAlone, uint32_t n_window_pages = 0) const;
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
  std::optional<SlotId> scores_;
  std::vector<std::span<const Step>> steps_;
  std::vector<uint32_t> streamed_stages_;
  std::vector<KvLayer> kv_layers_;      // empty if all layers are alike
  std::vector<uint32_t> state_widths_;  // by layer; empty without recurrent layers
  std::vector<uint8_t> windowed_;       // by layer; empty if window_ is 0
  uint32_t window_ = 0;
  size_t n_loaders_ = 0;
  std::optional<uint64_t> budget_bytes_;
  uint64_t held_bytes_ = 0;
};

struct ForwardOptions {
  uint32_t prefetch_window = 3;  // stages prefetched ahead of the one that computes, experts excluded
  std::function<void(uint32_t stage)> after_stage;  // called when a stage's steps are done, before its leases end
  // Called before each stage if the pass has many rows or weights are not all resident. True ends the pass with the
  // error `cancelled`.
  std::function<bool()> should_stop = {};
};

// Runs one batch through the whole plan. REQUIRES: the backend is reserved (Backend::reserve) for this batch.
// A failure leaves the plan usable: loaded weights stay, and the next call loads the missing ones.
Result<void> forward(const ExecutionPlan& plan, const Batch& batch, const ForwardOptions& options = {});

// The error of a call that asks an encoder for tokens.
Error no_logits(const ExecutionPlan& plan);

// Queues the loads that the next pass needs, in the order of use, and returns.
void prefetch(const ExecutionPlan& plan);

enum class PlanView : uint8_t { reference, fused };

// The plan as text: stages, steps, weights with type and shape.
std::string to_text(const ExecutionPlan& plan, PlanView view = PlanView::reference);
// The same as JSON: an array of stages.
void write_json(JsonWriter& w, const ExecutionPlan& plan, PlanView view);

}  // namespace rocmforge
