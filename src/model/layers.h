#pragma once
// The layers of a model: what each of them is, by the file's keys and the family's row.

#include "model/families.h"
#include "model/keys.h"

namespace rocmforge {

// Fills spec.layers. REQUIRES: n_layers, n_context, width and experts are there
Result<void> read_layers(const Keys& keys, const Family& family, ModelSpec& spec);

// Numbers that a family may have changed since: model_hyperparameter when they do not fit each other.
Result<void> check_layers(const Keys& keys, const ModelSpec& spec);

inline constexpr uint32_t kMaxWidth = 1u << 20;
inline constexpr uint32_t kMaxContext = 1u << 24;

}  // namespace rocmforge
