#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"

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

TEST(Log, FieldsAreWordsOrQuoted) {
  std::vector<std::string> seen;
  const LogCapture capture([&](LogLevel, std::string_view text) { seen.emplace_back(text); }, LogLevel::info);
  const LogField fields[] = {{"id", "req-1"}, {"model", "a b"},   {"path", "/x\"=\n"},
                             {"empty", ""},   {"n", uint64_t{7}}, {"s", 0.25}};
  log_event(LogLevel::info, "request", fields);
  log_event(LogLevel::debug, "not this", fields);
  EXPECT_EQ(seen, (std::vector<std::string>{R"(request id=req-1 model="a b" path="/x\"=\n" empty="" n=7 s=0.250000)"}));
}

// What a service writes, as its reader sees it.
std::vector<std::string> service_lines(const ServiceLog::Options& options) {
  ::testing::internal::CaptureStderr();
  {
    const auto service = *ServiceLog::start(options);
    const LogField fields[] = {{"id", "req-1"}, {"status", uint64_t{200}}};
    log(LogLevel::debug, "a detail");
    log_event(LogLevel::info, "request", fields);
    log(LogLevel::warn, "two\nlines \"quoted\"");
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(text.substr(at, text.find('\n', at) - at));
  }
  return lines;
}

TEST(ServiceLog, LinesHaveTheirTimeAndLevel) {
  const auto lines = service_lines({.level = LogLevel::info});
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(lines[0], ::testing::MatchesRegex(
                            "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z info request id=req-1 "
                            "status=200"));
  EXPECT_NE(lines[1].find("Z warning two"), std::string::npos);
  EXPECT_TRUE(service_lines({.level = LogLevel::error}).empty());
}

TEST(ServiceLog, EveryLineOfJsonIsAnObject) {
  const auto lines = service_lines({.level = LogLevel::debug, .format = LogFormat::json});
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) {
    const auto json = parse_json(line);
    ASSERT_TRUE(json.ok()) << line;
    EXPECT_EQ(json->find("time")->as<std::string>()->size(), 24u);
  }
  EXPECT_EQ(*parse_json(lines[0])->find("level")->as<std::string>(), "debug");
  EXPECT_EQ(*parse_json(lines[1])->find("status")->as<int64_t>(), 200);
  EXPECT_EQ(*parse_json(lines[2])->find("message")->as<std::string>(), "two\nlines \"quoted\"");
}

}  // namespace
}  // namespace rocmforge
