#pragma once

#include <string_view>

#include "engine/registry.h"

namespace rocmforge::server {

std::string_view state_name(ModelState state);

}  // namespace rocmforge::server
