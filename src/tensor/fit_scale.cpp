// x ~ scale * level
#include <type_traits>

#include "tensor/fit_lanes.h"

namespace rocmforge::fit {
namespace {

struct ScaleSums {
  float ll = 0;  // of level^2
  float xl = 0;  // of x * level

  // How much smaller than sum(x^2) the squared error is.
  float gain(float scale) const { return scale * (2 * xl - scale * ll); }
  float best_scale() const { return ll > 0 ? xl / ll : 0; }
  float best_gain() const { return xl * best_scale(); }
};

template <int n, class Levels>
ScaleSums scale_sums(const float* x, float inverse, const Levels& levels) {
  Float4 ll{};
  Float4 xl{};
  for (int i = 0; i < n; i += 4) {
    const Float4 v = load4(x + i);
    const Float4 level = levels.nearest(v * all(inverse));
    ll += level * level;
    xl += v * level;
  }
  return {sum(ll), sum(xl)};
}

// Where the search puts the largest element: the first level, which is the farthest from zero, times one of these.
constexpr float kReaches[] = {1.0f, 0.8f, 0.85f, 0.9f, 0.95f, 1.05f, 1.1f};

// The best scale of n elements, not yet rounded.
template <int n, class Levels>
float best_scale(const float* x, const Levels& levels) {
  const float largest = farthest_from_zero<n>(x);
  if (std::fabs(largest) < 0x1p-20f) return 0;
  float scale = 0;
  float gain = 0;
  const auto try_inverse = [&](float inverse) {
    const ScaleSums sums = scale_sums<n>(x, inverse, levels);
    if (sums.best_gain() > gain) {
      gain = sums.best_gain();
      scale = sums.best_scale();
    }
  };
  for (const float reach : kReaches) {
    const float inverse = levels.first() * reach / largest;
    try_inverse(inverse);
    // Uneven levels may fit better the other way round.
    if constexpr (std::is_same_v<Levels, Table>) try_inverse(-inverse);
  }
  return scale;
}

template <class Levels>
F16 fit_block(uint8_t* codes, const float* from, const Levels& levels) {
  constexpr int n = 32;
  const Normalized<n> block(from);
  if (block.factor == 0) {
    store_codes<n>(codes, from, 0, 0, levels);
    return F16{};
  }
  const float scale = best_scale<n>(block.x, levels);
  store_codes<n>(codes, block.x, inverse_or_zero(block.rounded(scale)), 0, levels);
  return block.stored(scale);
}

// One part's scale, in whole units: of the given one and its neighbours the best once the codes follow.
template <int n, class Levels>
ScaleSums refine_part(int8_t& part, const float* x, float unit, const Levels& levels, int limit) {
  const int middle = part;
  ScaleSums best;
  float best_gain = -INFINITY;
  for (int s = std::max(middle - 1, -limit); s <= std::min(middle + 1, limit - 1); s++) {
    const float scale = unit * static_cast<float>(s);
    const ScaleSums sums = scale_sums<n>(x, inverse_or_zero(scale), levels);
    if (sums.gain(scale) > best_gain) {
      best_gain = sums.gain(scale);
      best = sums;
      part = static_cast<int8_t>(s);
    }
  }
  return best;
}

template <int n, class Levels>
F16 fit_super_block(int8_t* scales, uint8_t* codes, const float* from, const Levels& levels, int limit) {
  constexpr int n_parts = 256 / n;
  const Normalized<256> block(from);
  if (block.factor == 0) {
    std::fill_n(scales, n_parts, int8_t{0});
    store_codes<256>(codes, from, 0, 0, levels);
    return F16{};
  }

  float wanted[n_parts];
  for (int p = 0; p < n_parts; p++) wanted[p] = best_scale<n>(block.x + p * n, levels);
  float unit = block.rounded_up(farthest_from_zero<n_parts>(wanted) / static_cast<float>(-limit));
  for (int p = 0; p < n_parts; p++) {
    scales[p] = static_cast<int8_t>(round_within(wanted[p] * inverse_or_zero(unit), -limit, limit - 1));
  }

  for (int round = 0; round < 2; round++) {
    ScaleSums sums;  // of x and scale * level
    for (int p = 0; p < n_parts; p++) {
      const ScaleSums part = refine_part<n>(scales[p], block.x + p * n, unit, levels, limit);
      const auto s = static_cast<float>(scales[p]);
      sums.ll += s * s * part.ll;
      sums.xl += s * part.xl;
    }
    const float better = block.rounded(sums.best_scale());
    if (sums.gain(better) > sums.gain(unit)) unit = better;
  }

  for (int p = 0; p < n_parts; p++) {
    const float inverse = inverse_or_zero(unit * static_cast<float>(scales[p]));
    store_codes<n>(codes + p * n, block.x + p * n, inverse, 0, levels);
  }
  return block.stored(unit);
}

}  // namespace

float largest_magnitude(const float* x) {
  return largest_of<32>(x);
}

F16 fit_scale(uint8_t* codes, const float* x, const WholeLevels& levels) {
  return fit_block(codes, x, Whole(levels));
}

F16 fit_scale(uint8_t* codes, const float* x, const TableLevels& levels) {
  return fit_block(codes, x, Table(levels));
}

F16 fit_part_scales(int8_t* scales, uint8_t* codes, const float* x, const WholeLevels& levels, int limit) {
  return fit_super_block<16>(scales, codes, x, Whole(levels), limit);
}

F16 fit_part_scales(int8_t* scales, uint8_t* codes, const float* x, const TableLevels& levels, int limit) {
  return fit_super_block<32>(scales, codes, x, Table(levels), limit);
}

float round_to_levels(uint8_t* codes, const float* x, float inverse, const TableLevels& table) {
  const Table levels(table);
  Float4 error{};
  for (int i = 0; i < 32; i += 4) {
    const Float4 t = load4(x + i) * all(inverse);
    const Float4 difference = t - levels.nearest(t);
    error += difference * difference;
  }
  store_codes<32>(codes, x, inverse, 0, levels);
  return sum(error);
}

void round_to_bytes(int8_t* to, const float* x, float inverse) {
  for (int i = 0; i < 32; i += 4) {
    const Float4 t = round4(min4(max4(load4(x + i) * all(inverse), all(-127)), all(127)));
    for (int j = 0; j < 4; j++) to[i + j] = static_cast<int8_t>(t[j]);
  }
}

}  // namespace rocmforge::fit
