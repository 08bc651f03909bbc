#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace rocmforge {
namespace {

TEST(Random, EveryBitVariesAndNoValueRepeats) {
  std::set<uint64_t> seen;
  uint64_t ever_set = 0, always_set = ~uint64_t{0};
  for (int i = 0; i < 4096; i++) {
    const uint64_t bits = random_bits();
    EXPECT_TRUE(seen.insert(bits).second);
    ever_set |= bits;
    always_set &= bits;
  }
  EXPECT_EQ(ever_set, ~uint64_t{0});
  EXPECT_EQ(always_set, 0u);
}

}  // namespace
}  // namespace rocmforge
