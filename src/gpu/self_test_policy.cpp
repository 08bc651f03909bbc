#include "gpu/self_test_policy.h"

#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "gpu/device.h"
#include "gpu/self_test.h"
#include "gpu/self_test_memory.h"

namespace rocmforge::gpu {
namespace {

std::string name_of(const Device& device) {
  return fmt::format("{} ({}{}{})", device.api().module, device.name(), device.target().empty() ? "" : ", ",
                     device.target());
}

}  // namespace

SelfTestMode self_test_mode(SelfTestMode otherwise) {
  const char* set = std::getenv("ROCMFORGE_SELF_TEST");
  const std::string_view wanted = set != nullptr ? set : "";
  if (wanted == "off") return SelfTestMode::off;
  if (wanted == "always") return SelfTestMode::always;
  if (!wanted.empty()) {
    log(LogLevel::warn, "gpu: ROCMFORGE_SELF_TEST={} is unknown, it can be 'off' or 'always'", wanted);
  }
  return otherwise;
}

std::vector<std::string> losses(const SelfTestReport& report) {
  std::vector<std::string> out;
  if (report.first_fault(Loss::device) != nullptr) out.emplace_back("the device is not used");
  if (report.first_fault(Loss::fragments) != nullptr) {
    out.emplace_back(
        "matrix instructions are not used: products go by at most eight rows at a time, attention row by row");
  }
  if (report.first_fault(Loss::graphs) != nullptr) {
    out.emplace_back("passes are not recorded: every kernel is launched by itself");
  }
  return out;
}

Result<void> apply(const SelfTestReport& report, Device& device) {
  if (report.has_passed()) return {};
  if (const SelfTestResult* fault = report.first_fault(Loss::device)) {
    return Error{fault->not_run.value_or(ErrorCode::device_failed),
                 fmt::format("gpu: {} fails its self-test, {}: {} (`rocmforge doctor --gpu` tests it again)",
                             name_of(device), fault->family, fault->fault)};
  }
  if (report.first_fault(Loss::fragments) != nullptr) device.do_without_fragments();
  if (report.first_fault(Loss::graphs) != nullptr) device.do_without_graphs();
  std::string instead;
  for (const std::string& loss : losses(report)) instead += "; " + loss;
  log(LogLevel::warn, "gpu: {} fails its self-test, {}{}", name_of(device), report.faults(), instead);
  return {};
}

Result<void> test_for_use(Device& device, const SelfTestOptions& options) {
  if (options.mode == SelfTestMode::off) return {};
  if (options.mode == SelfTestMode::once) {
    if (const auto known = remembered_self_test(options.file, options.key)) return apply(*known, device);
  }
  const SelfTestReport report = run_self_test(device);
  log(LogLevel::info, "gpu: the self-test of {} took {:.0f} ms", name_of(device), report.seconds * 1e3);
  remember_self_test(options.file, options.key, report);
  return apply(report, device);
}

}  // namespace rocmforge::gpu
