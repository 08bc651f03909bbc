#pragma once
// Reads pieces of weights: through the page cache what is in it, past it what is not.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"
#include "base/result.h"

namespace rocmforge {

// The file's bytes [offset, offset + n_bytes) somewhere inside `staging`.
// REQUIRES: staging is kDirectAlignment-aligned and holds n_bytes and two blocks of that size more
Result<std::span<const std::byte>> read_piece(const File& file, uint64_t offset, size_t n_bytes,
                                              std::span<std::byte> staging);

// The file at the path is still the one that was opened, as it was then: file_not_found, file_changed, file_truncated.
Result<void> check_unchanged(const File& file);

}  // namespace rocmforge
