#include <algorithm>

#include "plan/execution_plan.h"
#include "weights/residency.h"

namespace rocmforge {
namespace {

// The order in which a pass asks for weights. Stages that stay are asked for some way ahead of the one that computes.
// Streamed ones take turns in two berths: the first two are asked for like the others, each further one when the stage
// whose place it takes has run, around the end of this pass into the next. So the readers have work all the time.
class Ahead {
 public:
  explicit Ahead(const ExecutionPlan& plan) : plan_(plan) {}

  // Stages up to and including `last`.
  void ask_to(size_t last) {
    for (; n_asked_ < plan_.stages().size() && n_asked_ <= last; n_asked_++) {
      if (turn(n_asked_).value_or(0) < kStageBerths) plan_.weights().prefetch(plan_.stages()[n_asked_].weights);
    }
  }

  void after(size_t stage) const {
    const auto done = turn(stage);
    if (!done) return;
    const auto streamed = plan_.streamed_stages();
    plan_.weights().give_back(plan_.stages()[stage].weights);
    plan_.weights().prefetch(plan_.stages()[streamed[(*done + kStageBerths) % streamed.size()]].weights);
  }

 private:
  // Which of the streamed stages it is.
  std::optional<size_t> turn(size_t stage) const {
    const auto streamed = plan_.streamed_stages();
    const auto at = std::ranges::lower_bound(streamed, stage);
    if (at == streamed.end() || *at != stage) return std::nullopt;
    return at - streamed.begin();
  }

  const ExecutionPlan& plan_;
  size_t n_asked_ = 0;
};

// The whole pass at once; false, and nothing done, when the weights are not settled.
Result<bool> run_settled(const ExecutionPlan& plan, const Batch& batch) {
  WeightStore& weights = plan.weights();
  if (!weights.is_settled()) return false;
  std::vector<std::span<const Step>> steps;
  std::vector<std::vector<WeightStore::Lease>> leases;
  for (uint32_t i = 0; i < plan.stages().size(); i++) {
    steps.push_back(plan.stages()[i].steps);
    leases.push_back(TRY(weights.get_all(plan.stages()[i].weights)));
  }
  TRY(plan.backend().run_settled(steps, batch, weights));
  return true;
}

}  // namespace

Result<void> forward(const ExecutionPlan& plan, const Batch& batch, const ForwardOptions& options) {
  if (!options.after_stage && TRY(run_settled(plan, batch))) return {};
  Ahead ahead(plan);
  for (size_t i = 0; i < plan.stages().size(); i++) {
    ahead.ask_to(i + options.prefetch_window);
    {
      const auto leases = TRY(plan.weights().get_all(plan.stages()[i].weights));
      TRY(plan.backend().run(plan.stages()[i].steps, batch, plan.weights()));
      if (options.after_stage) options.after_stage(static_cast<uint32_t>(i));
    }
    ahead.after(i);
  }
  return {};
}

void prefetch(const ExecutionPlan& plan) {
  Ahead(plan).ask_to(plan.stages().size());
}

}  // namespace rocmforge
