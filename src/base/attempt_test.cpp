#include "base/attempt.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

namespace rocmforge {
namespace {

TEST(Attempt, SaysWhetherTheWorkWasDone) {
  int n = 0;
  EXPECT_TRUE(attempt([&] { n++; }));
  EXPECT_FALSE(attempt([&] {
    n++;
    throw std::bad_alloc();
  }));
  EXPECT_EQ(n, 2);
}

TEST(Attempt, TellsTheFailureOnce) {
  std::string told;
  EXPECT_FALSE(
      attempt([] { throw std::runtime_error("no room"); }, [&](const std::exception& e) { told += e.what(); }));
  EXPECT_EQ(told, "no room");
  EXPECT_TRUE(attempt([] {}, [&](const std::exception&) { told += "again"; }));
  EXPECT_EQ(told, "no room");
}

TEST(Attempt, AFailureWhileTellingIsDropped) {
  EXPECT_FALSE(attempt([] { throw std::bad_alloc(); }, [](const std::exception&) { throw std::bad_alloc(); }));
}

TEST(Attempt, ARoomLogsItsFailure) {
  std::string said;
  const LogCapture capture([&](LogLevel level, std::string_view text) {
    EXPECT_EQ(level, LogLevel::error);
    said = text;
  });
  EXPECT_FALSE(attempt_in("server", [] { throw std::runtime_error("no room"); }));
  EXPECT_EQ(said, "server: no room");
}

}  // namespace
}  // namespace rocmforge
