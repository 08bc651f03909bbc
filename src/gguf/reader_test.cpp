#include "gguf/reader.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "gguf/header_invariants.h"
#include "gguf/raw_gguf.h"
#include "gguf/writer.h"
#include "support/support.h"

namespace rocmforge::gguf {
namespace {

using rocmforge::testing::TempDir;
using testing::RawGguf;

std::string code_at(const std::string& path) {
  const auto file = GgufFile::open(path);
  return file.ok() ? "ok" : std::string(error_name(file.error().code));
}

TEST(Reader, ReadsASmallFile) {
  const TempDir folder;
  const auto file = GgufFile::open(folder.write("m.gguf", testing::small_gguf().file()));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_EQ(file->n_shards(), 1u);
  EXPECT_EQ(file->header_bytes(), testing::small_gguf().header().bytes().size());
  EXPECT_EQ(file->weight_bytes(), 192u);
  EXPECT_EQ(file->metadata().string("general.architecture").value(), "llama");
  EXPECT_EQ(file->metadata().u32("llama.block_count").value(), 2u);
  ASSERT_EQ(file->tensors().size(), 2u);
  const TensorInfo* b = file->find_tensor("b.weight");
  ASSERT_EQ(b, &file->tensors()[1]);
  EXPECT_EQ(b->dtype, DType::f16);
  EXPECT_EQ(b->n_dims, 2u);
  EXPECT_EQ(b->dims, (std::array<uint64_t, 4>{16, 4, 1, 1}));
  EXPECT_EQ(b->n_elements, 64u);
  EXPECT_EQ(b->n_bytes, 128u);
  EXPECT_EQ(b->offset, 192u + 64u);  // from the start of the file: the data begins at byte 192
  EXPECT_EQ(b->shard, 0u);
  EXPECT_EQ(file->find_tensor("absent"), nullptr);
  EXPECT_EQ(file->tensor("absent").error().code, ErrorCode::gguf_tensor_missing);
  EXPECT_EQ(file->tensor("a.weight").value(), &file->tensors()[0]);
}

TEST(Reader, ViewsSurviveAMove) {
  const TempDir folder;
  auto opened = GgufFile::open(folder.write("m.gguf", testing::small_gguf().file()));
  GgufFile moved = std::move(opened).value();
  EXPECT_EQ(moved.metadata().string("general.architecture").value(), "llama");
  EXPECT_EQ(moved.find_tensor("a.weight")->name, "a.weight");
}

TEST(Reader, RefusesWhatIsNoRegularFileWithoutWaiting) {
  const TempDir folder;
  EXPECT_EQ(code_at(folder.file("absent.gguf")), "file_not_found");
  EXPECT_EQ(code_at(folder.path()), "file_not_regular");
  EXPECT_EQ(code_at("/dev/null"), "file_not_regular");
  EXPECT_EQ(code_at("/dev/zero"), "file_not_regular");
  EXPECT_EQ(code_at(folder.write("empty.gguf", "")), "file_empty");
  ASSERT_EQ(::mkfifo(folder.file("pipe.gguf").c_str(), 0600), 0);
  EXPECT_EQ(code_at(folder.file("pipe.gguf")), "file_not_regular");
  for (const char* target : {"/dev/zero", "/dev/random", "pipe.gguf", "."}) {
    const std::string link = folder.file("link.gguf");
    std::filesystem::remove(link);
    std::filesystem::create_symlink(target, link);
    EXPECT_EQ(code_at(link), "file_not_regular") << target;
  }
}

TEST(Reader, ErrorsNameTheFile) {
  const TempDir folder;
  const std::string path = folder.write("m.gguf", "GGUF");
  EXPECT_EQ(GgufFile::open(path).error().message,
            fmt::format("gguf: file '{}': version at byte 4: needs 4 bytes, the file ends after 0", path));
  const std::string empty = folder.write("e.gguf", "");
  EXPECT_EQ(GgufFile::open(empty).error().message, fmt::format("gguf: file '{}': is empty", empty));
}

// Reads go forward in pieces of 64 and then 256 KiB, no byte twice, none past the piece that holds the header's end.
TEST(Reader, ReadsTheHeaderOnceAndNoData) {
  const TempDir folder;
  for (const uint64_t n_text : {100u, 65'000u, 70'000u, 1'000'000u}) {
    HeaderBuilder builder;
    builder.set_string("filler", std::string(n_text, 'x'));
    builder.add_tensor("t", DType::f32, {1 << 20});
    const std::string path = folder.file("m.gguf");
    ASSERT_TRUE(GgufWriter::create(path, builder, {.durable = false}).value().finish_sparse().ok());
    uint64_t end = 0;
    FileCalls calls;
    calls.pread = [&](int fd, void* to, size_t n, off_t at) {
      EXPECT_EQ(static_cast<uint64_t>(at), end);
      EXPECT_LE(n, end == 0 ? 64u << 10 : 256u << 10);
      end += n;
      return ::pread(fd, to, n, at);
    };
    const auto file = GgufFile::open(path, {}, &calls);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_LT(end, file->header_bytes() + (256u << 10));
  }
}

TEST(Reader, ShortReadsAreContinued) {
  const TempDir folder;
  const std::string path = folder.write("m.gguf", testing::small_gguf().file());
  FileCalls calls;
  calls.pread = [](int fd, void* to, size_t n, off_t at) { return ::pread(fd, to, std::min<size_t>(n, 7), at); };
  const auto file = GgufFile::open(path, {}, &calls);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2u);
}

// The nth read fails, for every n: an error value, and the next open works.
TEST(Reader, FailingReadsAreErrors) {
  const TempDir folder;
  HeaderBuilder builder;
  builder.set_string("filler", std::string(1'000'000, 'x'));
  const std::string path = folder.file("m.gguf");
  ASSERT_TRUE(GgufWriter::create(path, builder, {.durable = false}).value().finish().ok());
  for (const bool truncated : {false, true}) {
    bool failed = true;
    for (int n = 0; failed; n++) {
      int n_calls = 0;
      FileCalls calls;
      calls.pread = [&](int fd, void* to, size_t n_bytes, off_t at) -> ssize_t {
        if (n_calls++ != n) return ::pread(fd, to, n_bytes, at);
        if (truncated) return 0;
        errno = EIO;
        return -1;
      };
      const auto file = GgufFile::open(path, {}, &calls);
      failed = n_calls > n;
      ASSERT_EQ(file.ok(), !failed);
      if (failed) {
        EXPECT_EQ(file.error().code, truncated ? ErrorCode::file_truncated : ErrorCode::file_read);
        EXPECT_TRUE(file.error().message.starts_with("gguf: file '" + path)) << file.error().message;
      } else {
        EXPECT_GE(n, 4);
      }
    }
  }
}

// A token of 2^31 bytes once became a negative length in another reader. The file is a hole: it costs no disk.
TEST(Reader, RefusesATokenOfTwoGigabytes) {
  const TempDir folder;
  RawGguf raw;
  testing::RawValue tokens = testing::raw_array(static_cast<uint32_t>(ValueType::string), 1, "");
  tokens.bytes.integer("token length", uint64_t{1} << 31);
  raw.keys.push_back({"tokenizer.ggml.tokens", tokens});
  const std::string path = folder.write("m.gguf", raw.header().bytes());
  ASSERT_EQ(::truncate(path.c_str(), (off_t{1} << 31) + 4096), 0);
  const auto file = GgufFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::gguf_string_too_long);
  EXPECT_EQ(file.error().message,
            fmt::format("gguf: file '{}': key 'tokenizer.ggml.tokens': element at byte 69: a string of 2147483648 "
                        "bytes, more than the limit of 16777216",
                        path));
}

