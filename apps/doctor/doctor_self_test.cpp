#include <fmt/core.h>

#include "doctor/doctor.h"

namespace rocmforge {

std::vector<Finding> examine_self_test(const gpu::FoundDevice& found, const gpu::SelfTestReport& report,
                                       const std::optional<gpu::SelfTestReport>& known) {
  constexpr const char* kAdvice = "report this with the card, its driver and this text";
  const std::string name = found.target.empty() ? found.name : fmt::format("{}, {}", found.name, found.target);
  std::vector<Finding> out;
  const auto say = [&](Health health, const std::string& fact, const char* advice) {
    out.push_back({health, found.id, fmt::format("{}: {}", name, fact), advice});
  };
  for (const gpu::SelfTestResult& r : report.results) {
    const bool is_right = r.fault.empty();
    say(is_right ? Health::ok : Health::fail, r.family + (is_right ? " are right" : ": " + r.fault),
        is_right ? "" : kAdvice);
  }
  for (const std::string& loss : gpu::losses(report)) say(Health::fail, loss, "");
  const char* before = !known                ? "nothing was remembered of this driver and module"
                       : known->has_passed() ? "remembered of this driver and module: it passes"
                                             : "remembered of this driver and module: it fails";
  say(Health::ok, fmt::format("the self-test took {:.0f} ms; {}", report.seconds * 1e3, before), "");
  return out;
}

}  // namespace rocmforge
