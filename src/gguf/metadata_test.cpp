#include "gguf/metadata.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gguf/writer.h"

namespace rocmforge::gguf {
namespace {

template <class T>
using Of = std::numeric_limits<T>;

// Metadata that went through a file's bytes.
Metadata built(const HeaderBuilder& builder) {
  return builder.encode().value().header.metadata;
}

template <class T>
std::string code_of(const Result<T>& result) {
  return result.ok() ? "ok" : std::string(error_name(result.error().code));
}

TEST(Metadata, IntegersOfEveryWidthConvertWhereTheyFit) {
  HeaderBuilder b;
  b.set_u8("u8", 255);
  b.set_i8("i8", 127);
  b.set_u16("u16", 65535);
  b.set_i16("i16", 32767);
  b.set_u32("u32", Of<uint32_t>::max());
  b.set_i32("i32", Of<int32_t>::max());
  b.set_u64("u64", Of<uint64_t>::max());
  b.set_i64("i64", Of<int64_t>::max());
  b.set_i8("negative", -1);
  const Metadata m = built(b);
  EXPECT_EQ(m.u64("u8").value(), 255u);
  EXPECT_EQ(m.u64("i8").value(), 127u);
  EXPECT_EQ(m.u64("u16").value(), 65535u);
  EXPECT_EQ(m.u64("i16").value(), 32767u);
  EXPECT_EQ(m.u32("u32").value(), Of<uint32_t>::max());
  EXPECT_EQ(m.u32("i32").value(), 0x7FFFFFFFu);
  EXPECT_EQ(m.u64("u64").value(), Of<uint64_t>::max());
  EXPECT_EQ(m.u64("i64").value(), 0x7FFFFFFFFFFFFFFFu);
  EXPECT_EQ(code_of(m.u32("u64")), "gguf_key_range");
  EXPECT_EQ(code_of(m.u32("negative")), "gguf_key_range");
  EXPECT_EQ(code_of(m.u64("negative")), "gguf_key_range");
  EXPECT_EQ(m.find("negative")->as_i64(), -1);
  EXPECT_EQ(m.find("u64")->as_i64(), std::nullopt);
  EXPECT_EQ(m.f32("i8").value(), 127.0f);
}

TEST(Metadata, OtherTypesDoNotConvert) {
  HeaderBuilder b;
  b.set_bool("bool", true);
  b.set_string("string", "7");
  b.set_f32("float", 7.0f);
  b.set_u32("integer", 1);
  b.set_array<uint32_t>("array", std::vector<uint32_t>{7});
  const Metadata m = built(b);
  for (const char* key : {"bool", "string", "float", "array"}) EXPECT_EQ(code_of(m.u32(key)), "gguf_key_type") << key;
  for (const char* key : {"bool", "string", "array"}) EXPECT_EQ(code_of(m.f32(key)), "gguf_key_type") << key;
  for (const char* key : {"integer", "string", "array"}) EXPECT_EQ(code_of(m.boolean(key)), "gguf_key_type") << key;
  for (const char* key : {"bool", "integer", "array"}) EXPECT_EQ(code_of(m.string(key)), "gguf_key_type") << key;
  for (const char* key : {"bool", "string", "array"}) EXPECT_EQ(code_of(m.strings(key)), "gguf_key_type") << key;
  for (const char* key : {"bool", "string", "integer"}) EXPECT_EQ(code_of(m.f32_array(key)), "gguf_key_type") << key;
  EXPECT_TRUE(m.boolean("bool").value());
  EXPECT_EQ(m.string("string").value(), "7");
}

TEST(Metadata, FloatsKeepTheirSpecialValuesAndRefuseWhatTheyCannotHold) {
  HeaderBuilder b;
  b.set_f64("large", 1e39);
  b.set_f64("largest", Of<float>::max());
  b.set_f64("infinite", Of<double>::infinity());
  b.set_f64("nan", Of<double>::quiet_NaN());
  const Metadata m = built(b);
  EXPECT_EQ(code_of(m.f32("large")), "gguf_key_range");
  EXPECT_EQ(m.f32("largest").value(), Of<float>::max());
  EXPECT_TRUE(std::isinf(m.f32("infinite").value()));
  EXPECT_TRUE(std::isnan(m.f32("nan").value()));
}

TEST(Metadata, FallbackStandsForAbsentKeysOnly) {
  HeaderBuilder b;
  b.set_string("text", "x");
  const Metadata m = built(b);
  EXPECT_EQ(m.u32_or("absent", 7).value(), 7u);
  EXPECT_EQ(m.u64_or("absent", 7).value(), 7u);
  EXPECT_EQ(m.f32_or("absent", 0.5f).value(), 0.5f);
  EXPECT_EQ(m.boolean_or("absent", true).value(), true);
  EXPECT_EQ(m.string_or("absent", "y").value(), "y");
  EXPECT_EQ(m.string_or("text", "y").value(), "x");
  EXPECT_EQ(code_of(m.u32_or("text", 7)), "gguf_key_type");
  EXPECT_EQ(code_of(m.boolean_or("text", true)), "gguf_key_type");
}

TEST(Metadata, ErrorsNameKeyByteAndTypes) {
  HeaderBuilder b;
  b.set_string("llama.block_count", "many");
  b.set_array<int8_t>("numbers", std::vector<int8_t>{1, -2});
  b.set_array<int64_t>("wide", std::vector<int64_t>{1, int64_t{1} << 40});
  const Metadata m = built(b);
  // 24 bytes of counts, 8 of length, 17 of name, 4 of type, 8 of length: the text begins at byte 61.
  EXPECT_EQ(m.u32("llama.block_count").error().message,
            "gguf: key 'llama.block_count' at byte 61: is string, u32 is needed");
  EXPECT_EQ(m.u32("absent").error().message, "gguf: key 'absent': is not in the file");
  EXPECT_EQ(code_of(m.u32("absent")), "gguf_key_missing");
  EXPECT_NE(m.string("numbers").error().message.find("is array of i8, string is needed"), std::string::npos);
  EXPECT_NE(m.i32_array("wide").error().message.find("element 1: its number does not fit i32"), std::string::npos);
}

TEST(Metadata, ArraysComeWhole) {
  HeaderBuilder b;
  b.set_array<float>("floats", std::vector<float>{1.5f, -2.0f});
  b.set_array<uint8_t>("bytes", std::vector<uint8_t>{0, 255});
  b.set_array<double>("doubles", std::vector<double>{0.25});
  b.set_array<int32_t>("none", {});
  b.set_strings("texts", std::vector<std::string>{"", "one", std::string("t\0o", 3)});
  b.set_strings("no texts", std::vector<std::string>{});
  const Metadata m = built(b);
  EXPECT_EQ(m.f32_array("floats").value(), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(m.f32_array("doubles").value(), std::vector<float>{0.25f});
  EXPECT_EQ(m.i32_array("bytes").value(), (std::vector<int32_t>{0, 255}));
  EXPECT_EQ(m.f32_array("bytes").value(), (std::vector<float>{0, 255}));
  EXPECT_EQ(code_of(m.i32_array("floats")), "gguf_key_type");
  EXPECT_TRUE(m.i32_array("none").value().empty());
  const StringArrayView texts = m.strings("texts").value();
  EXPECT_EQ(std::vector<std::string_view>(texts.begin(), texts.end()),
            (std::vector<std::string_view>{"", "one", std::string_view("t\0o", 3)}));
  EXPECT_EQ(texts.size(), 3u);
  const StringArrayView no_texts = m.strings("no texts").value();
  EXPECT_EQ(no_texts.begin(), no_texts.end());
}

TEST(ValueType, IdsNamesAndSizes) {
  for (uint32_t id = 0; id <= 12; id++) {
    const auto type = value_type_from_id(id);
    ASSERT_TRUE(type);
    EXPECT_EQ(static_cast<uint32_t>(*type), id);
    EXPECT_FALSE(value_type_name(*type).empty());
  }
  EXPECT_FALSE(value_type_from_id(13));
  EXPECT_FALSE(value_type_from_id(0xFFFFFFFF));
  EXPECT_EQ(value_type_bytes(ValueType::u8), 1u);
  EXPECT_EQ(value_type_bytes(ValueType::i16), 2u);
  EXPECT_EQ(value_type_bytes(ValueType::f32), 4u);
  EXPECT_EQ(value_type_bytes(ValueType::boolean), 1u);
  EXPECT_EQ(value_type_bytes(ValueType::f64), 8u);
  EXPECT_EQ(value_type_bytes(ValueType::string), 0u);
  EXPECT_EQ(value_type_bytes(ValueType::array), 0u);
}

}  // namespace
}  // namespace rocmforge::gguf
