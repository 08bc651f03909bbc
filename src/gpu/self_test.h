#pragma once
// Whether a device computes as the kernels' source says: one kernel of each family, once, on fixed inputs, against the
// CPU. A compiler's fault, a driver's or a card's shows here, before it shows as a wrong answer.
//
// Threads: any.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device.h"

namespace rocmforge::gpu {

// What a fault in a family takes from the device.
enum class Loss : uint8_t { device, fragments, graphs };

struct SelfTestResult {
  std::string family;  // "matrix fragments"
  Loss loss;
  std::string fault;                      // what was wrong; empty: nothing
  std::optional<ErrorCode> not_run = {};  // the fault is an error of the driver, which the next try may not meet
};
struct SelfTestReport {
  std::vector<SelfTestResult> results;
  double seconds = 0;

  bool has_passed() const;
  bool was_run() const;                                // every family gave numbers, right or wrong
  const SelfTestResult* first_fault(Loss loss) const;  // null: none
  std::string faults() const;                          // "matrix fragments: row 3, column 0: 7 instead of 5; ..."
};

// Those of run_self_test(), in its order, without faults.
std::vector<SelfTestResult> self_test_families();

// A family that cannot be run at all has a fault, too.
SelfTestReport run_self_test(const Device& device);

}  // namespace rocmforge::gpu
