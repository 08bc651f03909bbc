#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rocmforge {
namespace {

TEST(Log, CaptureSeesWarningsAndErrorsOnly) {
  std::vector<std::string> seen;
  {
    const LogCapture capture([&](LogLevel, std::string_view text) { seen.emplace_back(text); });
    log(LogLevel::debug, "not this");
    log(LogLevel::warn, "key '{}' is {}", "a", 1);
    log(LogLevel::error, "{{}}");
  }
  log(LogLevel::debug, "nor this");
  EXPECT_EQ(seen, (std::vector<std::string>{"key 'a' is 1", "{}"}));
}

}  // namespace
}  // namespace rocmforge
