#pragma once
// Reads chunks of weights: cached bytes through the page cache, the others with direct I/O.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"
#include "base/result.h"

namespace rocmforge {

// The file's bytes [offset, offset + n_bytes) somewhere inside `staging`.
// REQUIRES: staging is kDirectAlignment-aligned and holds n_bytes and two blocks of that size more
Result<std::span<const std::byte>> read_chunk(const File& file, uint64_t offset, size_t n_bytes,
                                              std::span<std::byte> staging);

// Checks that the path still names the opened file, unchanged: file_not_found, file_changed, file_truncated.
Result<void> check_unchanged(const File& file);

}  // namespace rocmforge
