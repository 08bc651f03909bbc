// Five good files, damaged in every systematic way. Each damaged file is either refused with an error that names a
// byte, or read into a header whose invariants hold; never anything else.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>

#include "gguf/header.h"
#include "gguf/header_invariants.h"
#include "gguf/raw_gguf.h"
#include "support/heap_meter.h"

namespace rocmforge::gguf {
namespace {

using testing::RawBytes;
using testing::RawGguf;

constexpr std::array<uint64_t, 18> kBoundaries = {0,
                                                  1,
                                                  2,
                                                  1ull << 15,
                                                  1ull << 16,
                                                  (1ull << 31) - 1,
                                                  1ull << 31,
                                                  (1ull << 32) - 1,
                                                  1ull << 32,
                                                  (1ull << 32) + 1,
                                                  1ull << 61,
                                                  1ull << 62,
                                                  (1ull << 63) - 1,
                                                  1ull << 63,
                                                  0ull - 64,
                                                  0ull - 32,
                                                  0ull - 16,
                                                  0ull - 1};

struct Tally {
  size_t n_tried = 0;
  size_t n_refused = 0;
};

::testing::AssertionResult survives(const std::string& bytes, Tally& tally) {
  const auto source = memory_source(as_bytes(bytes), bytes.size(), "test");
  const auto begin = std::chrono::steady_clock::now();
  const rocmforge::testing::HeapMeter meter;
  const auto header = parse_header(source);
  const size_t peak = meter.peak_bytes();
  const auto took = std::chrono::steady_clock::now() - begin;
  tally.n_tried++;
  if (peak > 4 * bytes.size() + (64u << 20)) return ::testing::AssertionFailure() << "took " << peak << " bytes";
  if (took > std::chrono::seconds(2)) return ::testing::AssertionFailure() << "took more than 2 s";
  if (header.ok()) {
    const std::string broken = testing::broken_invariant(*header, bytes.size());
    if (!broken.empty()) return ::testing::AssertionFailure() << "accepted " << broken;
    return ::testing::AssertionSuccess();
  }
  tally.n_refused++;
  const Error& error = header.error();
  if (!error_name(error.code).starts_with("gguf_") || error.message.find(" at byte ") == std::string::npos) {
    return ::testing::AssertionFailure() << "refused vaguely: " << error.message;
  }
  return ::testing::AssertionSuccess();
}

void set_field(std::string& bytes, const RawBytes::Field& field, uint64_t value) {
  std::memcpy(bytes.data() + field.offset, &value, field.n_bytes);
}

TEST(Mutation, EveryTruncationOfTheHeaderIsRefused) {
  Tally tally;
  for (const auto& [name, raw] : testing::seed_files()) {
    const std::string whole = raw.file();
    const size_t n_header_bytes = raw.header().bytes().size();
    for (size_t n = 0; n <= n_header_bytes; n++) {
      ASSERT_TRUE(survives(whole.substr(0, n), tally)) << name << " cut at " << n;
    }
  }
  EXPECT_EQ(tally.n_refused, tally.n_tried);  // each seed has tensors, so the header alone is not enough
  EXPECT_GE(tally.n_tried, 8'000u);
}

TEST(Mutation, EveryTruncationOfTheDataIsRefused) {
  for (const auto& [name, raw] : testing::seed_files()) {
    const std::string whole = raw.file();
    uint64_t n_last = 0;  // where the last tensor's data ends
    const auto header = parse_header(memory_source(as_bytes(whole), whole.size(), "test"));
    ASSERT_TRUE(header.ok());
    for (const TensorInfo& info : header->tensors) n_last = std::max(n_last, info.offset + info.n_bytes);
    for (size_t n = raw.header().bytes().size(); n < n_last; n++) {
      const auto cut = parse_header(memory_source(as_bytes(whole), n, "test"));
      ASSERT_FALSE(cut.ok()) << name << " cut at " << n;
      ASSERT_EQ(cut.error().code, ErrorCode::gguf_tensor_out_of_file) << cut.error().message;
    }
    EXPECT_TRUE(parse_header(memory_source(as_bytes(whole), n_last, "test")).ok()) << name;
  }
}

TEST(Mutation, EveryByteWithEightValuesIsSurvived) {
  Tally tally;
  for (const auto& [name, raw] : testing::seed_files()) {
    std::string bytes = raw.file();
    for (size_t at = 0; at < raw.header().bytes().size(); at++) {
      const auto old = static_cast<uint8_t>(bytes[at]);
      for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF, old + 1, old - 1, old ^ 0x20}) {
        bytes[at] = static_cast<char>(value);
        ASSERT_TRUE(survives(bytes, tally)) << name << " byte " << at << " = " << value;
      }
      bytes[at] = static_cast<char>(old);
    }
  }
  EXPECT_GE(tally.n_tried, 60'000u);
  EXPECT_GT(tally.n_refused, tally.n_tried / 4);
  EXPECT_LT(tally.n_refused, tally.n_tried);  // a letter of a name may change
}

TEST(Mutation, EveryIntegerFieldWithBoundaryValuesIsSurvived) {
  Tally tally;
  size_t n_fields = 0;
  for (const auto& [name, raw] : testing::seed_files()) {
    const std::string whole = raw.file();
    const RawBytes header = raw.header();
    n_fields += header.fields().size();
    for (const RawBytes::Field& field : header.fields()) {
      for (const uint64_t value : kBoundaries) {
        std::string bytes = whole;
        set_field(bytes, field, value);
        ASSERT_TRUE(survives(bytes, tally)) << name << " " << field.name << " at " << field.offset << " = " << value;
      }
    }
  }
  EXPECT_EQ(tally.n_tried, n_fields * kBoundaries.size());
  EXPECT_GT(tally.n_refused, tally.n_tried / 2);
}

// Two wrong fields can agree with each other where one alone would be caught.
TEST(Mutation, EveryPairOfIntegerFieldsIsSurvived) {
  Tally tally;
  RawGguf raw = testing::small_gguf();
  raw.keys.push_back({"general.alignment", testing::raw_u32(32)});
  raw.keys.push_back({"s", testing::raw_strings({"a", "bc"})});
  raw.keys.push_back({"n", testing::raw_array(10, 2, std::string(16, '\0'))});
  raw.tensors.push_back({"c", {256, 2, 1, 1}, 12, 192});
  raw.n_data_bytes += 288;
  const std::string whole = raw.file();
  const RawBytes header = raw.header();
  const auto& fields = header.fields();
  for (size_t i = 0; i < fields.size(); i++) {
    for (size_t j = i + 1; j < fields.size(); j++) {
      for (const uint64_t first : kBoundaries) {
        std::string bytes = whole;
        set_field(bytes, fields[i], first);
        for (const uint64_t second : kBoundaries) {
          set_field(bytes, fields[j], second);
          ASSERT_TRUE(survives(bytes, tally))
              << fields[i].name << " = " << first << ", " << fields[j].name << " = " << second;
        }
      }
    }
  }
  EXPECT_GE(tally.n_tried, 200'000u);
}

}  // namespace
}  // namespace rocmforge::gguf
