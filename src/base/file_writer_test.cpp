#include "base/file_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/support.h"

namespace rocmforge {
namespace {

using testing::TempDir;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

size_t n_files(const TempDir& dir) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir.path()), {}));
}

TEST(FileWriter, PublishesWholeOrNotAtAll) {
  const TempDir dir;
  const std::string path = dir.write("out", "before");
  {
    FileWriter writer = *FileWriter::create(path);
    ASSERT_TRUE(writer.write(std::as_bytes(std::span("after", 5))).ok());
    EXPECT_EQ(testing::read_text(path), "before");
  }
  EXPECT_EQ(testing::read_text(path), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1) << "the temporary file stayed";

  FileWriter writer = *FileWriter::create(path);
  ASSERT_TRUE(writer.write(std::as_bytes(std::span("after", 5))).ok());
  ASSERT_TRUE(writer.resize(8).ok());
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(testing::read_text(path), std::string("after\0\0\0", 8));
}

TEST(FileWriter, WritesIntoADeviceWithoutReplacingIt) {
  FileWriter writer = *FileWriter::create("/dev/null");
  EXPECT_TRUE(writer.write(std::as_bytes(std::span("x", 1))).ok());
  EXPECT_TRUE(writer.commit().ok());
  EXPECT_EQ(FileWriter::create("/absent/x").error().code, ErrorCode::file_write);
  FileWriter full = *FileWriter::create("/dev/full");
  EXPECT_EQ(full.write(std::as_bytes(std::span("x", 1))).error().code, ErrorCode::file_write);
}

// With and without O_TMPFILE.
class FileWriterKinds : public ::testing::TestWithParam<bool> {};

TEST_P(FileWriterKinds, LeavesNothingWithoutCommit) {
  const TempDir dir;
  {
    FileWriter writer = *FileWriter::create(dir.file("out"), {.anonymous = GetParam()});
    ASSERT_TRUE(writer.write(bytes_of("x")).ok());
    // A process that is killed here leaves no file where the file system has O_TMPFILE.
    const int probe = ::open(dir.path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    EXPECT_EQ(n_files(dir), GetParam() && probe >= 0 ? 0u : 1u);
    if (probe >= 0) ::close(probe);
  }
  EXPECT_EQ(n_files(dir), 0u);
}

TEST_P(FileWriterKinds, ReplacesAFile) {
  const TempDir dir;
  const std::string path = dir.write("out", "before");
  FileWriter writer = *FileWriter::create(path, {.anonymous = GetParam()});
  ASSERT_TRUE(writer.write(bytes_of("after")).ok());
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(testing::read_text(path), "after");
  EXPECT_EQ(n_files(dir), 1u);
}

TEST_P(FileWriterKinds, RefusesAFileThatExistsAtFirstOrAtTheEnd) {
  const TempDir dir;
  const WriteOptions options{.existing = ExistingFile::refuse, .anonymous = GetParam()};
  const std::string path = dir.file("out");
  {
    FileWriter writer = *FileWriter::create(path, options);
    ASSERT_TRUE(writer.write(bytes_of("new")).ok());
    dir.write("out", "somebody else's");
    EXPECT_EQ(writer.commit().error().code, ErrorCode::file_exists);
  }
  EXPECT_EQ(FileWriter::create(path, options).error().code, ErrorCode::file_exists);
  EXPECT_EQ(testing::read_text(path), "somebody else's");
  EXPECT_EQ(n_files(dir), 1u);

  FileWriter writer = *FileWriter::create(dir.file("other"), options);
  ASSERT_TRUE(writer.write(bytes_of("new")).ok());
  ASSERT_TRUE(writer.commit().ok());
  EXPECT_EQ(testing::read_text(dir.file("other")), "new");
  EXPECT_EQ(n_files(dir), 2u);
}

TEST_P(FileWriterKinds, StopsWhenToldToAndLeavesNothing) {
  const TempDir dir;
  bool is_stopped = false;
  {
    FileWriter writer =
        *FileWriter::create(dir.file("out"), {.should_stop = [&] { return is_stopped; }, .anonymous = GetParam()});
    ASSERT_TRUE(writer.write(bytes_of("x")).ok());
    is_stopped = true;
    EXPECT_EQ(writer.write(bytes_of("x")).error().code, ErrorCode::cancelled);
    EXPECT_EQ(writer.commit().error().code, ErrorCode::cancelled);
  }
  EXPECT_EQ(n_files(dir), 0u);
}

INSTANTIATE_TEST_SUITE_P(FileWriter, FileWriterKinds, ::testing::Bool());

// The temporary name used to be known beforehand, OUT.PID.part, and a link that somebody had put there was followed:
// the file behind it was overwritten.
TEST(FileWriter, FollowsNoPlantedLink) {
  const TempDir dir;
  const std::string victim = dir.write("victim", "precious");
  std::filesystem::create_symlink(victim, dir.file("out." + std::to_string(::getpid()) + ".part"));
  std::filesystem::create_symlink(victim, dir.file("out"));
  for (const bool anonymous : {true, false}) {
    FileWriter writer = *FileWriter::create(dir.file("out"), {.anonymous = anonymous});
    ASSERT_TRUE(writer.write(bytes_of("new")).ok());
    ASSERT_TRUE(writer.commit().ok());
    EXPECT_EQ(testing::read_text(victim), "precious");
    EXPECT_EQ(testing::read_text(dir.file("out")), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(dir.file("out")));
  }
}

TEST(FileWriter, WritesIntoTheWorkingFolder) {
  const TempDir dir;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  {
    FileWriter writer = *FileWriter::create("plain");
    EXPECT_TRUE(writer.write(bytes_of("x")).ok());
    EXPECT_TRUE(writer.commit().ok());
  }
  std::filesystem::current_path(before);
  EXPECT_EQ(testing::read_text(dir.file("plain")), "x");
}

}  // namespace
}  // namespace rocmforge
