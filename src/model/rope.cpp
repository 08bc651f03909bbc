#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rocmforge {
namespace {

// The pair whose wavelength fits the original context n_turns times.
double yarn_pair(const RopeSpec& rope, double n_turns) {
  return rope.n_dims * std::log(rope.original_context / (n_turns * 2 * std::numbers::pi)) / (2 * std::log(rope.base));
}

// Whether the pair's angle comes from the fourth coordinate of a token, which of text is 0.
bool stands_still(const RopeSpec& rope, uint32_t pair) {
  const auto& n = rope.sections;
  const uint32_t all = n[0] + n[1] + n[2] + n[3];
  if (all == 0) return false;
  const uint32_t at = pair % all;
  return rope.sections_by_turns ? at >= 3 * n[at % 3] : at >= n[0] + n[1] + n[2];
}

}  // namespace

std::vector<double> rope_turns(const RopeSpec& rope) {
  const uint32_t n_pairs = rope.n_dims / 2;
  std::vector<double> out(n_pairs);
  for (uint32_t i = 0; i < n_pairs; i++) out[i] = std::pow(double{rope.base}, -2.0 * i / rope.n_dims);
  switch (rope.scaling) {
    case RopeScaling::none:
      break;
    case RopeScaling::linear:
      for (double& turn : out) turn /= rope.factor;
      break;
    case RopeScaling::yarn: {
      const double low = std::max(0.0, std::floor(yarn_pair(rope, rope.beta_fast)));
      const double high = std::min(rope.n_dims - 1.0, std::ceil(yarn_pair(rope, rope.beta_slow)));
      for (uint32_t i = 0; i < n_pairs; i++) {
        const double kept = 1 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
        out[i] *= (1 - kept) / rope.factor + kept;
      }
      break;
    }
  }
  for (uint32_t i = 0; i < n_pairs; i++) {
    if (stands_still(rope, i)) out[i] = 0;
  }
  return out;
}

double rope_magnitude(const RopeSpec& rope) {
  const bool grows = rope.scaling == RopeScaling::yarn && rope.factor > 1.0f;
  if (!grows) return rope.attention_factor;
  const auto growth = [&](double a) { return 1.0 + 0.1 * a * std::log(double{rope.factor}); };
  const double divisor = rope.log_multiplier != 0 ? growth(double{rope.log_multiplier}) : 1.0;
  return rope.attention_factor * growth(1.0) / divisor;
}

}  // namespace rocmforge
