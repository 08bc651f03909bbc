#pragma once
// The registry's models, as the API takes them.

#include "server/api/served_model.h"

namespace rocmforge::server {

// `registry` must outlive what is returned and every model acquired through it.
ModelSource registry_source(ModelRegistry& registry);

}  // namespace rocmforge::server
