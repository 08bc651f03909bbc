#pragma once
// What a model's state is called in answers.

#include <string_view>

#include "engine/registry.h"

namespace rocmforge::server {

std::string_view state_name(ModelState state);

}  // namespace rocmforge::server
