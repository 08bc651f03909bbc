#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace rocmforge {
namespace {

std::string system_text(int error) {
  return std::string(std::strerror(error));
}

Error open_error(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR                    ? ErrorCode::file_not_found
                         : error == EACCES || error == EPERM                    ? ErrorCode::file_access
                         : error == ENXIO || error == EISDIR || error == ENODEV ? ErrorCode::file_not_regular
                                                                                : ErrorCode::file_read;
  return {code, fmt::format("file '{}': {}", path, system_text(error))};
}

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

FileIdentity identity_of(const struct stat& s) {
  return {s.st_dev, s.st_ino, static_cast<uint64_t>(s.st_size),
          static_cast<int64_t>(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec};
}

}  // namespace

Result<File> File::open(const std::string& path, const FileCalls* calls) {
  File file;
  file.path_ = path;
  file.calls_ = calls;
  // O_NONBLOCK: opening a pipe without a writer would wait for one.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.fd_ < 0) return open_error(path, errno);
  struct stat s;
  if (::fstat(file.fd_, &s) != 0) return open_error(path, errno);
  if (!S_ISREG(s.st_mode)) {
    return Error{ErrorCode::file_not_regular, fmt::format("file '{}': is {}", path, kind_name(s.st_mode))};
  }
  file.identity_ = identity_of(s);
  // The same inode again, past the page cache; -1 where the file system has no direct reads.
  file.direct_fd_ = ::open(fmt::format("/proc/self/fd/{}", file.fd_).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  return file;
}

void File::close() {
  if (fd_ >= 0) ::close(fd_);
  if (direct_fd_ >= 0) ::close(direct_fd_);
  fd_ = direct_fd_ = -1;
}

File::~File() {
  close();
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(other.identity_),
      calls_(other.calls_),
      fd_(std::exchange(other.fd_, -1)),
      direct_fd_(std::exchange(other.direct_fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  identity_ = other.identity_;
  calls_ = other.calls_;
  fd_ = std::exchange(other.fd_, -1);
  direct_fd_ = std::exchange(other.direct_fd_, -1);
  return *this;
}

namespace {

using Pread = std::function<ssize_t(int, void*, size_t, off_t)>;

// Reads until `to` is full. `n_allowed_short`: how many bytes at the end may lie past the end of the file.
Result<void> read_fully(int fd, const Pread* pread_call, std::span<std::byte> to, uint64_t offset,
                        size_t n_allowed_short, const std::string& path) {
  size_t n_done = 0;
  while (n_done < to.size()) {
    const auto at = static_cast<off_t>(offset + n_done);
    const size_t n_left = std::min<size_t>(to.size() - n_done, size_t{1} << 30);
    const ssize_t n =
        pread_call ? (*pread_call)(fd, to.data() + n_done, n_left, at) : ::pread(fd, to.data() + n_done, n_left, at);
    if (n < 0) {
      if (errno == EINTR) continue;
      return Error{ErrorCode::file_read,
                   fmt::format("file '{}' at byte {}: {}", path, offset + n_done, system_text(errno))};
    }
    if (n == 0) {
      if (to.size() - n_done <= n_allowed_short) return {};
      return Error{ErrorCode::file_truncated, fmt::format("file '{}': ends at byte {}, {} more were expected", path,
                                                          offset + n_done, to.size() - n_done)};
    }
    n_done += static_cast<size_t>(n);
  }
  return {};
}

// How many of the pages that hold these bytes are in the page cache; nothing where the system does not tell.
std::optional<uint64_t> count_cached_pages(int fd, uint64_t offset, uint64_t n_bytes) {
  // The system call cachestat, newer than the C library's headers. Its number is the same everywhere.
  constexpr long kCachestat = 451;
  struct {
    uint64_t offset, n_bytes;
  } range{offset, n_bytes};
  struct {
    uint64_t n_cached, n_dirty, n_writeback, n_evicted, n_recently_evicted;
  } found{};
  if (::syscall(kCachestat, fd, &range, &found, 0u) != 0) return std::nullopt;
  return found.n_cached;
}

// A byte that can be had without waiting. When it cannot, the system begins to read a few pages from there on.
bool is_page_cached(int fd, uint64_t offset) {
  std::byte byte;
  const iovec part{&byte, 1};
  return ::preadv2(fd, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1;
}

}  // namespace

Result<void> File::read_at(std::span<std::byte> to, uint64_t offset) const {
  return read_fully(fd_, calls_ && calls_->pread ? &calls_->pread : nullptr, to, offset, 0, path_);
}

Result<void> File::read_direct_at(std::span<std::byte> to, uint64_t offset) const {
  CHECK(offset % kDirectAlignment == 0 && to.size() % kDirectAlignment == 0 &&
        reinterpret_cast<uintptr_t>(to.data()) % kDirectAlignment == 0);
  const uint64_t end = offset + to.size();
  const size_t n_past_end = end > size() ? static_cast<size_t>(end - size()) : 0;
  if (n_past_end >= kDirectAlignment) {
    return Error{ErrorCode::file_truncated, fmt::format("file '{}': read to byte {} of {}", path_, end, size())};
  }
  const int fd = direct_fd_ >= 0 ? direct_fd_ : fd_;
  return read_fully(fd, calls_ && calls_->pread ? &calls_->pread : nullptr, to, offset, n_past_end, path_);
}

bool File::is_cached(uint64_t offset, uint64_t n_bytes) const {
  CHECK(n_bytes > 0);
  if (calls_ && calls_->is_cached) return calls_->is_cached(fd_, static_cast<off_t>(offset));
  if (offset >= size() || n_bytes > size() - offset) return false;
  static const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = offset / page_bytes, last = (offset + n_bytes - 1) / page_bytes;
  if (const auto n_cached = count_cached_pages(fd_, offset, n_bytes)) return *n_cached == last - first + 1;
  constexpr uint64_t kTried = 8;
  for (uint64_t i = 0; i < kTried; i++) {
    const uint64_t page = first + (last - first) * i / (kTried - 1);
    if (!is_page_cached(fd_, std::max(offset, page * page_bytes))) return false;
  }
  return true;
}

bool File::is_at(const std::string& path) const {
  struct stat s;
  return ::stat(path.c_str(), &s) == 0 && s.st_dev == identity_.device && s.st_ino == identity_.inode;
}

Result<FileIdentity> File::current_identity() const {
  struct stat s;
  if (::stat(path_.c_str(), &s) != 0) return open_error(path_, errno);
  return identity_of(s);
}

Result<std::string> read_whole_file(const std::string& path, uint64_t max_bytes) {
  const File file = TRY(File::open(path));
  if (file.size() > max_bytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("file '{}': {} bytes, more than the limit of {}", path, file.size(), max_bytes)};
  }
  std::string text(file.size(), '\0');
  TRY(file.read_at(std::as_writable_bytes(std::span(text)), 0));
  return text;
}

}  // namespace rocmforge
