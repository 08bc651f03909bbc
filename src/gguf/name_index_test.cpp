#include "gguf/name_index.h"

#include <gtest/gtest.h>

#include <string>

#include "support/support.h"

namespace rocmforge::gguf {
namespace {

TEST(NameIndex, FindsByName) {
  const std::vector<std::string_view> names = {"b", "a", "", "a.b"};
  const NameIndex index(names);
  EXPECT_EQ(index.find("b"), 0u);
  EXPECT_EQ(index.find("a"), 1u);
  EXPECT_EQ(index.find(""), 2u);
  EXPECT_EQ(index.find("a.b"), 3u);
  EXPECT_EQ(index.find("a.c"), std::nullopt);
  EXPECT_EQ(index.first_duplicate(), std::nullopt);
  EXPECT_EQ(NameIndex().find("a"), std::nullopt);
}

TEST(NameIndex, ReportsTheLowestDuplicate) {
  const std::vector<std::string_view> names = {"x", "y", "z", "y", "x", "x"};
  const NameIndex index(names);
  EXPECT_EQ(index.first_duplicate(), 3u);
  EXPECT_EQ(index.find("x"), 0u);
}

TEST(NameIndex, AgreesWithASearchFromTheFront) {
  auto rng = rocmforge::testing::seeded_rng();
  for (int round = 0; round < 50; round++) {
    std::vector<std::string> owned(1 + rng() % 60);
    for (std::string& name : owned) name = std::to_string(rng() % 100);
    const std::vector<std::string_view> names(owned.begin(), owned.end());
    const NameIndex index(names);
    std::optional<size_t> duplicate;
    for (size_t i = 0; i < names.size() && !duplicate; i++) {
      if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) duplicate = i;
    }
    EXPECT_EQ(index.first_duplicate(), duplicate);
    for (int n = 0; n < 100; n++) {
      const std::string name = std::to_string(n);
      const auto at = std::find(names.begin(), names.end(), name);
      const auto expected = at == names.end() ? std::nullopt : std::optional<size_t>(at - names.begin());
      EXPECT_EQ(index.find(name), expected);
    }
  }
}

}  // namespace
}  // namespace rocmforge::gguf
