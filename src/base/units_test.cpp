#include "base/units.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

TEST(Units, BytesHaveThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(12 << 20), "12.0 MiB");
  EXPECT_EQ(format_bytes(765 << 20), "765 MiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Units, CountsAreInThousands) {
  EXPECT_EQ(format_count(512), "512");
  EXPECT_EQ(format_count(20'200'000), "20.2 M");
  EXPECT_EQ(format_count(1'240'000'000), "1.24 B");
}

TEST(Units, SizesAreReadAsPeopleWriteThem) {
  EXPECT_EQ(*parse_size("0"), 0u);
  EXPECT_EQ(*parse_size("1000000"), 1'000'000u);
  EXPECT_EQ(*parse_size("512M"), 512u << 20);
  EXPECT_EQ(*parse_size("512mb"), 512u << 20);
  EXPECT_EQ(*parse_size("1.5GiB"), 3u << 29);
  EXPECT_EQ(*parse_size("64k"), 64u << 10);
  for (const char* text : {"", "G", "-1", "1X", "1GG", "nan", "inf", "1e400", "99999999999T", "1 G", "0x10"}) {
    EXPECT_EQ(parse_size(text).ok(), false) << text;
  }
}

}  // namespace
}  // namespace rocmforge
