#include "gguf/writer.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "gguf/raw_gguf.h"
#include "gguf/reader.h"
#include "support/support.h"

namespace rocmforge::gguf {
namespace {

using rocmforge::testing::data_path;
using rocmforge::testing::read_text;
using rocmforge::testing::seeded_rng;
using rocmforge::testing::TempDir;
using Rng = std::mt19937_64;

TEST(Writer, WritesTheBytesDrawnByHand) {
  HeaderBuilder builder;
  builder.set_string("general.architecture", "llama");
  builder.set_u32("llama.block_count", 2);
  builder.add_tensor("a.weight", DType::f32, {16});
  builder.add_tensor("b.weight", DType::f16, {16, 4});
  const testing::RawGguf expected = testing::small_gguf();
  const auto encoded = builder.encode();
  ASSERT_TRUE(encoded.ok()) << encoded.error().message;
  EXPECT_EQ(encoded->file_bytes, expected.file().size());
  EXPECT_EQ(encoded->bytes, expected.file().substr(0, encoded->bytes.size()));

  const TempDir folder;
  const std::string path = folder.file("m.gguf");
  GgufWriter writer = GgufWriter::create(path, builder, {.durable = false}).value();
  EXPECT_TRUE(writer.write(std::vector<std::byte>(64)).ok());
  EXPECT_TRUE(writer.write(std::vector<std::byte>(100)).ok());
  EXPECT_TRUE(writer.write(std::vector<std::byte>(28)).ok());
  EXPECT_FALSE(std::filesystem::exists(path));  // not before finish()
  EXPECT_TRUE(writer.finish().ok());
  EXPECT_EQ(read_text(path), expected.file());
}

TEST(Writer, SettingAKeyAgainReplacesItInPlace) {
  HeaderBuilder builder;
  builder.set_u32("a", 1);
  builder.set_u32("b", 2);
  builder.set_string("a", "text");
  const Metadata metadata = builder.encode().value().header.metadata;
  ASSERT_EQ(metadata.entries().size(), 2u);
  EXPECT_EQ(metadata.entries()[0].key, "a");
  EXPECT_EQ(metadata.string("a").value(), "text");
}

TEST(Writer, CopyLeavesSplitKeysBehind) {
  HeaderBuilder from;
  from.set_u32("general.alignment", 64);
  from.set_u16("split.no", 0);
  from.set_u16("split.count", 1);
  from.set_i32("split.tensors.count", 0);
  HeaderBuilder to;
  to.copy(from.encode().value().header.metadata);
  const Header header = to.encode().value().header;
  EXPECT_EQ(header.metadata.entries().size(), 1u);
  EXPECT_EQ(header.alignment, 64u);
}

TEST(Writer, RefusesWhatTheReaderWouldRefuse) {
  const auto code = [](auto change) {
    HeaderBuilder builder;
    change(builder);
    const auto encoded = builder.encode();
    return encoded.ok() ? "ok" : std::string(error_name(encoded.error().code));
  };
  EXPECT_EQ(code([](HeaderBuilder& b) { b.set_u32("", 1); }), "gguf_bad_key");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.set_u32("\xFF", 1); }), "gguf_bad_key");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.set_u32("general.alignment", 13); }), "gguf_bad_alignment");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.set_u64("general.alignment", 32); }), "gguf_bad_alignment");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.set_string("k", std::string((16u << 20) + 1, 'x')); }),
            "gguf_string_too_long");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.add_tensor("", DType::f32, {1}); }), "gguf_bad_tensor_name");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.add_tensor(std::string(64, 'n'), DType::f32, {1}); }),
            "gguf_bad_tensor_name");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.add_tensor("t", DType::f32, {0}); }), "gguf_bad_dimension");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.add_tensor("t", DType::f32, std::initializer_list<uint64_t>{}); }),
            "gguf_bad_dimension_count");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.add_tensor("t", DType::f32, {1, 1, 1, 1, 1}); }), "gguf_bad_dimension_count");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.add_tensor("t", DType::q4_k, {100}); }), "gguf_ragged_row");
  EXPECT_EQ(code([](HeaderBuilder& b) { b.add_tensor("t", DType::q8_1, {32}); }), "gguf_bad_tensor_type");
  EXPECT_EQ(code([](HeaderBuilder& b) {
              b.add_tensor("t", DType::i8, {1});
              b.add_tensor("t", DType::i8, {1});
            }),
            "gguf_duplicate_tensor");
  EXPECT_EQ(code([](HeaderBuilder& b) {
              for (const char* name : {"a", "b", "c"}) b.add_tensor(name, DType::i8, {uint64_t{1} << 62, 1});
              b.add_tensor("d", DType::i8, {(uint64_t{1} << 62) + 64});
            }),
            "gguf_tensor_too_large");
}

