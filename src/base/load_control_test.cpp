#include "base/load_control.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

using std::chrono::hours;
using std::chrono::steady_clock;

TEST(LoadControl, NeverStopsByDefault) {
  EXPECT_TRUE(LoadControl().check().ok());
  EXPECT_FALSE(LoadControl().is_stopped());
  EXPECT_TRUE(LoadControl().within(hours(1)).check().ok());
}

TEST(LoadControl, StopsWhenToldTo) {
  std::atomic<bool> stop = false;
  const LoadControl control(&stop);
  const LoadControl part = control.within(hours(1));
  EXPECT_TRUE(control.check().ok());
  stop = true;
  EXPECT_TRUE(control.is_stopped());
  EXPECT_EQ(control.check().error().code, ErrorCode::cancelled);
  EXPECT_EQ(part.check().error().code, ErrorCode::cancelled);
}

TEST(LoadControl, StopsWhenItsTimeIsOver) {
  const LoadControl late(nullptr, steady_clock::now() - hours(1));
  EXPECT_EQ(late.check().error().code, ErrorCode::limit_exceeded);
  // A part of the work never gets more time than the whole.
  EXPECT_EQ(late.within(hours(2)).check().error().code, ErrorCode::limit_exceeded);
  const auto over = LoadControl().within(std::chrono::seconds(-3)).check();
  EXPECT_EQ(over.error().code, ErrorCode::limit_exceeded);
}

TEST(LoadControl, LoopsAskNowAndThen) {
  std::atomic<bool> stop = true;
  const LoadControl control(&stop);
  EXPECT_FALSE(control.check_at(0).ok());
  EXPECT_TRUE(control.check_at(1).ok());
  EXPECT_TRUE(control.check_at(4095).ok());
  EXPECT_FALSE(control.check_at(4096).ok());
}

}  // namespace
}  // namespace rocmforge
