#include "base/utf8.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; c++) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = decode_utf8(text, 0);
    ASSERT_TRUE(step.valid) << static_cast<uint32_t>(c);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.n_bytes, text.size());
  }
}

TEST(Utf8, RefusesWhatIsNotACodePoint) {
  EXPECT_FALSE(is_valid_utf8("\xC0\x80"));          // overlong NUL
  EXPECT_FALSE(is_valid_utf8("\xE0\x9F\xBF"));      // overlong
  EXPECT_FALSE(is_valid_utf8("\xED\xA0\x80"));      // surrogate
  EXPECT_FALSE(is_valid_utf8("\xF4\x90\x80\x80"));  // above U+10FFFF
  EXPECT_FALSE(is_valid_utf8("\xF5\x80\x80\x80"));
  EXPECT_FALSE(is_valid_utf8("\x80"));
  EXPECT_FALSE(is_valid_utf8("a\xE2\x82"));
  EXPECT_TRUE(is_valid_utf8("a\xE2\x82\xAC"));
}

TEST(Utf8, ReplacesOneMaximalSubpartAtATime) {
  // The example of the Unicode standard, section 3.9, table 3-11.
  EXPECT_EQ(to_valid_utf8("\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "\uFFFD\uFFFD\uFFFD\x62\uFFFD\x63\uFFFD\uFFFD\x64");
}

// The same judgement by a method of its own: the value must need exactly the bytes it has.
bool valid_by_definition(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  size_t n = byte(0) < 0x80 ? 1 : (byte(0) & 0xE0) == 0xC0 ? 2 : (byte(0) & 0xF0) == 0xE0 ? 3 : 4;
  if (n == 4 && (byte(0) & 0xF8) != 0xF0) return false;
  if (s.size() != n) return false;
  uint32_t c = n == 1 ? byte(0) : byte(0) & (0xFF >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((byte(i) & 0xC0) != 0x80) return false;
    c = c << 6 | (byte(i) & 0x3F);
  }
  const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  return c >= least[n] && c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
}

TEST(Utf8, JudgesEveryThreeByteSequenceAsTheDefinitionDoes) {
  for (uint32_t bits = 0xE00000; bits <= 0xEFFFFF; bits++) {
    const char text[] = {static_cast<char>(bits >> 16), static_cast<char>(bits >> 8), static_cast<char>(bits)};
    ASSERT_EQ(decode_utf8({text, 3}, 0).valid, valid_by_definition({text, 3})) << std::hex << bits;
  }
}

TEST(Utf8, FindsTheUnfinishedEnd) {
  EXPECT_EQ(incomplete_utf8_suffix(""), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("abc"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xE2"), 1u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xE2\x82"), 2u);
  EXPECT_EQ(incomplete_utf8_suffix("a\xE2\x82\xAC"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_suffix("\x80\x80"), 0u);  // no lead: wrong, not unfinished
  EXPECT_EQ(incomplete_utf8_suffix("\xE0\x80"), 0u);  // overlong: can never become right
}

}  // namespace
}  // namespace rocmforge
