#pragma once
// What answers say of a model.

#include <string_view>
#include <vector>

#include "engine/registry.h"
#include "server/api/call.h"

namespace rocmforge::server {

std::string_view state_name(ModelState state);
// The models as clients may name them: by their own names, then by their aliases.
std::vector<ModelEntry> named_models(const ApiShared& shared);
// Tokens of one request: what the model was made for may be more than is served. REQUIRES: entry.facts
uint32_t served_context(const ModelEntry& entry, uint32_t n_asked);

}  // namespace rocmforge::server
