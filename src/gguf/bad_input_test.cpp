// Files that must be refused and files that must be read, one by one (bad_input_cases.h), and what each may cost.

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "gguf/bad_input_cases.h"
#include "gguf/header.h"
#include "gguf/header_invariants.h"
#include "support/heap_meter.h"

namespace rocmforge::gguf {
namespace {

using rocmforge::testing::HeapMeter;

// Parses, and holds the parser to its price: 4 x the bytes of the file's front + 64 MiB, and 2 seconds.
Result<Header> parse_metered(const std::string& bytes, const Limits& limits = {}) {
  const HeaderSource source = memory_source(as_bytes(bytes), bytes.size(), "test");
  const auto begin = std::chrono::steady_clock::now();
  const HeapMeter meter;
  auto header = parse_header(source, limits);
  EXPECT_LE(meter.peak_bytes(), 4 * bytes.size() + (64u << 20));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  return header;
}

TEST(BadInput, IsRefusedWithItsOwnCode) {
  std::set<std::string> names;
  const auto cases = testing::reject_cases();
  for (const testing::RejectCase& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(names.insert(c.name).second) << "two cases of one name";
    const auto header = parse_metered(c.file.file());
    ASSERT_FALSE(header.ok());
    EXPECT_EQ(error_name(header.error().code), error_name(c.code)) << header.error().message;
    EXPECT_TRUE(header.error().message.starts_with("gguf: test: ")) << header.error().message;
    EXPECT_NE(header.error().message.find(" at byte "), std::string::npos) << header.error().message;
    EXPECT_LT(header.error().message.size(), 400u);
  }
  EXPECT_GE(cases.size(), 220u);
  RecordProperty("cases", static_cast<int>(cases.size()));
}

TEST(BadInput, GoodFilesAreRead) {
  std::set<std::string> names;
  const auto cases = testing::accept_cases();
  for (const testing::AcceptCase& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(names.insert(c.name).second) << "two cases of one name";
    const std::string bytes = c.file.file();
    const auto header = parse_metered(bytes);
    ASSERT_TRUE(header.ok()) << header.error().message;
    EXPECT_EQ(testing::broken_invariant(*header, bytes.size()), "");
    EXPECT_EQ(header->metadata.entries().size(), c.file.keys.size());
    EXPECT_EQ(header->tensors.size(), c.file.tensors.size());
    EXPECT_EQ(header->bytes->size(), c.file.header().bytes().size());
  }
  EXPECT_GE(cases.size(), 40u);
  RecordProperty("cases", static_cast<int>(cases.size()));
}

TEST(BadInput, MessageNamesFieldAndByte) {
  const auto message = [](auto change) {
    testing::RawGguf file = testing::small_gguf();
    change(file);
    return parse_metered(file.file()).error().message;
  };
  EXPECT_EQ(message([](auto& f) { f.version = 4; }),
            "gguf: test: version at byte 4: version 4 is newer than the newest known, 3");
  EXPECT_EQ(message([](auto& f) { f.version = 0x03000000; }),
            "gguf: test: version at byte 4: version 3 in big-endian order; only little-endian files are read");
  EXPECT_EQ(message([](auto& f) { f.keys[1] = {"general.alignment", testing::raw_u32(13)}; }),
            "gguf: test: key 'general.alignment': value at byte 98: alignment 13 is not a power of two up to 65536");
  EXPECT_EQ(message([](auto& f) { f.keys[0].name = ""; }),
            "gguf: test: key number 0: name at byte 32: the name is empty");
  EXPECT_EQ(message([](auto& f) { f.tensors[1].type = 4; }),
            "gguf: test: tensor 'b.weight': type at byte 178: 4 (q4_2) was removed from the format; convert the model "
            "again");
  EXPECT_EQ(message([](auto& f) { f.tensors[1].offset = 32; }),
            "gguf: test: tensor 'b.weight': offset at byte 182: its data begins at byte 224 of the file, inside tensor "
            "'a.weight', which ends at 256");
}

TEST(BadInput, VersionsHaveDistinctMessages) {
  std::set<std::string> messages;
  for (const uint32_t version : {0u, 1u, 4u, 0x03000000u, 0x02000000u}) {
    testing::RawGguf file = testing::small_gguf();
    file.version = version;
    messages.insert(parse_metered(file.file()).error().message);
  }
  EXPECT_EQ(messages.size(), 5u);
}

// What a file says in a message cannot steer a terminal.
TEST(BadInput, ControlCharactersInNamesAreEscaped) {
  testing::RawGguf file = testing::small_gguf();
  file.tensors[0].name = "\x1B[2J\n";
  file.tensors[0].type = 99;
  EXPECT_EQ(parse_metered(file.file()).error().message,
            "gguf: test: tensor '\\x1b[2J\\x0a': type at byte 127: 99 is no tensor type");
}

// A small file that promises much: the promise costs nothing.
TEST(BadInput, PromisesAreNotAllocated) {
  for (const uint64_t n : {uint64_t{1} << 20, uint64_t{16} << 20, uint64_t{1} << 30}) {
    testing::RawGguf file;
    file.keys.push_back({"k", testing::raw_array(10, n, std::string(1024, '\0'))});
    const std::string bytes = file.file();
    const HeapMeter meter;
    EXPECT_FALSE(parse_header(memory_source(as_bytes(bytes), bytes.size(), "test")).ok());
    EXPECT_LT(meter.peak_bytes(), 1u << 20);
  }
}

// Each limit: exactly reached is read, passed by one is refused.
TEST(BadInput, LimitsHoldToTheUnit) {
  testing::RawGguf file = testing::small_gguf();
  file.keys.push_back({"s", testing::raw_string("12345678")});
  file.keys.push_back({"a", testing::raw_array(0, 9, "123456789")});
  const std::string bytes = file.file();
  const uint64_t n_header_bytes = file.header().bytes().size();

  const std::tuple<uint64_t Limits::*, uint64_t, ErrorCode> limits[] = {
      {&Limits::max_keys, 4, ErrorCode::gguf_too_many_keys},
      {&Limits::max_tensors, 2, ErrorCode::gguf_too_many_tensors},
      {&Limits::max_key_bytes, 20, ErrorCode::gguf_bad_key},
      {&Limits::max_tensor_name_bytes, 8, ErrorCode::gguf_bad_tensor_name},
      {&Limits::max_string_bytes, 8, ErrorCode::gguf_string_too_long},
      {&Limits::max_array_elements, 9, ErrorCode::gguf_array_too_long},
      {&Limits::max_metadata_bytes, n_header_bytes, ErrorCode::gguf_metadata_too_large},
  };
  for (const auto& [member, exact, code] : limits) {
    Limits at;
    at.*member = exact;
    EXPECT_TRUE(parse_metered(bytes, at).ok()) << error_name(code);
    Limits below;
    below.*member = exact - 1;
    const auto refused = parse_metered(bytes, below);
    ASSERT_FALSE(refused.ok()) << error_name(code);
    EXPECT_EQ(error_name(refused.error().code), error_name(code));
    below.*member = 0;
    EXPECT_EQ(error_name(parse_metered(bytes, below).error().code), error_name(code));
  }
}

}  // namespace
}  // namespace rocmforge::gguf
