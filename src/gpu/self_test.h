#pragma once
// Whether a device computes as the kernels' source says: one kernel of each family, once, on fixed inputs, against the
// CPU. A compiler's fault, a driver's or a card's shows here, before it shows as a wrong answer.
//
// Threads: any.

#include <string>
#include <vector>

#include "gpu/device.h"

namespace rocmforge::gpu {

struct SelfTestResult {
  std::string family;  // "matrix fragments"
  std::string fault;   // what was wrong; empty: nothing
};
struct SelfTestReport {
  std::vector<SelfTestResult> results;
  double seconds = 0;

  bool has_passed() const;
  std::string faults() const;  // "matrix fragments: row 3, column 0: 7 instead of 5; ..."
};

// A family that cannot be run at all has a fault, too.
SelfTestReport run_self_test(const Device& device);

}  // namespace rocmforge::gpu
