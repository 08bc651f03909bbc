#pragma once
// A new file that appears at its path whole or not at all.
//
// The bytes go to a file without a name in the target's folder (O_TMPFILE). commit() writes them to the disk, gives the
// file its name, and writes the folder to the disk. A process that dies before that leaves nothing behind. On file
// systems without O_TMPFILE the file has a random name, made with O_EXCL and O_NOFOLLOW; the destructor removes it, and
// only a process that is killed leaves it.
//
// A target that is a device (/dev/null) is written directly.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace rocmforge {

enum class ExistingFile : uint8_t { replace, refuse };

struct WriteOptions {
  ExistingFile existing = ExistingFile::replace;  // refuse: file_exists, at create() and at commit()
  bool durable = true;                            // false: no fsync, for files that can be made again at any time
  std::function<bool()> should_stop = {};         // asked before each write; true fails it with `cancelled`
  bool anonymous = true;                          // false: behave as on file systems without O_TMPFILE, for tests
};

class FileWriter {
 public:
  static Result<FileWriter> create(const std::string& path, WriteOptions options = {});
  ~FileWriter();
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;

  Result<void> write(std::span<const std::byte> bytes);
  // Makes the file n_bytes long without writing: a hole that reads as zeros.
  Result<void> resize(uint64_t n_bytes);
  uint64_t position() const { return position_; }
  Result<void> commit();

 private:
  FileWriter() = default;
  Error failed(const char* what) const;
  Error exists() const;
  Result<void> check_stop() const;
  Result<void> publish();
  Result<void> link_to(const std::string& name);
  Result<void> rename_to_target();
  Result<void> sync_folder() const;

  std::string path_;
  std::string folder_;
  std::string temporary_path_;  // empty: the file has no name, or the target is a device
  WriteOptions options_;
  bool is_device_ = false;
  uint64_t position_ = 0;
  int fd_ = -1;
};

}  // namespace rocmforge
