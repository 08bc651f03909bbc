#pragma once
// The frequencies of rotary position embeddings: radians per position, for each pair of a head.
//
//   none:   f_i = base^(-2 i / n_dims) for pair i
//   linear: f_i / factor
//   yarn:   between f_i / factor and f_i, along a ramp over the pairs whose wavelengths fit the original context
//           beta_fast to beta_slow times; rotated values are scaled by attention_factor * (1 + ln(factor) / 10)
//
// In text, pairs of a token's fourth coordinate are not rotated (RopeSpec::sections).
//
// Models with rope_factors divide each frequency by a factor of its own. That is a weight, applied by the backend.

#include <vector>

#include "model/spec.h"

namespace rocmforge {

std::vector<double> rope_turns(const RopeSpec& rope);  // radians, one per pair
// The factor on rotated values.
double rope_magnitude(const RopeSpec& rope);

}  // namespace rocmforge
