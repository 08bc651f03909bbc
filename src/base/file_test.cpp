#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "support/support.h"

namespace rocmforge {
namespace {

using testing::TempDir;

std::string read_at(const File& file, size_t n, uint64_t offset) {
  std::string text(n, '?');
  const auto result = file.read_at(std::as_writable_bytes(std::span(text)), offset);
  return result.ok() ? text : std::string(error_name(result.error().code));
}

TEST(File, ReadsByPosition) {
  const TempDir dir;
  const File file = *File::open(dir.write("a", "0123456789"));
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(read_at(file, 4, 3), "3456");
  EXPECT_EQ(read_at(file, 0, 10), "");
  EXPECT_EQ(read_at(file, 1, 10), "file_truncated");
  EXPECT_EQ(read_at(file, 11, 0), "file_truncated");
}

TEST(File, OpensOnlyRegularFilesAndNeverBlocks) {
  const TempDir dir;
  const std::string pipe = dir.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(File::open(pipe).error().code, ErrorCode::file_not_regular);
  EXPECT_EQ(File::open(dir.path()).error().code, ErrorCode::file_not_regular);
  EXPECT_EQ(File::open("/dev/zero").error().code, ErrorCode::file_not_regular);
  EXPECT_EQ(File::open("/dev/tty").error().code, ErrorCode::file_not_regular);
  const std::string link = dir.file("link");
  ASSERT_EQ(::symlink("/dev/random", link.c_str()), 0);
  EXPECT_EQ(File::open(link).error().code, ErrorCode::file_not_regular);
  EXPECT_EQ(File::open(dir.file("absent")).error().code, ErrorCode::file_not_found);
}

TEST(File, AShrinkingFileIsAnErrorValue) {
  const TempDir dir;
  const std::string path = dir.write("a", std::string(8192, 'x'));
  const File file = *File::open(path);
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  EXPECT_EQ(read_at(file, 8192, 0), "file_truncated");
  EXPECT_NE(*file.current_identity(), file.identity());
}

TEST(File, SeesThatAnotherFileTookItsPlace) {
  const TempDir dir;
  const std::string path = dir.write("a", "old");
  const File file = *File::open(path);
  EXPECT_EQ(*file.current_identity(), file.identity());
  ASSERT_EQ(::rename(dir.write("b", "new").c_str(), path.c_str()), 0);
  EXPECT_NE(*file.current_identity(), file.identity());
  EXPECT_EQ(read_at(file, 3, 0), "old");
}

TEST(File, FaultsAtTheSeamBecomeErrorsAndInterruptionsDoNot) {
  const TempDir dir;
  int n_calls = 0;
  FileCalls calls;
  calls.pread = [&](int fd, void* to, size_t n, off_t offset) -> ssize_t {
    n_calls++;
    if (offset >= 8) return errno = EIO, -1;
    if (n_calls == 1) return errno = EINTR, -1;
    return ::pread(fd, to, std::min<size_t>(n, 3), offset);  // short reads are continued
  };
  const File file = *File::open(dir.write("a", "0123456789"), &calls);
  EXPECT_EQ(read_at(file, 8, 0), "01234567");
  EXPECT_EQ(n_calls, 4);
  EXPECT_EQ(read_at(file, 10, 0), "file_read");
}

TEST(File, DirectReadsGiveTheSameBytesAndReachTheRaggedEnd) {
  const TempDir dir;
  std::string content(3 * File::kDirectAlignment + 100, '\0');
  for (size_t i = 0; i < content.size(); i++) content[i] = static_cast<char>(i * 31 >> 3);
  const File file = *File::open(dir.write("a", content));
  const size_t n = 4 * File::kDirectAlignment;
  const std::unique_ptr<std::byte, decltype(&std::free)> buffer(
      static_cast<std::byte*>(std::aligned_alloc(File::kDirectAlignment, n)), &std::free);
  ASSERT_TRUE(file.read_direct_at({buffer.get(), n}, 0).ok());
  EXPECT_EQ(std::string(reinterpret_cast<char*>(buffer.get()), content.size()), content);
  EXPECT_EQ(file.read_direct_at({buffer.get(), n}, File::kDirectAlignment).error().code, ErrorCode::file_truncated);
}

TEST(File, KnowsThatFreshlyWrittenBytesAreCached) {
  const TempDir dir;
  const File file = *File::open(dir.write("a", "0123456789"));
  EXPECT_TRUE(file.is_cached(0, 10));
  EXPECT_TRUE(file.is_cached(9, 1));
  EXPECT_FALSE(file.is_cached(10, 1));
  EXPECT_FALSE(file.is_cached(0, 11));
}

// A load that had looked at the first page of each piece only read a partly cached file at the speed of the worst of
// both ways: 0.45 GB/s, 2.4 past the cache.
TEST(File, KnowsThatAPartlyCachedRangeIsNotCached) {
  const TempDir dir;
  constexpr uint64_t kHalf = 4 << 20;
  const std::string path = dir.write("a", std::string(2 * kHalf, 'x'));
  const int fd = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  // Only what is on the disk can leave the cache.
  ASSERT_EQ(::fsync(fd), 0);
  ASSERT_EQ(::posix_fadvise(fd, kHalf, kHalf, POSIX_FADV_DONTNEED), 0);
  ::close(fd);
  const File file = *File::open(path);
  if (file.is_cached(2 * kHalf - 1, 1)) GTEST_SKIP() << "this file system keeps what it was told to drop";
  EXPECT_TRUE(file.is_cached(0, kHalf));
  EXPECT_TRUE(file.is_cached(kHalf - 1, 1));
  EXPECT_FALSE(file.is_cached(0, kHalf + 1));
  EXPECT_FALSE(file.is_cached(0, 2 * kHalf));
}

TEST(ReadWholeFile, StopsAtItsLimit) {
  const TempDir dir;
  const std::string path = dir.write("a", "12345");
  EXPECT_EQ(*read_whole_file(path, 5), "12345");
  EXPECT_EQ(read_whole_file(path, 4).error().code, ErrorCode::limit_exceeded);
}

}  // namespace
}  // namespace rocmforge
