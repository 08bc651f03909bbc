#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

namespace rocmforge {
namespace {

TEST(DType, KnowsQ4K) {
  const DTypeInfo& info = dtype_info(DType::q4_k);
  EXPECT_EQ(static_cast<uint32_t>(info.dtype), 12u);
  EXPECT_EQ(info.name, "q4_k");
  EXPECT_EQ(info.block_elements, 256u);
  EXPECT_EQ(info.block_bytes, 144u);
  EXPECT_EQ(info.use, DTypeUse::weight);
}

TEST(DType, EveryIdUpTo42IsATypeOrWasOne) {
  for (uint32_t id = 0; id <= 42; id++) {
    const bool is_type = dtype_from_id(id).has_value();
    EXPECT_NE(is_type, !removed_dtype_name(id).empty()) << id;
  }
}

TEST(DType, IdsBeyondTheFormatAreNothing) {
  for (const uint32_t id : {43u, 44u, 255u, 256u, 65536u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_FALSE(dtype_from_id(id).has_value()) << id;
    EXPECT_TRUE(removed_dtype_name(id).empty()) << id;
  }
}

TEST(DType, IsFoundByIdAndByName) {
  std::set<std::string_view> names;
  uint32_t previous = 0;
  for (const DTypeInfo& info : all_dtypes()) {
    const auto id = static_cast<uint32_t>(info.dtype);
    EXPECT_TRUE(names.empty() || id > previous) << info.name;
    previous = id;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(dtype_from_id(id), info.dtype);
    EXPECT_EQ(&dtype_info(info.dtype), &info);
    EXPECT_EQ(dtype_from_name(info.name), info.dtype);
    std::string upper(info.name);
    std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
    EXPECT_EQ(dtype_from_name(upper), info.dtype);
  }
  EXPECT_EQ(names.size(), 35u);
}

TEST(DType, UnknownNamesAreNothing) {
  for (const char* name : {"", "q", "q4_", "q4_k_m", "q4_kk", " q4_k", "q4_2"}) {
    EXPECT_FALSE(dtype_from_name(name).has_value()) << name;
  }
}

TEST(DType, SaysWhatEachIsFor) {
  std::set<std::string_view> plain;
  std::set<std::string_view> activation;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.use == DTypeUse::plain) plain.insert(info.name);
    if (info.use == DTypeUse::activation) activation.insert(info.name);
  }
  EXPECT_EQ(plain, (std::set<std::string_view>{"i8", "i16", "i32", "i64", "f64"}));
  EXPECT_EQ(activation, (std::set<std::string_view>{"q8_1", "q8_k"}));
}

}  // namespace
}  // namespace rocmforge
