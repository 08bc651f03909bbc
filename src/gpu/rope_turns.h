#pragma once
// How far each pair of a head turns per position.

#include <vector>

#include "model/spec.h"

namespace rocmforge::gpu {

std::vector<double> rope_turns(const RopeSpec& rope);  // radians, one per pair
// Rotated values grow by this.
double rope_magnitude(const RopeSpec& rope);

}  // namespace rocmforge::gpu
