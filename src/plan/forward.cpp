#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/trace.h"
#include "plan/execution_plan.h"
#include "weights/residency.h"

namespace rocmforge {
namespace {

// A batch of this many rows uses most experts of a layer: they are read in the order of the file, without asking which.
constexpr uint32_t kManyRows = 64;

// A pass of so few rows is over before anybody could stop it; resident weights run as one list of steps then.
constexpr uint32_t kUnstoppableRows = 8;

uint32_t n_routed_rows(const ExecutionPlan& plan, const StageExperts& experts, const Batch& batch) {
  switch (plan.slots()[experts.routing.value].rows) {
    case SlotRows::batch:
      return batch.n_rows();
    case SlotRows::outputs:
      return batch.n_outputs();
  }
  RF_UNREACHABLE("a SlotRows outside its enum");
}

// All experts of a stage, when the batch is likely to use them.
std::span<const WeightId> experts_for_many(const ExecutionPlan& plan, size_t stage, const Batch& batch) {
  if (stage >= plan.stages().size()) return {};
  const auto& experts = plan.stages()[stage].experts;
  if (!experts || n_routed_rows(plan, *experts, batch) < kManyRows) return {};
  return experts->in_file_order;
}

// The order in which a pass asks for weights. Stages that stay are asked for some way ahead of the one that computes.
// Streamed ones alternate between two cache slots: the first two are asked for like the others, each further one when
// the stage whose place it takes has run, around the end of this pass into the next. So the readers have work all the
// time.
class Ahead {
 public:
  explicit Ahead(const ExecutionPlan& plan) : plan_(plan) {}

  // Stages up to and including `last`. Experts that move are asked for by the stage before theirs.
  void ask_to(size_t last, const Batch& batch) {
    WeightStore& weights = plan_.weights();
    for (; n_asked_ < plan_.stages().size() && n_asked_ <= last; n_asked_++) {
      if (streamed_index(n_asked_).value_or(0) < kStageSlots) weights.prefetch(plan_.stages()[n_asked_].weights);
      if (!weights.experts_move()) weights.prefetch(experts_for_many(plan_, n_asked_, batch));
    }
  }

  void after(size_t stage) const {
    const auto done = streamed_index(stage);
    if (!done) return;
    const auto streamed = plan_.streamed_stages();
    plan_.weights().give_back(plan_.stages()[stage].weights);
    plan_.weights().prefetch(plan_.stages()[streamed[(*done + kStageSlots) % streamed.size()]].weights);
  }

 private:
  // Which of the streamed stages it is.
  std::optional<size_t> streamed_index(size_t stage) const {
    const auto streamed = plan_.streamed_stages();
    const auto at = std::ranges::lower_bound(streamed, stage);
    if (at == streamed.end() || *at != stage) return std::nullopt;
    return at - streamed.begin();
  }

  const ExecutionPlan& plan_;
  size_t n_asked_ = 0;
};

// The weights of the experts that the rows of the batch were routed to. A device that is about to fail may say
// anything.
Result<std::vector<WeightId>> routed_experts(const ExecutionPlan& plan, const StageExperts& experts,
                                             const Batch& batch) {
  std::vector<float> routing(size_t{n_routed_rows(plan, experts, batch)} * 2 * experts.n_used);
  TRY(plan.backend().read(routing, experts.routing));
  uint32_t n_experts = UINT32_MAX;
  for (const ExpertStack& stack : experts.stacks) n_experts = std::min(n_experts, stack.n);
  std::vector<uint32_t> used;
  for (size_t i = 0; i < routing.size(); i += 2) {
    if (!(routing[i] >= 0 && routing[i] < static_cast<float>(n_experts))) {
      return Error{ErrorCode::device_failed,
                   fmt::format("forward: the device sent a row to expert {} of {}", routing[i], n_experts)};
    }
    used.push_back(static_cast<uint32_t>(routing[i]));
  }
  std::ranges::sort(used);
  used.erase(std::ranges::unique(used).begin(), used.end());
  std::vector<WeightId> ids;
  for (const ExpertStack& stack : experts.stacks) {
    for (const uint32_t expert : used) ids.push_back(stack[expert]);
  }
  return ids;
}

// Experts that are not all there are loaded when it is known which are needed.
Result<void> run_stage(const ExecutionPlan& plan, uint32_t i, const Batch& batch) {
  const Stage& stage = plan.stages()[i];
  WeightStore& weights = plan.weights();
  Backend& backend = plan.backend();
  std::optional<WeightStore::Lease> all_experts;
  if (stage.experts) all_experts = weights.try_get_experts(i);
  const auto run = [&](size_t first, size_t n) {
    return backend.run_part({plan.steps(), i, first, n}, batch, weights);
  };
  if (!stage.experts || all_experts) return run(0, stage.fused.size());

  const size_t n_before = stage.experts->n_fused_before;
  TRY(run(0, n_before));
  const auto many = experts_for_many(plan, i, batch);
  const auto experts =
      TRY(many.empty() ? weights.get_all(TRY(routed_experts(plan, *stage.experts, batch))) : weights.get_all(many));
  if (weights.experts_move()) weights.prefetch(experts_for_many(plan, i + 1, batch));
  return run(n_before, stage.fused.size() - n_before);
}

}  // namespace

Result<void> forward(const ExecutionPlan& plan, const Batch& batch, const ForwardOptions& options) {
  const TraceSpan pass("pass", "forward",
                       {{{"rows", uint64_t{batch.n_rows()}}, {"outputs", uint64_t{batch.n_outputs()}}}});
  const bool may_stop = options.should_stop && batch.n_rows() > kUnstoppableRows;
  if (!options.after_stage && !may_stop) {
    if (const auto held = plan.weights().try_get_everything()) {
      return plan.backend().run_settled(plan.steps(), batch, plan.weights());
    }
  }
  Ahead ahead(plan);
  for (uint32_t i = 0; i < plan.stages().size(); i++) {
    if (options.should_stop && options.should_stop()) return Error{ErrorCode::cancelled, "the pass was stopped"};
    ahead.ask_to(size_t{i} + options.prefetch_window, batch);
    {
      const TraceSpan stage("pass", plan.stages()[i].name);
      // All at once: who holds some and waits for others may wait for itself.
      std::vector<WeightId> needed = plan.stages()[i].weights;
      std::ranges::copy(plan.stages()[i].next_norm, std::back_inserter(needed));
      const auto leases = TRY(plan.weights().get_all(needed));
      TRY(run_stage(plan, i, batch));
      if (options.after_stage) options.after_stage(i);
    }
    ahead.after(i);
  }
  return {};
}

Error no_logits(const ExecutionPlan& plan) {
  return {ErrorCode::unsupported, fmt::format("{} models make embeddings and no text; use `rocmforge embed`, or "
                                              "/v1/embeddings of a server",
                                              plan.spec().architecture)};
}

void prefetch(const ExecutionPlan& plan) {
  Ahead(plan).ask_to(plan.stages().size(), {});
}

}  // namespace rocmforge
