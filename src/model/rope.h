#pragma once
// How far each pair of a head turns per position.
//
//   pair i turns by f_i = base^(-2 i / n_dims) radians
//   linear: f_i / factor
//   yarn:   between f_i / factor and f_i, along a ramp over the pairs whose wavelengths fit the original context
//           beta_fast to beta_slow times; rotated values grow by attention_factor * (1 + ln(factor) / 10)
//
// Of text, pairs whose angle comes from a token's fourth coordinate stand still (RopeSpec::sections).
//
// A model may also have one divisor per pair of its own (rope_factors): those are a weight, and the backend's.

#include <vector>

#include "model/spec.h"

namespace rocmforge {

std::vector<double> rope_turns(const RopeSpec& rope);  // radians, one per pair
// Rotated values grow by this.
double rope_magnitude(const RopeSpec& rope);

}  // namespace rocmforge
