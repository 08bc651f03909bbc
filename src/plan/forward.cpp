#include "plan/execution_plan.h"

namespace rocmforge {

Result<void> forward(const ExecutionPlan& plan, const Batch& batch, const ForwardOptions& options) {
  const auto stages = plan.stages();
  WeightStore& weights = plan.weights();
  size_t n_asked = 0;  // stages whose weights were asked for
  for (size_t i = 0; i < stages.size(); i++) {
    for (; n_asked < stages.size() && n_asked <= i + options.prefetch_window; n_asked++) {
      weights.prefetch(stages[n_asked].weights);
    }
    const auto leases = TRY(weights.get_all(stages[i].weights));
    TRY(plan.backend().run(stages[i].steps, batch, weights));
    if (options.after_stage) options.after_stage(static_cast<uint32_t>(i));
  }
  return {};
}

}  // namespace rocmforge
