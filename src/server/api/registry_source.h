#pragma once
// A ModelSource (served_model.h) over a registry.

#include <memory>

#include "server/api/deliveries.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

// Events of the models go through `deliveries`. `registry` must outlive the result and every model acquired through it.
ModelSource registry_source(ModelRegistry& registry, std::shared_ptr<Deliveries> deliveries);

}  // namespace rocmforge::server
