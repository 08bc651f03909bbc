#pragma once
// Files by position, never by mapping: a mapped file that shrinks kills the process, a short pread is an error value.
//
// File reads; base/file_writer.h writes. Only regular files are opened, and opening never blocks (a named pipe would).
// Threads: read_at may be called from many threads at once.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rocmforge {

// The interface through which tests count reads and inject faults. Each call behaves like the system call of its name.
struct FileCalls {
  std::function<ssize_t(int fd, void* to, size_t n_bytes, off_t offset)> pread;
  // The result of File::is_cached, which no portable test can produce.
  std::function<bool(int fd, off_t offset)> is_cached;
};

// Distinguishes two files, and one file before and after a write.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t n_bytes = 0;
  int64_t modified_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class File {
 public:
  static Result<File> open(const std::string& path, const FileCalls* calls = nullptr);
  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;

  const std::string& path() const { return path_; }
  uint64_t size() const { return identity_.n_bytes; }
  const FileIdentity& identity() const { return identity_; }

  // Fills `to` from `offset`, or fails: file_read (the system's error) or file_truncated (the file is shorter now).
  Result<void> read_at(std::span<std::byte> to, uint64_t offset) const;

  // read_at, but bypassing the page cache. REQUIRES: the address and size of `to` and `offset` are multiples of
  // kDirectAlignment. If the file ends inside the last block, the bytes of `to` after that end are left alone. Falls
  // back to read_at on file systems without direct reads.
  Result<void> read_direct_at(std::span<std::byte> to, uint64_t offset) const;
  static constexpr size_t kDirectAlignment = 4096;

  // Whether all of these bytes appear to be in the page cache, so that a buffered read costs a copy and no I/O. Where
  // the system can be asked (Linux 6.5, for files the process may write to), the query leaves the cache unchanged;
  // elsewhere a few of the pages are sampled. REQUIRES: n_bytes > 0
  bool is_cached(uint64_t offset, uint64_t n_bytes) const;

  // Whether `path`, followed through links, is this very file: the same device and inode.
  bool is_at(const std::string& path) const;

  // The file's state on disk now: the size and time change under a writer, the inode when it is replaced at its path.
  Result<FileIdentity> current_identity() const;

 private:
  File() = default;
  void close();

  std::string path_;
  FileIdentity identity_;
  const FileCalls* calls_ = nullptr;
  int fd_ = -1;
  int direct_fd_ = -1;
};

// A whole small file, at most max_bytes.
Result<std::string> read_whole_file(const std::string& path, uint64_t max_bytes);

}  // namespace rocmforge
