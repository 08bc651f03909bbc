#include "weights/chunk_reader.h"

#include <fmt/core.h>

namespace rocmforge {

Result<std::span<const std::byte>> read_chunk(const File& file, uint64_t offset, size_t n_bytes,
                                              std::span<std::byte> staging) {
  constexpr uint64_t kBlock = File::kDirectAlignment;
  CHECK(n_bytes + 2 * kBlock <= staging.size());
  // A buffered read that has to wait for the disk is several times slower than a direct one.
  if (file.is_cached(offset, n_bytes)) {
    const std::span<std::byte> chunk = staging.first(n_bytes);
    TRY(file.read_at(chunk, offset));
    return chunk;
  }
  const uint64_t n_before = offset % kBlock;
  const uint64_t n_blocks = (n_before + n_bytes + kBlock - 1) / kBlock;
  TRY(file.read_direct_at(staging.first(n_blocks * kBlock), offset - n_before));
  return staging.subspan(n_before, n_bytes);
}

Result<void> check_unchanged(const File& file) {
  const FileIdentity now = TRY(file.current_identity());
  const FileIdentity& then = file.identity();
  if (now == then) return {};
  if (now.device != then.device || now.inode != then.inode) {
    return Error{ErrorCode::file_changed,
                 fmt::format("file '{}': another file has taken its place since it was opened", file.path())};
  }
  if (now.n_bytes < then.n_bytes) {
    return Error{ErrorCode::file_truncated, fmt::format("file '{}': {} bytes long, {} when it was opened", file.path(),
                                                        now.n_bytes, then.n_bytes)};
  }
  return Error{ErrorCode::file_changed, fmt::format("file '{}': was written to since it was opened", file.path())};
}

}  // namespace rocmforge
