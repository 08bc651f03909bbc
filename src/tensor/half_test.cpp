#include "tensor/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "support/support.h"

namespace rocmforge {
namespace {

// What the code means, by arithmetic on exponent and mantissa.
struct F16Format {
  using Code = F16;
  static constexpr uint16_t kInfinity = 0x7C00;
  static constexpr uint16_t kQuiet = 0x0200;
  static constexpr int kMantissaBits = 10;
  static constexpr int kBias = 15;
  static Code encode(float value) { return to_f16(value); }
};
struct Bf16Format {
  using Code = Bf16;
  static constexpr uint16_t kInfinity = 0x7F80;
  static constexpr uint16_t kQuiet = 0x0040;
  static constexpr int kMantissaBits = 7;
  static constexpr int kBias = 127;
  static Code encode(float value) { return to_bf16(value); }
};

template <class Format>
double value_of(uint16_t magnitude) {
  const int exponent = magnitude >> Format::kMantissaBits;
  const int mantissa = magnitude & ((1 << Format::kMantissaBits) - 1);
  const double fraction = std::ldexp(mantissa, -Format::kMantissaBits);
  return exponent == 0 ? std::ldexp(fraction, 1 - Format::kBias) : std::ldexp(1.0 + fraction, exponent - Format::kBias);
}

// The nearest code by search among all of them, ties to the even one; infinity stands where the next value would be.
template <class Format>
uint16_t nearest(float value) {
  static const std::vector<double> values = [] {
    std::vector<double> all;
    for (int code = 0; code <= Format::kInfinity; code++) all.push_back(value_of<Format>(static_cast<uint16_t>(code)));
    return all;
  }();
  const double magnitude = std::fabs(static_cast<double>(value));
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const auto above = std::lower_bound(values.begin(), values.end(), magnitude);
  if (above == values.end()) return sign | Format::kInfinity;
  auto code = static_cast<uint16_t>(above - values.begin());
  if (code == 0) return sign;
  const double up = *above - magnitude;
  const double down = magnitude - *(above - 1);
  if (down < up || (down == up && code % 2 == 1)) code--;
  return sign | code;
}

template <class Format>
class Half : public ::testing::Test {};
using BothFormats = ::testing::Types<F16Format, Bf16Format>;
TYPED_TEST_SUITE(Half, BothFormats);

TEST(HalfByHand, F16) {
  EXPECT_EQ(to_float(F16{0x3C00}), 1.0f);
  EXPECT_EQ(to_float(F16{0xC000}), -2.0f);
  EXPECT_EQ(to_float(F16{0x7BFF}), 65504.0f);
  EXPECT_EQ(to_float(F16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(F16{0x03FF}), 0x1.ff8p-15f);
  EXPECT_EQ(to_f16(0.1f).bits, 0x2E66);
  EXPECT_EQ(to_f16(65519.996f).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0x0000);  // a tie, to even
  EXPECT_EQ(to_f16(0x1.000002p-25f).bits, 0x0001);
}

TEST(HalfByHand, Bf16) {
  EXPECT_EQ(to_float(Bf16{0x3F80}), 1.0f);
  EXPECT_EQ(to_float(Bf16{0xC049}), -3.140625f);
  EXPECT_EQ(to_bf16(3.14159265f).bits, 0x4049);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7F80);
}

TYPED_TEST(Half, DecodesAll65536Codes) {
  using Code = typename TypeParam::Code;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    const float value = to_float(Code{static_cast<uint16_t>(bits)});
    const uint16_t magnitude = bits & 0x7FFF;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (magnitude > TypeParam::kInfinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else if (magnitude == TypeParam::kInfinity) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_EQ(std::fabs(static_cast<double>(value)), value_of<TypeParam>(magnitude)) << bits;
    }
  }
}

TYPED_TEST(Half, EncodesAll65536CodesBack) {
  using Code = typename TypeParam::Code;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    const bool is_nan = (bits & 0x7FFF) > TypeParam::kInfinity;
    const uint16_t back = TypeParam::encode(to_float(Code{static_cast<uint16_t>(bits)})).bits;
    ASSERT_EQ(back, is_nan ? bits | TypeParam::kQuiet : bits);
  }
}

// Rounding can only go wrong where it changes direction: halfway between neighbours, and one float to either side.
TYPED_TEST(Half, RoundsToNearestEvenAroundEveryMidpoint) {
  const auto to_midpoint = [](uint16_t code) {
    return static_cast<float>((value_of<TypeParam>(code) + value_of<TypeParam>(code + 1)) / 2);
  };
  for (uint16_t code = 0; code < TypeParam::kInfinity; code++) {
    const float middle = to_midpoint(code);
    const float below = std::nextafter(middle, 0.0f);
    const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    const uint16_t even = code + code % 2;
    for (const float sign : {1.0f, -1.0f}) {
      const uint16_t sign_bit = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(TypeParam::encode(sign * below).bits, sign_bit | code);
      ASSERT_EQ(TypeParam::encode(sign * middle).bits, sign_bit | even);
      ASSERT_EQ(TypeParam::encode(sign * above).bits, sign_bit | (code + 1));
    }
  }
}

TYPED_TEST(Half, RoundsRandomFloatsToTheNearestCode) {
  std::mt19937_64 rng = testing::seeded_rng();
  for (int round = 0; round < 300000; round++) {
    // All bit patterns, and as many from the range that f16 covers.
    uint32_t bits = static_cast<uint32_t>(rng());
    if (round % 2 == 1) bits = (bits & 0x807FFFFFu) | static_cast<uint32_t>(127 - 27 + rng() % 45) << 23;
    const auto value = std::bit_cast<float>(bits);
    const uint16_t code = TypeParam::encode(value).bits;
    if (std::isnan(value)) {
      ASSERT_GT(code & 0x7FFF, TypeParam::kInfinity) << bits;
    } else {
      ASSERT_EQ(code, nearest<TypeParam>(value)) << value;
    }
  }
}

TYPED_TEST(Half, KeepsInfinityAndNanApart) {
  for (const uint32_t sign : {0u, 0x80000000u}) {
    const uint16_t half_sign = sign >> 16;
    EXPECT_EQ(TypeParam::encode(std::bit_cast<float>(sign | 0x7F800000u)).bits, half_sign | TypeParam::kInfinity);
    // The smallest NaN has all its payload below what a half holds.
    for (const uint32_t nan : {0x7F800001u, 0x7FBFFFFFu, 0x7FC00000u, 0x7FFFFFFFu}) {
      const uint16_t code = TypeParam::encode(std::bit_cast<float>(sign | nan)).bits;
      EXPECT_GT(code & 0x7FFF, TypeParam::kInfinity);
      EXPECT_TRUE(code & TypeParam::kQuiet);
      EXPECT_EQ(code & 0x8000, half_sign);
    }
  }
}

}  // namespace
}  // namespace rocmforge
