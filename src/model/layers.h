#pragma once
// Derives the LayerSpec of every layer from the file's keys and the family's row.

#include "model/families.h"
#include "model/keys.h"

namespace rocmforge {

// Fills spec.layers. REQUIRES: n_layers, n_context, width and experts are set
Result<void> read_layers(const Keys& keys, const Family& family, ModelSpec& spec);

// Checks the layers' numbers again, after a family's rules may have changed them. Errors: model_hyperparameter.
Result<void> check_layers(const Keys& keys, const ModelSpec& spec);

inline constexpr uint32_t kMaxWidth = 1u << 20;
inline constexpr uint32_t kMaxContext = 1u << 24;

}  // namespace rocmforge
