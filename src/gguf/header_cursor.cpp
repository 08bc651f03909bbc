#include "gguf/header_cursor.h"

#include <fmt/core.h>

#include <algorithm>

#include "gguf/format.h"

namespace rocmforge::gguf {
namespace {

constexpr uint64_t kFirstPieceBytes = 64u << 10;
constexpr uint64_t kPieceBytes = 256u << 10;

}  // namespace

Result<void> HeaderCursor::fetch(uint64_t n_bytes, const char* field) {
  if (n_bytes > n_left()) {
    return fail(ErrorCode::gguf_truncated, field, at_,
                fmt::format("needs {} bytes, the file ends after {}", n_bytes, n_left()));
  }
  if (n_bytes > limits_.max_metadata_bytes || at_ > limits_.max_metadata_bytes - n_bytes) {
    return fail(
        ErrorCode::gguf_metadata_too_large, field, at_,
        fmt::format("{} more bytes make the header larger than the limit of {}", n_bytes, limits_.max_metadata_bytes));
  }
  // Never past the limit: so every step over it comes through here.
  const uint64_t readable = std::min(source_.n_bytes, limits_.max_metadata_bytes);
  while (buffer_.size() - at_ < n_bytes) {
    const uint64_t begin = buffer_.size();
    const uint64_t n_piece = std::min(begin == 0 ? kFirstPieceBytes : kPieceBytes, readable - begin);
    buffer_.resize(begin + n_piece);
    auto result = source_.read(std::span(buffer_).subspan(begin), begin);
    if (!result.ok()) return std::move(result).error().in("gguf");
  }
  return {};
}

Error HeaderCursor::fail(ErrorCode code, const char* field, uint64_t at, std::string_view fact) const {
  std::string subject;
  if (subject_.kind != nullptr) {
    subject = subject_.name.n_bytes > 0 ? fmt::format("{} {}: ", subject_.kind, in_quotes(text(subject_.name)))
                                        : fmt::format("{} number {}: ", subject_.kind, subject_.number);
  }
  return {code, fmt::format("gguf: {}: {}{} at byte {}: {}", source_.name, subject, field, at, fact)};
}

std::shared_ptr<const std::vector<std::byte>> HeaderCursor::finish() {
  buffer_.resize(at_);
  // A small header gives back the piece it came in. A large one is not worth another copy: past its end lie at most a
  // piece and pages that were never touched.
  if (at_ < kPieceBytes) buffer_.shrink_to_fit();
  return std::make_shared<const std::vector<std::byte>>(std::move(buffer_));
}

}  // namespace rocmforge::gguf
