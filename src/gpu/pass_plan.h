#pragma once
// Rewrites the steps of a pass into what a GPU launches (pass_steps.h): a pure function of the steps and of what is
// known of the pass, so that it can be asked, printed and tested without a device.
//
// The rewritten pass computes what the steps compute one after the other; slots that later steps read are all written.
// Without ProductDevice::joins_steps every step stays alone.

#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/pass_facts.h"
#include "gpu/pass_steps.h"

namespace rocmforge::gpu {

struct PassPlan {
  std::vector<PassStep> steps;
  std::vector<size_t> ends;    // by step of the plan, from 0 on: how many of `steps` have ended when it begins
  std::vector<size_t> stages;  // by stage: its first step of the plan; one more at the end

  // What ends within these steps of the plan.
  std::span<const PassStep> of_steps(size_t first, size_t n) const {
    return std::span(steps).subspan(ends[first], ends[first + n] - ends[first]);
  }
  std::span<const PassStep> of_stages(size_t first, size_t n) const {
    return of_steps(stages[first], stages[first + n] - stages[first]);
  }
  size_t n_stages() const { return stages.size() - 1; }
};

// unsupported: a step that the kernels do not compute. The stages must outlive the result.
Result<PassPlan> plan_pass(const PassFacts& facts, std::span<const std::span<const Step>> stages);

}  // namespace rocmforge::gpu
