#pragma once
// The search behind the encoders: scales and codes that make a block's squared error small.
//
// Deriving a scale from the largest element alone costs 5 to 20 % more squared error than the optimum. Given the codes,
// the best scale is a least-squares solution; given the scale, the best codes are the nearest quantization levels. The
// fits alternate between the two from a few starting points, then repeat this with the quantized scales of a
// super-block.
//
// Blocks are first divided by a power of two so that their largest element lies in [1, 2): nothing overflows, and
// results do not depend on the magnitude. Scales saturate at the largest f16; a block whose elements are all below
// 2^-26 becomes zero. REQUIRES (everywhere): finite input.
//
// Sums run in four fixed lanes, so every compiler and thread count gives the same bits. Threads: pure functions.

#include <algorithm>
#include <cstdint>

#include "tensor/half.h"

namespace rocmforge::fit {

// Quantization levels that are consecutive integers from `low` up.
struct WholeLevels {
  int low;
  int high;
};

// Quantization levels from a table: 16, ascending.
struct TableLevels {
  int8_t values[16];
};

// The nearest finite value.
inline F16 to_finite_f16(float value) {
  constexpr float kLargest = 65504.0f;
  return to_f16(std::clamp(value, -kLargest, kLargest));
}
inline Bf16 to_finite_bf16(float value) {
  constexpr float kLargest = 0x1.FEp127f;
  return to_bf16(std::clamp(value, -kLargest, kLargest));
}

// For a block of 32.
float largest_magnitude(const float* x);

// Blocks of 32:  x[i] ~ scale * level(codes[i]).  The result is the scale.
F16 fit_scale(uint8_t* codes, const float* x, const WholeLevels& levels);
F16 fit_scale(uint8_t* codes, const float* x, const TableLevels& levels);

// Blocks of 32:  x[i] ~ scale * codes[i] + offset,  codes from 0 to `high`.
struct ScaleOffset {
  F16 scale;
  F16 offset;
};
ScaleOffset fit_scale_offset(uint8_t* codes, const float* x, int high);

// Super-blocks of 256 in parts of 16 (whole levels) or 32 (table), part p:
//   x[i] ~ unit * scales[p] * level(codes[i]),
// scales from -limit to limit - 1.  The result is the unit.
F16 fit_part_scales(int8_t* scales, uint8_t* codes, const float* x, const WholeLevels& levels, int limit);
F16 fit_part_scales(int8_t* scales, uint8_t* codes, const float* x, const TableLevels& levels, int limit);

// Super-blocks of 256 in n_parts (8 or 16) parts, part p:
//   x[i] ~ units.scale * parts[p].scale * codes[i] - units.minimum * parts[p].minimum,
// codes from 0 to `high`, scales and minima from 0 to `limit`.
struct PartScale {
  uint8_t scale;
  uint8_t minimum;
};
struct PartUnits {
  F16 scale;
  F16 minimum;
};
PartUnits fit_part_minima(PartScale* parts, uint8_t* codes, const float* x, int n_parts, int high, int limit);

// Blocks of 32: the codes of the levels nearest to x[i] * inverse, and the squared error in units of the scale.
float round_to_levels(uint8_t* codes, const float* x, float inverse, const TableLevels& levels);

// Blocks of 32: x[i] * inverse, rounded to -127 .. 127.
void round_to_bytes(int8_t* to, const float* x, float inverse);

}  // namespace rocmforge::fit
