#pragma once
// Rewrites steps into what a backend runs: neighbours that it can do at once become one fused step (plan/step.h).
//
// A fused step has the bits of its parts one after the other, and the parts keep their order: unfuse() gives back the
// steps that were given. So the unfused list is the reference for every backend, and can be run in its place.

#include <span>
#include <vector>

#include "plan/step.h"

namespace rocmforge {

// What a backend can do with several steps at once: which fused steps it may be given.
struct Fusions {
  bool row_chain = false;      // RowChain
  bool rows_matmul = false;    // RowsMatmul
  bool cached_attend = false;  // CachedAttend
  friend bool operator==(const Fusions&, const Fusions&) = default;
};

// REQUIRES: no step is fused already
std::vector<Step> fuse(std::span<const Step> steps, std::span<const Slot> slots, const Fusions& fusions);

// The parts of all steps, in order.
std::vector<Step> unfuse(std::span<const Step> steps);

}  // namespace rocmforge
