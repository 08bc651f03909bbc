#pragma once
// What the GPU's kernels do not compute, said before a step is run: a plan with such a step fails with a name for what
// is missing and never gives a wrong answer.

#include "base/result.h"
#include "plan/step.h"

namespace rocmforge::gpu {

// unsupported, naming the feature.
Result<void> check_supported(const Step& step, const WeightStore& weights);

}  // namespace rocmforge::gpu
