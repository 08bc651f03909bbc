#pragma once
// Shared by fit_scale.cpp and fit_line.cpp: four floats at a time, quantization levels, normalised blocks.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor/fit.h"

namespace rocmforge::fit {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int32_t __attribute__((vector_size(16)));

inline Float4 load4(const float* from) {
  Float4 v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline Float4 all(float v) {
  return Float4{v, v, v, v};
}
inline Float4 min4(Float4 a, Float4 b) {
  return a < b ? a : b;
}
inline Float4 max4(Float4 a, Float4 b) {
  return a > b ? a : b;
}
inline float sum(Float4 v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}
inline float lowest(Float4 v) {
  return std::min(std::min(v[0], v[1]), std::min(v[2], v[3]));
}
inline float highest(Float4 v) {
  return std::max(std::max(v[0], v[1]), std::max(v[2], v[3]));
}

// To the nearest whole number, ties to even. REQUIRES: |v| < 2^22
inline Float4 round4(Float4 v) {
  const Float4 magic = all(0x1.8p23f);
  return (v + magic) - magic;
}

// To the nearest whole number in [low, high]; NaN gives low.
inline int round_within(float v, int low, int high) {
  if (!(v > static_cast<float>(low))) return low;
  if (v >= static_cast<float>(high)) return high;
  return static_cast<int>(std::floor(v + 0.5f));
}

inline float inverse_or_zero(float v) {
  return v != 0 ? 1 / v : 0;
}

template <int n>
float largest_of(const float* x) {
  Float4 largest{};
  for (int i = 0; i < n; i += 4) {
    const Float4 v = load4(x + i);
    largest = max4(largest, max4(v, -v));
  }
  return highest(largest);
}

// The element of largest magnitude, with its sign. The magnitude is stored separately because clang 19.1.7 miscompiles
// a comparison with fabs(value): at -O2 and 8 elements, a smaller element may win.
template <int n>
float farthest_from_zero(const float* x) {
  float value = 0;
  float magnitude = 0;
  for (int i = 0; i < n; i++) {
    if (std::fabs(x[i]) > magnitude) {
      magnitude = std::fabs(x[i]);
      value = x[i];
    }
  }
  return value;
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

template <int n, class Levels>
void store_codes(uint8_t* codes, const float* x, float inverse, float shift, const Levels& levels) {
  for (int i = 0; i < n; i += 4) {
    const Int4 code = levels.code(load4(x + i) * all(inverse) + all(shift));
    for (int j = 0; j < 4; j++) codes[i + j] = static_cast<uint8_t>(code[j]);
  }
}

// A block divided by a power of two, so that its largest element lies in [1, 2).
template <int n>
struct Normalized {
  float x[n];
  float factor;  // of the original over x; 0 (and x unset) when every element is below what an f16 scale can express

  explicit Normalized(const float* from) {
    const float largest = largest_of<n>(from);
    if (largest < 0x1p-26f) {
      factor = 0;
      return;
    }
    const int exponent = std::ilogb(largest);
    factor = std::ldexp(1.0f, exponent);
    const Float4 inverse = all(std::ldexp(1.0f, -exponent));
    for (int i = 0; i < n; i += 4) {
      const Float4 v = load4(from + i) * inverse;
      std::memcpy(x + i, &v, sizeof v);
    }
  }

  // The f16 for a number of the original block, and the value of that f16 in this one.
  F16 stored(float v) const { return to_finite_f16(v * factor); }
  float rounded(float v) const { return to_float(stored(v)) / factor; }

  // Rounded away from zero where f16 allows it: with this unit the largest scale can still be represented. This matters
  // below 2^-14, where f16 is coarse and where most weights have their units.
  float rounded_up(float v) const {
    const F16 nearest = stored(v);
    if (std::fabs(to_float(nearest)) >= std::fabs(v * factor)) return to_float(nearest) / factor;
    const float up = to_float(F16{static_cast<uint16_t>(nearest.bits + 1)});
    return (std::isfinite(up) ? up : to_float(nearest)) / factor;
  }
};

}  // namespace rocmforge::fit
