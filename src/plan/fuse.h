#pragma once
// Fuses neighbouring steps that a backend can run as one (plan/step.h).
//
// A fused step gives the same bits as its parts run in order, and keeps that order: unfuse() returns the original
// steps. So the unfused list is the reference for every backend, and can be run in place of the fused one.

#include <span>
#include <vector>

#include "plan/step.h"

namespace rocmforge {

// The fused steps that a backend supports.
struct Fusions {
  bool row_chain = false;      // RowChain
  bool rows_matmul = false;    // RowsMatmul
  bool cached_attend = false;  // CachedAttend
  friend bool operator==(const Fusions&, const Fusions&) = default;
};

// REQUIRES: no step is fused yet
std::vector<Step> fuse(std::span<const Step> steps, std::span<const Slot> slots, const Fusions& fusions);

// The parts of all steps, in order.
std::vector<Step> unfuse(std::span<const Step> steps);

}  // namespace rocmforge
