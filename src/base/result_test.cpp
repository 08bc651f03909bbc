#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace rocmforge {
namespace {

Result<int> half_of(int n) {
  if (n % 2) return Error{ErrorCode::invalid_argument, "odd"};
  return n / 2;
}

Result<int> quarter_of(int n) {
  return TRY(half_of(TRY(half_of(n))));
}

Result<void> needs_even(int n) {
  TRY(half_of(n));
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(*half_of(4), 2);
  ASSERT_FALSE(half_of(3).ok());
  EXPECT_EQ(half_of(3).error().message, "odd");
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter_of(8), 2);
  EXPECT_EQ(quarter_of(6).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(needs_even(2).ok());
  EXPECT_FALSE(needs_even(3).ok());
}

TEST(Result, HoldsMoveOnlyValues) {
  auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  auto use = [&]() -> Result<int> {
    const std::unique_ptr<int> p = TRY(make());
    return *p;
  };
  EXPECT_EQ(*use(), 7);
}

TEST(Result, ContextIsAddedInFront) {
  EXPECT_EQ((Error{ErrorCode::file_read, "cause"}.in("model 'x'").message), "model 'x': cause");
}

TEST(Result, ReadingTheWrongSideIsABugThatEndsTheProgram) {
  EXPECT_DEATH(half_of(3).value(), "broken invariant");
}

TEST(ErrorName, IsDistinctForEveryCode) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ErrorCode::template_limit); i++) {
    EXPECT_TRUE(names.insert(error_name(static_cast<ErrorCode>(i))).second);
  }
}

}  // namespace
}  // namespace rocmforge
