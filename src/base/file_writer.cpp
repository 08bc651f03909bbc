#include "base/file_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/random.h"

namespace rocmforge {
namespace {

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// A name that nobody can have guessed and prepared.
std::string random_name(const std::string& folder) {
  return fmt::format("{}/.rocmforge-{:016x}.part", folder, random_bits());
}

int open_named(std::string& name, const std::string& folder) {
  for (;;) {
    name = random_name(folder);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

std::string link_of(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

// -1 where the file system has no files without a name, or where such a file could not be given one.
int open_anonymous(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  struct stat s;
  if (::lstat(link_of(fd).c_str(), &s) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

Error FileWriter::failed(const char* what) const {
  return {ErrorCode::file_write, fmt::format("file '{}': {}: {}", path_, what, std::strerror(errno))};
}

Error FileWriter::exists() const {
  return {ErrorCode::file_exists, fmt::format("file '{}' exists already", path_)};
}

Result<FileWriter> FileWriter::create(const std::string& path, WriteOptions options) {
  FileWriter writer;
  writer.path_ = path;
  writer.folder_ = folder_of(path);
  writer.options_ = std::move(options);
  struct stat s;
  const bool is_there = ::stat(path.c_str(), &s) == 0;
  if (is_there && S_ISDIR(s.st_mode)) {
    return Error{ErrorCode::file_not_regular, fmt::format("file '{}': is a directory", path)};
  }
  writer.is_device_ = is_there && !S_ISREG(s.st_mode);
  if (writer.is_device_) {
    writer.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  } else {
    // lstat: a link that leads nowhere is in the way as well.
    if (writer.options_.existing == ExistingFile::refuse && ::lstat(path.c_str(), &s) == 0) return writer.exists();
    if (writer.options_.anonymous) writer.fd_ = open_anonymous(writer.folder_);
    if (writer.fd_ < 0) writer.fd_ = open_named(writer.temporary_path_, writer.folder_);
  }
  if (writer.fd_ < 0) {
    writer.temporary_path_.clear();
    return writer.failed("cannot create");
  }
  return writer;
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::move(other.folder_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      options_(std::move(other.options_)),
      is_device_(other.is_device_),
      position_(other.position_),
      fd_(std::exchange(other.fd_, -1)) {}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

Result<void> FileWriter::check_stop() const {
  if (!options_.should_stop || !options_.should_stop()) return {};
  return Error{ErrorCode::cancelled, fmt::format("file '{}': stopped, nothing was written", path_)};
}

Result<void> FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    TRY(check_stop());
    const ssize_t n = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (n < 0) {
      if (errno == EINTR) continue;
      return failed("cannot write");
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    position_ += static_cast<uint64_t>(n);
  }
  return {};
}

Result<void> FileWriter::resize(uint64_t n_bytes) {
  if (is_device_) return {};  // a device has no length
  if (::ftruncate(fd_, static_cast<off_t>(n_bytes)) != 0) return failed("cannot resize");
  return {};
}

// Gives the file without a name its first one, which must not exist.
Result<void> FileWriter::link_to(const std::string& name) {
  if (::linkat(AT_FDCWD, link_of(fd_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  return errno == EEXIST ? exists() : failed("cannot give the file its name");
}

Result<void> FileWriter::rename_to_target() {
  const unsigned flags = options_.existing == ExistingFile::refuse ? RENAME_NOREPLACE : 0;
  if (::renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), flags) != 0) {
    if (errno == EEXIST) return exists();
    // Some file systems know no flags: look first there.
    struct stat s;
    if (flags != 0 && errno == EINVAL && ::lstat(path_.c_str(), &s) == 0) return exists();
    if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) return failed("cannot rename into place");
  }
  temporary_path_.clear();
  return {};
}

// link does not replace a name and rename does, so a file that replaces another gets a random name on the way.
Result<void> FileWriter::publish() {
  if (temporary_path_.empty()) {
    if (options_.existing == ExistingFile::refuse) return link_to(path_);
    std::string name = random_name(folder_);
    TRY(link_to(name));
    temporary_path_ = std::move(name);
  }
  return rename_to_target();
}

// The name itself is on the disk only when its folder is. Some file systems cannot be asked for that.
Result<void> FileWriter::sync_folder() const {
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return {};  // one may write into a folder that one may not read
  const bool is_synced = ::fsync(folder) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int error = errno;
  ::close(folder);
  errno = error;
  return is_synced ? Result<void>() : failed("cannot write its folder to the disk");
}

Result<void> FileWriter::commit() {
  if (!is_device_) {
    if (options_.durable && ::fsync(fd_) != 0) return failed("cannot write to the disk");
    TRY(check_stop());
    TRY(publish());
  }
  if (::close(std::exchange(fd_, -1)) != 0) return failed("cannot close");
  return options_.durable && !is_device_ ? sync_folder() : Result<void>();
}

}  // namespace rocmforge
