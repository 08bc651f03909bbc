#pragma once
// The registry's models, as the API takes them.

#include <memory>

#include "server/api/deliveries.h"
#include "server/api/served_model.h"

namespace rocmforge::server {

// Events of the models come through `deliveries`.
// `registry` must outlive what is returned and every model acquired through it.
ModelSource registry_source(ModelRegistry& registry, std::shared_ptr<Deliveries> deliveries);

}  // namespace rocmforge::server
