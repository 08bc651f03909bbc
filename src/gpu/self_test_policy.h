#pragma once
// When a device is tested (gpu/self_test.h), and what is not used of a device that fails.
//
// Threads: any.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace rocmforge::gpu {

class Device;
struct SelfTestReport;

enum class SelfTestMode : uint8_t { off, once, always };  // once: unless the result is remembered

// What a result depends on.
struct SelfTestKey {
  std::string device = {};  // "AMD Radeon RX 7900 XTX, gfx1100"
  std::string driver = {};  // "60342443, Linux 6.8.0-45"
  std::string module = {};  // "hip, 52428800 bytes, 1763590000000000000"
};

struct SelfTestOptions {
  SelfTestMode mode = SelfTestMode::off;
  std::string file = {};  // remembers results (gpu/self_test_memory.h); empty: none does
  SelfTestKey key = {};
};

// As the environment variable ROCMFORGE_SELF_TEST asks (off, always), else `otherwise`.
SelfTestMode self_test_mode(SelfTestMode otherwise);

// Tests the device as `options` say, and applies the result.
Result<void> test_for_use(Device& device, const SelfTestOptions& options);

// Takes from the device what failed and logs it once. An error names the family without which no model can run.
Result<void> apply(const SelfTestReport& report, Device& device);

// What a device does without, and instead: "matrix fragments are not used: ...".
std::vector<std::string> losses(const SelfTestReport& report);

}  // namespace rocmforge::gpu