TEST(Writer, CountsTheBytesOfEachTensor) {
  const TempDir folder;
  HeaderBuilder builder;
  builder.add_tensor("t", DType::f32, {4});
  const std::string path = folder.file("m.gguf");
  {
    GgufWriter writer = GgufWriter::create(path, builder, {.durable = false}).value();
    EXPECT_EQ(writer.write(std::vector<std::byte>(17)).error().code, ErrorCode::gguf_write);
    EXPECT_TRUE(writer.write(std::vector<std::byte>(15)).ok());
    EXPECT_EQ(writer.finish().error().code, ErrorCode::gguf_write);  // one byte is missing
    EXPECT_TRUE(writer.write(std::vector<std::byte>(1)).ok());
    EXPECT_EQ(writer.write(std::vector<std::byte>(1)).error().code, ErrorCode::gguf_write);
    EXPECT_TRUE(writer.finish().ok());
  }
  EXPECT_TRUE(GgufFile::open(path).ok());
}

TEST(Writer, LeavesNothingBehindWithoutFinish) {
  const TempDir folder;
  HeaderBuilder builder;
  builder.add_tensor("t", DType::f32, {4});
  {
    const GgufWriter writer = GgufWriter::create(folder.file("m.gguf"), builder, {.durable = false}).value();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_FALSE(GgufWriter::create(folder.file("no/such/folder.gguf"), builder).ok());
}

TEST(Writer, SparseFilesHaveTheirLengthAndNoBlocks) {
  const TempDir folder;
  HeaderBuilder builder;
  builder.add_tensor("t", DType::f32, {uint64_t{1} << 30});
  const std::string path = folder.file("m.gguf");
  GgufWriter writer = GgufWriter::create(path, builder, {.durable = false}).value();
  EXPECT_TRUE(writer.finish_sparse().ok());
  EXPECT_EQ(std::filesystem::file_size(path), writer.file_bytes());
  EXPECT_GT(writer.file_bytes(), uint64_t{4} << 30);
  EXPECT_TRUE(GgufFile::open(path).ok());
}

TEST(Writer, WritesToADevice) {
  HeaderBuilder builder;
  builder.add_tensor("t", DType::f32, {4});
  GgufWriter writer = GgufWriter::create("/dev/null", builder, {.durable = false}).value();
  EXPECT_TRUE(writer.write(std::vector<std::byte>(16)).ok());
  EXPECT_TRUE(writer.finish().ok());
}

std::string random_text(Rng& rng, size_t most) {
  std::string text(rng() % (most + 1), '\0');
  for (char& c : text) c = static_cast<char>(rng());
  return text;
}

template <class T>
void set_random_array(HeaderBuilder& builder, Rng& rng, std::string_view key) {
  const size_t n = rng() % 20;
  const auto numbers = std::make_unique<T[]>(n);
  for (size_t i = 0; i < n; i++) numbers[i] = static_cast<T>(rng());
  builder.set_array<T>(key, std::span<const T>(numbers.get(), n));
}

void set_random_value(HeaderBuilder& b, Rng& rng, std::string_view key) {
  switch (rng() % 25) {
    case 0:
      return b.set_u8(key, static_cast<uint8_t>(rng()));
    case 1:
      return b.set_i8(key, static_cast<int8_t>(rng()));
    case 2:
      return b.set_u16(key, static_cast<uint16_t>(rng()));
    case 3:
      return b.set_i16(key, static_cast<int16_t>(rng()));
    case 4:
      return b.set_u32(key, static_cast<uint32_t>(rng()));
    case 5:
      return b.set_i32(key, static_cast<int32_t>(rng()));
    case 6:
      return b.set_f32(key, static_cast<float>(rng()));
    case 7:
      return b.set_bool(key, rng() % 2 == 0);
    case 8:
      return b.set_u64(key, rng());
    case 9:
      return b.set_i64(key, static_cast<int64_t>(rng()));
    case 10:
      return b.set_f64(key, static_cast<double>(rng()));
    case 11:
      return b.set_string(key, random_text(rng, 100));
    case 12:
      return set_random_array<uint8_t>(b, rng, key);
    case 13:
      return set_random_array<int8_t>(b, rng, key);
    case 14:
      return set_random_array<uint16_t>(b, rng, key);
    case 15:
      return set_random_array<int16_t>(b, rng, key);
    case 16:
      return set_random_array<uint32_t>(b, rng, key);
    case 17:
      return set_random_array<int32_t>(b, rng, key);
    case 18:
      return set_random_array<float>(b, rng, key);
    case 19:
      return set_random_array<bool>(b, rng, key);
    case 20:
      return set_random_array<uint64_t>(b, rng, key);
    case 21:
      return set_random_array<int64_t>(b, rng, key);
    case 22:
      return set_random_array<double>(b, rng, key);
    default: {
      std::vector<std::string> texts(rng() % 20);
      for (std::string& text : texts) text = random_text(rng, 30);
      return b.set_strings(key, texts);
    }
  }
}

void expect_same(const Metadata& got, const Metadata& expected) {
  ASSERT_EQ(got.entries().size(), expected.entries().size());
  for (size_t i = 0; i < got.entries().size(); i++) {
    const auto& [key, value] = got.entries()[i];
    const auto& [expected_key, expected_value] = expected.entries()[i];
    EXPECT_EQ(key, expected_key);
    EXPECT_EQ(value.type(), expected_value.type());
    EXPECT_EQ(value.element_type(), expected_value.element_type());
    EXPECT_EQ(value.n_elements(), expected_value.n_elements());
    EXPECT_EQ(as_text(value.bytes()), as_text(expected_value.bytes()));
  }
}

// Random metadata, tensors and data; written in random pieces, read back, copied, written and read again.
TEST(Writer, ReadingGivesBackWhatWasWritten) {
  Rng rng = seeded_rng();
  const TempDir folder;
  const std::string path = folder.file("m.gguf");
  for (int round = 0; round < 200; round++) {
    HeaderBuilder builder;
    const size_t n_keys = rng() % 30;
    for (size_t i = 0; i < n_keys; i++) set_random_value(builder, rng, fmt::format("key.{}", i));
    const uint32_t unit = 1u << rng() % 17;
    if (rng() % 2 == 0) builder.set_u32("general.alignment", unit);
    std::vector<std::string> data;
    const size_t n_tensors = rng() % 8;
    for (size_t i = 0; i < n_tensors; i++) {
      const auto types = all_dtypes();
      const DTypeInfo& type = types[rng() % types.size()];
      if (type.use == DTypeUse::activation) continue;
      const uint64_t n_blocks = 1 + rng() % 3;
      const uint64_t n_rows = 1 + rng() % 5;
      builder.add_tensor(fmt::format("t{}", i), type.dtype, {n_blocks * type.block_elements, n_rows});
      data.push_back(std::string(n_blocks * n_rows * type.block_bytes, static_cast<char>('A' + i)));
    }

    auto created = GgufWriter::create(path, builder, {.durable = false});
    ASSERT_TRUE(created.ok()) << created.error().message;
    GgufWriter writer = std::move(created).value();
    for (const std::string& bytes : data) {
      for (size_t at = 0; at < bytes.size();) {
        const size_t n = 1 + rng() % (bytes.size() - at);
        ASSERT_TRUE(writer.write(as_bytes(std::string_view(bytes).substr(at, n))).ok());
        at += n;
      }
    }
    ASSERT_TRUE(writer.finish().ok());

    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->version(), 3u);
    EXPECT_EQ(file->file(0).size(), writer.file_bytes());
    expect_same(file->metadata(), builder.encode().value().header.metadata);
    ASSERT_EQ(file->tensors().size(), data.size());
    HeaderBuilder again;
    again.copy(file->metadata());
    for (size_t i = 0; i < data.size(); i++) {
      const TensorInfo& info = file->tensors()[i];
      EXPECT_EQ(info.offset, writer.tensors()[i].offset);
      EXPECT_EQ(info.offset % file->alignment(), 0u);
      ASSERT_EQ(info.n_bytes, data[i].size());
      std::string got(data[i].size(), '\0');
      ASSERT_TRUE(file->file(0).read_at(std::as_writable_bytes(std::span(got)), info.offset).ok());
      EXPECT_EQ(got, data[i]);
      again.add_tensor(info.name, info.dtype, std::span(info.dims).first(info.n_dims));
    }
    EXPECT_EQ(again.encode().value().bytes, builder.encode().value().bytes);
  }
}