// The header of a model that llama.cpp wrote; the data is not in the repository and not needed.
TEST(Reader, ReadsAHeaderOfAnotherWriter) {
  const std::string bytes = rocmforge::testing::read_text(rocmforge::testing::data_path("gguf/llama-Q4_K_M.header"));
  const uint64_t n_file_bytes = 1'163'584;
  const auto header = parse_header(memory_source(as_bytes(bytes), n_file_bytes, "test"));
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(testing::broken_invariant(*header, n_file_bytes), "");
  EXPECT_EQ(header->metadata.entries().size(), 22u);
  EXPECT_EQ(header->metadata.string("general.architecture").value(), "llama");
  EXPECT_EQ(header->metadata.u32("llama.embedding_length").value(), 256u);
  EXPECT_EQ(header->metadata.strings("tokenizer.ggml.tokens").value().size(), 512u);
  ASSERT_EQ(header->tensors.size(), 30u);
  uint64_t end = 0;
  for (const TensorInfo& info : header->tensors) end = std::max(end, info.offset + info.n_bytes);
  EXPECT_EQ(end, n_file_bytes);  // the last tensor ends with the file
}

TEST(Reader, ReadsEveryReferenceModel) {
  RF_NEED_SHARED(goldens, "goldens");
  size_t n_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(goldens)) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename());
    const auto file = GgufFile::open(entry.path());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_TRUE(file->metadata().string("general.architecture").ok());
    EXPECT_LE(file->header_bytes() + file->weight_bytes(), entry.file_size());
    n_files++;
  }
  EXPECT_GE(n_files, 25u);
}

}  // namespace
}  // namespace rocmforge::gguf
