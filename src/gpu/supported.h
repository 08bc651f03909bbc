#pragma once
// The steps that the GPU kernels do not support. They are refused before anything runs, with the name of the missing
// feature.

#include "base/result.h"
#include "plan/step.h"

namespace rocmforge::gpu {

// unsupported, naming the feature.
Result<void> check_supported(const Step& step, const WeightStore& weights);

}  // namespace rocmforge::gpu
