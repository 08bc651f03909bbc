#pragma once
// A small file that remembers results of self-tests, so that a device is tested once for each driver and module.
//
// Nothing is assumed about what the file holds: what cannot be read, or is not a whole result of the families that
// there are today, is as if it were not there. A file that cannot be written only means that the test runs again.
//
// Threads and processes: any. The file is replaced whole; of two that write at once, one's result may be lost.

#include <optional>
#include <string>

#include "gpu/self_test.h"
#include "gpu/self_test_policy.h"

namespace rocmforge::gpu {

// An empty `file` remembers nothing.
std::optional<SelfTestReport> remembered_self_test(const std::string& file, const SelfTestKey& key);

// Replaces what was remembered of the key. A report with a family that was not run is not remembered, and what was is
// forgotten: the driver may have lacked memory for a moment.
void remember_self_test(const std::string& file, const SelfTestKey& key, const SelfTestReport& report);

}  // namespace rocmforge::gpu
