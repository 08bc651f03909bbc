#pragma once
// Finds the cause of a NaN or an infinity in a model's output.

#include <string>

#include "plan/execution_plan.h"

namespace rocmforge {

// Reads the weights again from the file, in the order of use, and returns a sentence for a message, without paths: the
// first weight with a value that is not finite, or that there is none, or how many were checked. It stops after some
// seconds, because other requests may be waiting.
std::string why_not_finite(const ExecutionPlan& plan);

}  // namespace rocmforge
