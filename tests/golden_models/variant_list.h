#pragma once
// Variants and families as real files have them, on small sizes. Weights are quantiles of the normal distribution,
// chosen by 16 random bits each.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "builder.h"

namespace rocmforge::golden_models {

inline constexpr Dims kUsual = {384, 128, 256, 4, 2, 32, 3, 128};
inline constexpr uint32_t kWindow = 16;

struct Drawing {
  double embedding = 0;  // 0: 1, or 0.05 where the table is the output, too
  double qk_norm = 1;
  double qk_deviation = 0;
  const char* salt = "";  // behind the name, in the seed: chosen so that no step of the reference is nearly a tie
};

class VariantList {
 public:
  void add(const std::string& name, const Builder& builder, const Drawing& drawing = {}) {
    Recipe r = builder.recipe;
    r.name = name;
    r.seed = name + drawing.salt;
    r.draw = Recipe::Draw::quantiles;
    const bool is_tied = std::ranges::none_of(r.tensors, [](const auto& t) { return t.name == "output.weight"; });
    r.embedding = drawing.embedding != 0 ? drawing.embedding : is_tied ? 0.05 : 1.0;
    r.qk_norm = drawing.qk_norm;
    r.qk_deviation = drawing.qk_deviation;
    recipes.push_back(std::move(r));
  }
  std::vector<Recipe> recipes;
};

// More architectures: family_recipes.cpp.
void add_families(VariantList& list);

}  // namespace rocmforge::golden_models
