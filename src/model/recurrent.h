#pragma once
// Finds a model's recurrent layers and their sizes (model/spec.h, RecurrentSpec).

#include "model/families.h"
#include "model/keys.h"

namespace rocmforge {

// Marks the layers that are recurrent and reads their sizes. REQUIRES: spec.layers have heads and feed-forwards
Result<void> read_recurrent(const Keys& keys, const Family& family, ModelSpec& spec);

}  // namespace rocmforge