// Parity: a header that llama.cpp wrote, read and written again, is the same to the byte.
void expect_same_bytes_again(const Header& header) {
  HeaderBuilder builder;
  builder.copy(header.metadata);
  for (const TensorInfo& info : header.tensors) {
    builder.add_tensor(info.name, info.dtype, std::span(info.dims).first(info.n_dims));
  }
  const auto encoded = builder.encode();
  ASSERT_TRUE(encoded.ok()) << encoded.error().message;
  EXPECT_TRUE(*encoded->header.bytes == *header.bytes);
}

TEST(Writer, RewritesAHeaderOfAnotherWriterToTheByte) {
  const std::string bytes = read_text(data_path("gguf/llama-Q4_K_M.header"));
  const auto header = parse_header(memory_source(as_bytes(bytes), 1'163'584, "test"));
  ASSERT_TRUE(header.ok()) << header.error().message;
  expect_same_bytes_again(*header);
}

TEST(Writer, RewritesEveryReferenceHeaderToTheByte) {
  RF_NEED_SHARED(goldens, "goldens");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(goldens)) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename());
    const std::string bytes = read_text(entry.path());
    const auto header = parse_header(memory_source(as_bytes(bytes), bytes.size(), "test"));
    ASSERT_TRUE(header.ok()) << header.error().message;
    expect_same_bytes_again(*header);
  }
}

}  // namespace
}  // namespace rocmforge::gguf
