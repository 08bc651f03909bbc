#pragma once
// Why a model computed a NaN or an infinity.

#include <string>

#include "plan/execution_plan.h"

namespace rocmforge {

// Reads the weights again from the file, in the order of their use, and names the first with a value that is not
// finite; else says that there is none, or how far it looked: it stops after some seconds, because others may be
// waiting. A sentence for a message, without paths.
std::string why_not_finite(const ExecutionPlan& plan);

}  // namespace rocmforge
