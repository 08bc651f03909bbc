#include "base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/support.h"

namespace rocmforge {
namespace {

TEST(Checked, ComputesWhatFits) {
  EXPECT_EQ((CheckedU64(6) * 7 + 3).get(), 45u);
  EXPECT_EQ((CheckedU64(6) - 6).get(), 0u);
  EXPECT_TRUE((CheckedU64(6) * 7).fits(42));
  EXPECT_FALSE((CheckedU64(6) * 7).fits(41));
}

TEST(Checked, RemembersOverflowThroughLaterArithmetic) {
  // The attack of two dimensions whose product wraps to a small number: {2^33 - 4, 2^33 - 4} elements.
  const CheckedU64 wrapped = CheckedU64(uint64_t{1} << 33) * (uint64_t{1} << 33);
  EXPECT_FALSE(wrapped.valid());
  EXPECT_FALSE((wrapped * 0).valid());
  EXPECT_FALSE((wrapped + 1).fits(UINT64_MAX));
  EXPECT_EQ((CheckedU64(0) + wrapped).get(), std::nullopt);
}

TEST(Checked, RefusesNegativeAndTooWideNumbers) {
  EXPECT_FALSE(CheckedU64(-1).valid());
  EXPECT_FALSE(CheckedU32(int64_t{1} << 32).valid());
  EXPECT_TRUE(CheckedU32(UINT32_MAX).valid());
  EXPECT_FALSE((CheckedU64(3) - 4).valid());
}

TEST(Checked, RoundsUpToAUnitAndSeesTheWrap) {
  EXPECT_EQ(CheckedU64(0).rounded_up(32).get(), 0u);
  EXPECT_EQ(CheckedU64(1).rounded_up(32).get(), 32u);
  EXPECT_EQ(CheckedU64(32).rounded_up(32).get(), 32u);
  EXPECT_EQ(CheckedU64(UINT64_MAX - 31).rounded_up(32).get(), UINT64_MAX - 31);
  EXPECT_FALSE(CheckedU64(UINT64_MAX - 30).rounded_up(32).valid());
}

TEST(Checked, AgreesWithWideArithmeticOnRandomNumbers) {
  auto rng = testing::seeded_rng();
  for (int i = 0; i < 100'000; i++) {
    // Shifted so that about half of the products overflow.
    const uint64_t a = rng() >> (rng() % 64);
    const uint64_t b = rng() >> (rng() % 64);
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    const unsigned __int128 sum = static_cast<unsigned __int128>(a) + b;
    EXPECT_EQ((CheckedU64(a) * b).valid(), product <= UINT64_MAX);
    EXPECT_EQ((CheckedU64(a) + b).valid(), sum <= UINT64_MAX);
    EXPECT_EQ((CheckedU64(a) - b).valid(), a >= b);
    if (product <= UINT64_MAX) {
      EXPECT_EQ((CheckedU64(a) * b).value(), a * b);
    }
  }
}

}  // namespace
}  // namespace rocmforge
