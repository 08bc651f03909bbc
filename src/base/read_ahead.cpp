#include "base/read_ahead.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/thread.h"

namespace rocmforge {
namespace {

constexpr off_t kPiece = 8 << 20;

void ask_for(const std::string& path, const std::atomic<bool>& is_over) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  const off_t n_bytes = ::lseek(fd, 0, SEEK_END);
  for (off_t at = 0; at < n_bytes && !is_over; at += kPiece) ::posix_fadvise(fd, at, kPiece, POSIX_FADV_WILLNEED);
  ::close(fd);
}

}  // namespace

ReadAhead::ReadAhead(std::vector<std::string> paths) {
  auto thread = start_thread([this, files = std::move(paths)] {
    for (const std::string& path : files) ask_for(path, is_over_);
  });
  if (thread.ok()) thread_ = std::move(*thread);
}

ReadAhead::~ReadAhead() {
  is_over_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace rocmforge
