#include "tensor/fit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace rocmforge::fit {
namespace {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int32_t __attribute__((vector_size(16)));

Float4 load4(const float* from) {
  Float4 v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

Float4 all(float v) {
  return Float4{v, v, v, v};
}
Float4 min4(Float4 a, Float4 b) {
  return a < b ? a : b;
}
Float4 max4(Float4 a, Float4 b) {
  return a > b ? a : b;
}
float sum(Float4 v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}

// To the nearest whole number, ties to even. REQUIRES: |v| < 2^22
Float4 round4(Float4 v) {
  const Float4 magic = all(0x1.8p23f);
  return (v + magic) - magic;
}

// To the nearest whole number in [low, high]; NaN gives low.
int round_within(float v, int low, int high) {
  if (!(v > static_cast<float>(low))) return low;
  if (v >= static_cast<float>(high)) return high;
  return static_cast<int>(std::floor(v + 0.5f));
}

float inverse_or_zero(float v) {
  return v != 0 ? 1 / v : 0;
}

class Whole {
 public:
  explicit Whole(const WholeLevels& levels)
      : low_(all(static_cast<float>(levels.low))), high_(all(static_cast<float>(levels.high))) {}

  float first() const { return low_[0]; }
  Float4 nearest(Float4 t) const { return round4(min4(max4(t, low_), high_)); }
  Int4 code(Float4 t) const { return __builtin_convertvector(nearest(t) - low_, Int4); }

 private:
  Float4 low_, high_;
};

class Table {
 public:
  explicit Table(const TableLevels& levels) : first_(levels.values[0]) {
    for (int k = 0; k < 15; k++) {
      const float below = levels.values[k];
      const float above = levels.values[k + 1];
      border_[k] = all(0.5f * (below + above));
      step_[k] = all(above - below);
    }
  }

  float first() const { return first_; }

  Float4 nearest(Float4 t) const {
    Float4 level = all(first_);
    for (int k = 0; k < 15; k++) level += (Float4)((t > border_[k]) & (Int4)step_[k]);
    return level;
  }

  Int4 code(Float4 t) const {
    Int4 code{};
    for (int k = 0; k < 15; k++) code -= t > border_[k];
    return code;
  }

 private:
  float first_;
  Float4 border_[15];
  Float4 step_[15];
};

template <int n>
float largest_of(const float* x) {
  Float4 largest{};
  for (int i = 0; i < n; i += 4) {
    const Float4 v = load4(x + i);
    largest = max4(largest, max4(v, -v));
  }
  return std::max(std::max(largest[0], largest[1]), std::max(largest[2], largest[3]));
}

// A block divided by a power of two.
template <int n>
struct Normalized {
  float x[n];
  float factor;  // of the original over x; 0 for a block that becomes zero

  explicit Normalized(const float* from) {
    const float largest = largest_of<n>(from);
    if (largest < 0x1p-26f) {
      factor = 0;
      return;
    }
    const int exponent = std::ilogb(largest);
    factor = std::ldexp(1.0f, exponent);
    const float inverse = std::ldexp(1.0f, -exponent);
    for (int i = 0; i < n; i++) x[i] = from[i] * inverse;
  }

  // The f16 that stands for `scale` in the original block, and its value in this one.
  F16 stored(float scale) const { return to_finite_f16(scale * factor); }
  float rounded(float scale) const { return to_float(stored(scale)) / factor; }
};

template <int n, class Levels>
void store_codes(uint8_t* codes, const float* x, float inverse, float shift, const Levels& levels) {
  for (int i = 0; i < n; i += 4) {
    const Int4 code = levels.code(load4(x + i) * all(inverse) + all(shift));
    for (int j = 0; j < 4; j++) codes[i + j] = static_cast<uint8_t>(code[j]);
  }
}

// --- x ~ scale * level
// ------------------------------------------------------------------------------------------------

struct ScaleSums {
  float ll;  // of level^2
  float xl;  // of x * level

  // How much smaller than sum(x^2) the squared error is with this scale, and with the best one.
  float gain(float scale) const { return scale * (2 * xl - scale * ll); }
  float best_gain() const { return ll > 0 ? xl * xl / ll : 0; }
  float best_scale() const { return ll > 0 ? xl / ll : 0; }
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

// Where the element of largest magnitude lands, relative to the first level (the one farthest from zero).
constexpr float kReaches[] = {1.0f, 0.8f, 0.85f, 0.9f, 0.95f, 1.05f, 1.1f};

// The best scale of n elements, not yet rounded. A table that is not symmetric is tried in both directions.
template <int n, class Levels>
float best_scale(const float* x, const Levels& levels) {
  float largest = 0;
  for (int i = 0; i < n; i++) {
    if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
  }
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
    if constexpr (std::is_same_v<Levels, Table>) try_inverse(-inverse);
  }
  return scale;
}

template <class Levels>
F16 fit_one_scale(uint8_t* codes, const float* from, const Levels& levels) {
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

template <int n, class Levels>
F16 fit_part_scales(int8_t* scales, uint8_t* codes, const float* from, const Levels& levels, int limit) {
  constexpr int n_parts = 256 / n;
  const Normalized<256> block(from);
  if (block.factor == 0) {
    std::fill_n(scales, n_parts, int8_t{0});
    store_codes<256>(codes, from, 0, 0, levels);
    return F16{};
  }

  float wanted[n_parts];
  float largest = 0;
  for (int p = 0; p < n_parts; p++) {
    wanted[p] = best_scale<n>(block.x + p * n, levels);
    if (std::fabs(wanted[p]) > std::fabs(largest)) largest = wanted[p];
  }
  float unit = block.rounded(largest / static_cast<float>(-limit));
  for (int p = 0; p < n_parts; p++) {
    scales[p] = static_cast<int8_t>(round_within(wanted[p] * inverse_or_zero(unit), -limit, limit - 1));
  }

  for (int round = 0; round < 2; round++) {
    float ll = 0;
    float xl = 0;
    for (int p = 0; p < n_parts; p++) {
      const int middle = scales[p];
      ScaleSums best{};
      float best_gain = -1;
      for (int s = std::max(middle - 1, -limit); s <= std::min(middle + 1, limit - 1); s++) {
        const float scale = unit * static_cast<float>(s);
        const ScaleSums sums = scale_sums<n>(block.x + p * n, inverse_or_zero(scale), levels);
        if (sums.gain(scale) > best_gain) {
          best_gain = sums.gain(scale);
          best = sums;
          scales[p] = static_cast<int8_t>(s);
        }
      }
      const auto s = static_cast<float>(scales[p]);
      ll += s * s * best.ll;
      xl += s * best.xl;
    }
    if (ll > 0) unit = block.rounded(xl / ll);
  }

  for (int p = 0; p < n_parts; p++) {
    const float inverse = inverse_or_zero(unit * static_cast<float>(scales[p]));
    store_codes<n>(codes + p * n, block.x + p * n, inverse, 0, levels);
  }
  return block.stored(unit);
}

// --- x ~ scale * level - minimum
// --------------------------------------------------------------------------------------

struct Line {
  float scale;
  float minimum;
};

struct LineSums {
  float n;
  float x;   // of x
  float l;   // of level
  float ll;  // of level^2
  float xl;  // of x * level

  // How much smaller than sum(x^2) the squared error is.
  float gain(Line f) const {
    return f.scale * (2 * xl - f.scale * ll) + f.minimum * (2 * (f.scale * l - x) - f.minimum * n);
  }
  float best_minimum(float scale) const { return (scale * l - x) / n; }
  // The best line whose minimum is not negative.
  Line best() const {
    const float determinant = n * ll - l * l;
    if (determinant > 0) {
      const float scale = (n * xl - l * x) / determinant;
      const float minimum = best_minimum(scale);
      if (scale > 0 && minimum >= 0) return {scale, minimum};
    }
    return {ll > 0 ? std::max(xl / ll, 0.0f) : 0, 0};
  }
};

template <int n>
LineSums line_sums(const float* x, float sum_x, Line line, const Whole& levels) {
  const float inverse = inverse_or_zero(line.scale);
  const Float4 shift = all(line.minimum * inverse);
  Float4 l{};
  Float4 ll{};
  Float4 xl{};
  for (int i = 0; i < n; i += 4) {
    const Float4 v = load4(x + i);
    const Float4 level = levels.nearest(v * all(inverse) + shift);
    l += level;
    ll += level * level;
    xl += v * level;
  }
  return {n, sum_x, sum(l), sum(ll), sum(xl)};
}

template <int n>
float sum_of(const float* x) {
  Float4 total{};
  for (int i = 0; i < n; i += 4) total += load4(x + i);
  return sum(total);
}

// How many levels the range of x spans at first; the rest of the levels, or of the range, is split between both ends.
constexpr float kSpans[] = {-1.0f, -0.5f, 0.0f, 0.5f, 1.0f};
constexpr int kLineSteps = 3;

// The best line of n elements, not yet rounded. The minimum is at least 0, so the range includes 0.
template <int n>
Line best_line(const float* x, float sum_x, int high) {
  Float4 lows{};
  Float4 highs = load4(x);
  for (int i = 0; i < n; i += 4) {
    lows = min4(lows, load4(x + i));
    highs = max4(highs, load4(x + i));
  }
  const float lowest = std::min(std::min(lows[0], lows[1]), std::min(lows[2], lows[3]));
  const float highest = std::max(std::max(highs[0], highs[1]), std::max(highs[2], highs[3]));
  if (highest - lowest < 0x1p-20f) return {0, -lowest};

  const Whole levels(WholeLevels{0, high});
  Line best{0, 0};
  float best_gain = 0;
  for (const float extra : kSpans) {
    const float span = static_cast<float>(high) + extra;
    const float scale = (highest - lowest) / span;
    Line line{scale, 0.5f * (static_cast<float>(high) - span) * scale - lowest};
    for (int step = 0; step < kLineSteps; step++) {
      const LineSums sums = line_sums<n>(x, sum_x, line, levels);
      line = sums.best();
      const float gain = sums.gain(line);
      if (gain > best_gain) {
        best_gain = gain;
        best = line;
      } else if (step > 0) {
        break;
      }
    }
  }
  return best;
}

// One part's scale and minimum, in whole units: those next to the given ones that are best once the codes follow.
template <int n>
LineSums refine_part(PartScale& part, const float* x, float sum_x, Line units, const Whole& levels, int limit) {
  const int middle = part.scale;
  const int minimum = part.minimum;
  LineSums best{};
  float best_gain = -INFINITY;
  for (int s = std::max(middle - 1, 0); s <= std::min(middle + 1, limit); s++) {
    Line line{units.scale * static_cast<float>(s), units.minimum * static_cast<float>(minimum)};
    LineSums sums = line_sums<n>(x, sum_x, line, levels);
    const int m = round_within(sums.best_minimum(line.scale) * inverse_or_zero(units.minimum), 0, limit);
    if (m != minimum) {
      line.minimum = units.minimum * static_cast<float>(m);
      sums = line_sums<n>(x, sum_x, line, levels);
    }
    const float gain = sums.gain(line);
    if (gain > best_gain) {
      best_gain = gain;
      best = sums;
      part = {static_cast<uint8_t>(s), static_cast<uint8_t>(m)};
    }
  }
  return best;
}

template <int n>
PartUnits fit_part_minima(PartScale* parts, uint8_t* codes, const float* from, int high, int limit) {
  constexpr int n_parts = 256 / n;
  const Normalized<256> block(from);
  if (block.factor == 0) {
    std::fill_n(parts, n_parts, PartScale{0, 0});
    std::fill_n(codes, 256, uint8_t{0});
    return {};
  }

  Line wanted[n_parts];
  float sum_x[n_parts];
  Line largest{0, 0};
  for (int p = 0; p < n_parts; p++) {
    sum_x[p] = sum_of<n>(block.x + p * n);
    wanted[p] = best_line<n>(block.x + p * n, sum_x[p], high);
    largest = {std::max(largest.scale, wanted[p].scale), std::max(largest.minimum, wanted[p].minimum)};
  }
  const auto top = static_cast<float>(limit);
  Line units{block.rounded(largest.scale / top), block.rounded(largest.minimum / top)};
  for (int p = 0; p < n_parts; p++) {
    const int scale = round_within(wanted[p].scale * inverse_or_zero(units.scale), 0, limit);
    const int minimum = round_within(wanted[p].minimum * inverse_or_zero(units.minimum), 0, limit);
    parts[p] = {static_cast<uint8_t>(scale), static_cast<uint8_t>(minimum)};
  }

  const Whole levels(WholeLevels{0, high});
  for (int round = 0; round < 2; round++) {
    // Both units at once: the normal equations of  x ~ units.scale * (s l) - units.minimum * m.
    float a = 0;   // of (s l)^2
    float b = 0;   // of (s l) m
    float c = 0;   // of m^2
    float xs = 0;  // of x (s l)
    float xm = 0;  // of x m
    for (int p = 0; p < n_parts; p++) {
      const LineSums sums = refine_part<n>(parts[p], block.x + p * n, sum_x[p], units, levels, limit);
      const auto s = static_cast<float>(parts[p].scale);
      const auto m = static_cast<float>(parts[p].minimum);
      a += s * s * sums.ll;
      b += s * m * sums.l;
      c += m * m * sums.n;
      xs += s * sums.xl;
      xm += m * sums.x;
    }
    const float determinant = a * c - b * b;
    if (determinant > 0) {
      const Line better{(xs * c - xm * b) / determinant, (xs * b - xm * a) / determinant};
      if (better.scale > 0 && better.minimum > 0) units = {block.rounded(better.scale), block.rounded(better.minimum)};
    } else if (a > 0 && xs > 0) {
      units.scale = block.rounded(xs / a);
    }
  }

  for (int p = 0; p < n_parts; p++) {
    const float inverse = inverse_or_zero(units.scale * static_cast<float>(parts[p].scale));
    const float shift = units.minimum * static_cast<float>(parts[p].minimum) * inverse;
    store_codes<n>(codes + p * n, block.x + p * n, inverse, shift, levels);
  }
  return {block.stored(units.scale), block.stored(units.minimum)};
}

}  // namespace

float largest_magnitude(const float* x) {
  return largest_of<32>(x);
}

F16 fit_scale(uint8_t* codes, const float* x, const WholeLevels& levels) {
  return fit_one_scale(codes, x, Whole(levels));
}

F16 fit_scale(uint8_t* codes, const float* x, const TableLevels& levels) {
  return fit_one_scale(codes, x, Table(levels));
}

ScaleOffset fit_scale_offset(uint8_t* codes, const float* from, int high) {
  constexpr int n = 32;
  Normalized<n> block(from);
  if (block.factor == 0) {
    std::fill_n(codes, n, uint8_t{0});
    return {};
  }
  // Measured from the highest element, the line's minimum is positive, and sums of a narrow range keep their precision.
  const float highest = *std::max_element(block.x, block.x + n);
  for (float& v : block.x) v -= highest;
  const Line line = best_line<n>(block.x, sum_of<n>(block.x), high);
  const float offset = highest - line.minimum;
  const float inverse = inverse_or_zero(block.rounded(line.scale));
  store_codes<n>(codes, block.x, inverse, (highest - block.rounded(offset)) * inverse, Whole(WholeLevels{0, high}));
  return {block.stored(line.scale), block.stored(offset)};
}

F16 fit_part_scales(int8_t* scales, uint8_t* codes, const float* x, const WholeLevels& levels, int limit) {
  return fit_part_scales<16>(scales, codes, x, Whole(levels), limit);
}

F16 fit_part_scales(int8_t* scales, uint8_t* codes, const float* x, const TableLevels& levels, int limit) {
  return fit_part_scales<32>(scales, codes, x, Table(levels), limit);
}

PartUnits fit_part_minima(PartScale* parts, uint8_t* codes, const float* x, int n_parts, int high, int limit) {
  CHECK(n_parts == 8 || n_parts == 16);
  if (n_parts == 8) return fit_part_minima<32>(parts, codes, x, high, limit);
  return fit_part_minima<16>(parts, codes, x, high, limit);
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
