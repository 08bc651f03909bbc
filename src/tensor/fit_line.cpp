// x ~ scale * level - minimum
#include "base/check.h"
#include "tensor/fit_lanes.h"

namespace rocmforge::fit {
namespace {

struct Line {
  float scale;
  float minimum;
};

struct LineSums {
  float n = 0;
  float x = 0;   // of x
  float l = 0;   // of level
  float ll = 0;  // of level^2
  float xl = 0;  // of x * level

  // How much smaller than sum(x^2) the squared error is.
  float gain(Line f) const {
    return f.scale * (2 * xl - f.scale * ll) + f.minimum * (2 * (f.scale * l - x) - f.minimum * n);
  }
  float best_minimum(float scale) const { return (scale * l - x) / n; }

  // The best line whose scale and minimum are not negative.
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

// The search starts with the range of x spread over this many levels more than there are steps between them; what is
// too much or too little is split between both ends.
constexpr float kExtraSpans[] = {-1.0f, -0.5f, 0.0f, 0.5f, 1.0f};
constexpr int kSteps = 3;

// The best line of n elements, not yet rounded. The minimum is not negative, so the range includes 0.
template <int n>
Line best_line(const float* x, float sum_x, const Whole& levels, int high) {
  Float4 lows{};
  Float4 highs = load4(x);
  for (int i = 0; i < n; i += 4) {
    lows = min4(lows, load4(x + i));
    highs = max4(highs, load4(x + i));
  }
  const float low = lowest(lows);
  const float range = highest(highs) - low;
  if (range < 0x1p-20f) return {0, -low};

  Line best{0, 0};
  float best_gain = 0;
  for (const float extra : kExtraSpans) {
    const float scale = range / (static_cast<float>(high) + extra);
    Line line{scale, -0.5f * extra * scale - low};
    for (int step = 0; step < kSteps; step++) {
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

// One part's scale and minimum, in whole units: the given scale or a neighbour, and the minimum that goes with it,
// best once the codes follow.
template <int n>
LineSums refine_part(PartScale& part, const float* x, float sum_x, Line units, const Whole& levels, int limit) {
  const int middle = part.scale;
  const int minimum = part.minimum;
  LineSums best;
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

// Sums over a super-block, for both units at once:  x ~ units.scale * (s l) - units.minimum * m.
struct UnitSums {
  float ss = 0;  // of (s l)^2
  float sm = 0;  // of (s l) m
  float mm = 0;  // of m^2
  float xs = 0;  // of x (s l)
  float xm = 0;  // of x m

  void add(PartScale part, const LineSums& sums) {
    const auto s = static_cast<float>(part.scale);
    const auto m = static_cast<float>(part.minimum);
    ss += s * s * sums.ll;
    sm += s * m * sums.l;
    mm += m * m * sums.n;
    xs += s * sums.xl;
    xm += m * sums.x;
  }
  float gain(Line u) const {
    return u.scale * (2 * xs - u.scale * ss) + u.minimum * (2 * (u.scale * sm - xm) - u.minimum * mm);
  }
  Line best(Line otherwise) const {
    const float determinant = ss * mm - sm * sm;
    if (determinant > 0) return {(xs * mm - xm * sm) / determinant, (xs * sm - xm * ss) / determinant};
    return {ss > 0 ? xs / ss : otherwise.scale, otherwise.minimum};
  }
};

template <int n>
PartUnits fit_super_block(PartScale* parts, uint8_t* codes, const float* from, int high, int limit) {
  constexpr int n_parts = 256 / n;
  const Normalized<256> block(from);
  if (block.factor == 0) {
    std::fill_n(parts, n_parts, PartScale{0, 0});
    std::fill_n(codes, 256, uint8_t{0});
    return {};
  }

  const Whole levels(WholeLevels{0, high});
  Line wanted[n_parts];
  float sum_x[n_parts];
  Line largest{0, 0};
  for (int p = 0; p < n_parts; p++) {
    sum_x[p] = sum_of<n>(block.x + p * n);
    wanted[p] = best_line<n>(block.x + p * n, sum_x[p], levels, high);
    largest = {std::max(largest.scale, wanted[p].scale), std::max(largest.minimum, wanted[p].minimum)};
  }
  const auto top = static_cast<float>(limit);
  Line units{block.rounded_up(largest.scale / top), block.rounded_up(largest.minimum / top)};
  for (int p = 0; p < n_parts; p++) {
    const int scale = round_within(wanted[p].scale * inverse_or_zero(units.scale), 0, limit);
    const int minimum = round_within(wanted[p].minimum * inverse_or_zero(units.minimum), 0, limit);
    parts[p] = {static_cast<uint8_t>(scale), static_cast<uint8_t>(minimum)};
  }

  for (int round = 0; round < 2; round++) {
    UnitSums sums;
    for (int p = 0; p < n_parts; p++) {
      const LineSums part = refine_part<n>(parts[p], block.x + p * n, sum_x[p], units, levels, limit);
      sums.add(parts[p], part);
    }
    const Line best = sums.best(units);
    const Line better{block.rounded(best.scale), block.rounded(best.minimum)};
    if (better.scale >= 0 && better.minimum >= 0 && sums.gain(better) > sums.gain(units)) units = better;
  }

  for (int p = 0; p < n_parts; p++) {
    const float inverse = inverse_or_zero(units.scale * static_cast<float>(parts[p].scale));
    const float shift = units.minimum * static_cast<float>(parts[p].minimum) * inverse;
    store_codes<n>(codes + p * n, block.x + p * n, inverse, shift, levels);
  }
  return {block.stored(units.scale), block.stored(units.minimum)};
}

}  // namespace

ScaleOffset fit_scale_offset(uint8_t* codes, const float* from, int high) {
  constexpr int n = 32;
  Normalized<n> block(from);
  if (block.factor == 0) {
    std::fill_n(codes, n, uint8_t{0});
    return {};
  }
  // Measured from the highest element, the line's minimum is not negative, and sums over a narrow range keep their
  // precision.
  const float top = *std::max_element(block.x, block.x + n);
  for (float& v : block.x) v -= top;
  const Whole levels(WholeLevels{0, high});
  const float sum_x = sum_of<n>(block.x);
  Line line = best_line<n>(block.x, sum_x, levels, high);
  const F16 scale = block.stored(line.scale);
  line.scale = block.rounded(line.scale);
  line.minimum = line_sums<n>(block.x, sum_x, line, levels).best_minimum(line.scale);
  const F16 offset = block.stored(top - line.minimum);
  const float inverse = inverse_or_zero(line.scale);
  store_codes<n>(codes, block.x, inverse, (top - block.rounded(top - line.minimum)) * inverse, levels);
  return {scale, offset};
}

PartUnits fit_part_minima(PartScale* parts, uint8_t* codes, const float* x, int n_parts, int high, int limit) {
  CHECK(n_parts == 8 || n_parts == 16);
  if (n_parts == 8) return fit_super_block<32>(parts, codes, x, high, limit);
  return fit_super_block<16>(parts, codes, x, high, limit);
}

}  // namespace rocmforge::fit
