// Output files reach the disk: the content before it has its name, the folder after that. A program of its own: it
// stands in front of fsync.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "base/file_writer.h"
#include "support/support.h"

namespace {

std::function<int(bool)> g_watch;  // is_folder -> errno, or 0: call the real fsync

}  // namespace

extern "C" int fsync(int fd) {
  struct stat s{};
  if (g_watch && ::fstat(fd, &s) == 0) {
    if (const int error = g_watch(S_ISDIR(s.st_mode))) {
      errno = error;
      return -1;
    }
  }
  static const auto next = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  return next(fd);
}

namespace rocmforge {
namespace {

using testing::TempDir;

// With and without O_TMPFILE; into a new name and over a file.
class FileSync : public ::testing::TestWithParam<std::tuple<bool, ExistingFile>> {
 protected:
  ~FileSync() override { g_watch = {}; }

  // The text at the target, or "none".
  std::string found() const { return std::filesystem::exists(path_) ? testing::read_text(path_) : "none"; }

  // Writes the target; the steps are noted as "file|folder: what a reader finds at the target then".
  Result<void> write(int file_error = 0, int folder_error = 0) {
    const auto [anonymous, existing] = GetParam();
    if (existing == ExistingFile::replace) dir_.write("out", "before");
    g_watch = [this, file_error, folder_error](bool is_folder) {
      steps_.push_back((is_folder ? "folder: " : "file: ") + found());
      return is_folder ? folder_error : file_error;
    };
    FileWriter writer = TRY(FileWriter::create(path_, {.existing = existing, .anonymous = anonymous}));
    TRY(writer.write(std::as_bytes(std::span(std::string_view("after")))));
    return writer.commit();
  }
  std::string before() const { return std::get<1>(GetParam()) == ExistingFile::replace ? "before" : "none"; }

  const TempDir dir_;
  const std::string path_ = dir_.file("out");
  std::vector<std::string> steps_;
};

TEST_P(FileSync, TheContentIsWrittenBeforeTheNameAndTheFolderAfterIt) {
  ASSERT_TRUE(write().ok());
  EXPECT_EQ(steps_, (std::vector<std::string>{"file: " + before(), "folder: after"}));
}

TEST_P(FileSync, ContentThatDoesNotReachTheDiskGetsNoName) {
  EXPECT_EQ(write(EIO).error().code, ErrorCode::file_write);
  EXPECT_EQ(found(), before());
}

TEST_P(FileSync, AFolderThatDoesNotReachTheDiskIsAnError) {
  EXPECT_EQ(write(0, EIO).error().code, ErrorCode::file_write);
}

TEST_P(FileSync, AFolderThatCannotBeWrittenToTheDiskIsNoError) {
  EXPECT_TRUE(write(0, EINVAL).ok()) << "as some file systems answer";
}

INSTANTIATE_TEST_SUITE_P(FileSync, FileSync,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(ExistingFile::replace, ExistingFile::refuse)));

}  // namespace
}  // namespace rocmforge
