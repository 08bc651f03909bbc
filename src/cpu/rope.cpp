#include "cpu/rope.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/four.h"
#include "model/rope.h"

namespace rocmforge::cpu {
void RopeAngles::prepare(const RopeSpec& rope, std::span<const float> factors, std::span<const uint32_t> positions,
                         Workers& workers) {
  if (rope == rope_ && std::ranges::equal(factors, factors_) && std::ranges::equal(positions, positions_)) return;
  CHECK(factors.empty() || factors.size() == rope.n_dims / 2);
  rope_ = rope;
  factors_.assign(factors.begin(), factors.end());
  positions_.assign(positions.begin(), positions.end());

  const size_t n_pairs = rope.n_dims / 2;
  std::vector<double> turns = rope_turns(rope);
  for (size_t i = 0; i < factors.size(); i++) turns[i] /= double{factors[i]};
  const double scale = rope_magnitude(rope);
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
    size_t i = 0;
    for (; i + kFour <= n_pairs; i += kFour) {
      const Four c = load_four(cosines + i), s = load_four(sines + i);
      float* first = head + i * step;
      float* second = halves ? first + n_pairs : first + kFour;
      const Four a = load_four(first), b = load_four(second);
      const Four x = halves ? a : __builtin_shufflevector(a, b, 0, 2, 4, 6);
      const Four y = halves ? b : __builtin_shufflevector(a, b, 1, 3, 5, 7);
      const Four turned_x = x * c - y * s, turned_y = x * s + y * c;
      store_four(first, halves ? turned_x : __builtin_shufflevector(turned_x, turned_y, 0, 4, 1, 5));
      store_four(second, halves ? turned_y : __builtin_shufflevector(turned_x, turned_y, 2, 6, 3, 7));
    }
    for (; i < n_pairs; i++) {
      float& a = head[i * step];
      float& b = head[i * step + apart];
      const float x = a, y = b;
      a = x * cosines[i] - y * sines[i];
      b = x * sines[i] + y * cosines[i];
    }
  }
}

}  // namespace rocmforge::cpu
