#include "cpu/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace rocmforge::cpu {
namespace {

// The pair whose wavelength fits the original context n_turns times.
double yarn_pair(const RopeSpec& rope, double n_turns) {
  return rope.n_dims * std::log(rope.original_context / (n_turns * 2 * std::numbers::pi)) / (2 * std::log(rope.base));
}

std::vector<double> frequencies(const RopeSpec& rope, std::span<const float> factors) {
  const uint32_t n_pairs = rope.n_dims / 2;
  std::vector<double> out(n_pairs);
  for (uint32_t i = 0; i < n_pairs; i++) {
    out[i] = std::pow(double{rope.base}, -2.0 * i / rope.n_dims) / (factors.empty() ? 1.0 : double{factors[i]});
  }
  switch (rope.scaling) {
    case RopeScaling::none:
      break;
    case RopeScaling::linear:
      for (double& f : out) f /= rope.factor;
      break;
    case RopeScaling::yarn: {
      const double low = std::max(0.0, std::floor(yarn_pair(rope, rope.beta_fast)));
      const double high = std::min(rope.n_dims - 1.0, std::ceil(yarn_pair(rope, rope.beta_slow)));
      for (uint32_t i = 0; i < n_pairs; i++) {
        const double ramp = 1 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
        out[i] *= (1 - ramp) / rope.factor + ramp;
      }
      break;
    }
  }
  return out;
}

double magnitude(const RopeSpec& rope) {
  const bool grows = rope.scaling == RopeScaling::yarn && rope.factor > 1.0f;
  return rope.attention_factor * (grows ? 1.0 + 0.1 * std::log(double{rope.factor}) : 1.0);
}

}  // namespace

void RopeAngles::prepare(const RopeSpec& rope, std::span<const float> factors, std::span<const uint32_t> positions,
                         Workers& workers) {
  if (rope == rope_ && std::ranges::equal(factors, factors_) && std::ranges::equal(positions, positions_)) return;
  CHECK(factors.empty() || factors.size() == rope.n_dims / 2);
  rope_ = rope;
  factors_.assign(factors.begin(), factors.end());
  positions_.assign(positions.begin(), positions.end());

  const size_t n_pairs = rope.n_dims / 2;
  const std::vector<double> turns = frequencies(rope, factors);
  const double scale = magnitude(rope);
  cos_sin_.resize(positions.size() * 2 * n_pairs);
  workers.run(positions.size(), [&](size_t row, size_t) {
    float* cosines = cos_sin_.data() + row * 2 * n_pairs;
    for (size_t i = 0; i < n_pairs; i++) {
      const double angle = positions_[row] * turns[i];
      cosines[i] = static_cast<float>(std::cos(angle) * scale);
      cosines[n_pairs + i] = static_cast<float>(std::sin(angle) * scale);
    }
  });
}

void RopeAngles::rotate(std::span<float> heads, uint32_t head_size, size_t row) const {
  CHECK(rope_.n_dims <= head_size && heads.size() % head_size == 0 && row < positions_.size());
  const size_t n_pairs = rope_.n_dims / 2;
  const float* cosines = cos_sin_.data() + row * 2 * n_pairs;
  const float* sines = cosines + n_pairs;
  // Where pair i begins, and how far apart its two elements are.
  const bool halves = rope_.pairs == RopePairs::halves;
  const size_t step = halves ? 1 : 2;
  const size_t apart = halves ? n_pairs : 1;
  for (size_t h = 0; h < heads.size(); h += head_size) {
    float* head = heads.data() + h;
    for (size_t i = 0; i < n_pairs; i++) {
      float& a = head[i * step];
      float& b = head[i * step + apart];
      const float x = a, y = b;
      a = x * cosines[i] - y * sines[i];
      b = x * sines[i] + y * cosines[i];
    }
  }
}

}  // namespace rocmforge::cpu
