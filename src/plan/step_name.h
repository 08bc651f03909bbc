#pragma once
// "Matmul": the name of a step's type, for logs and traces.

#include <string_view>

#include "plan/step.h"

namespace rocmforge {

std::string_view step_name(const Step& step);

}  // namespace rocmforge
