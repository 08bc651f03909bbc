#pragma once
// The parser's position in a header that arrives in pieces. Reads fields in order, refuses to read past the end of the
// file or the metadata limit, and builds the error messages: it knows which key or tensor is being read.
//
// Offsets, not pointers: the buffer moves while it grows.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "gguf/header.h"

namespace rocmforge::gguf {

class HeaderCursor {
 public:
  // Bytes of the header by position.
  struct Extent {
    uint64_t offset = 0;
    uint64_t n_bytes = 0;
  };

  HeaderCursor(const HeaderSource& source, const Limits& limits) : source_(source), limits_(limits) {}

  uint64_t at() const { return at_; }
  uint64_t n_left() const { return source_.n_bytes - at_; }  // in the file, from here

  // The next number; `field` is what messages call it.
  template <class T>
  Result<T> read(const char* field) {
    if (buffer_.size() - at_ < sizeof(T)) TRY(fetch(sizeof(T), field));
    const T value = load_le<T>(buffer_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  // The next n bytes.
  Result<Extent> take(uint64_t n_bytes, const char* field) {
    if (buffer_.size() - at_ < n_bytes) TRY(fetch(n_bytes, field));
    const Extent extent{at_, n_bytes};
    at_ += n_bytes;
    return extent;
  }

  // Valid until the next read or take.
  std::span<const std::byte> bytes(Extent extent) const {
    return std::span(buffer_).subspan(extent.offset, extent.n_bytes);
  }
  std::string_view text(Extent extent) const { return as_text(bytes(extent)); }

  // Names the subject of later messages: the key (or tensor) of that number or name, or the file itself.
  void enter(const char* kind, uint64_t number) { subject_ = {kind, number, {}}; }
  void enter(const char* kind, Extent name) { subject_ = {kind, 0, name}; }
  void leave() { subject_ = {}; }

  // "gguf: SOURCE: SUBJECT: FIELD at byte AT: FACT"
  Error fail(ErrorCode code, const char* field, uint64_t at, std::string_view fact) const;

  // Ends the reading and gives the header's bytes. REQUIRES: nothing else is called afterwards
  std::shared_ptr<const std::vector<std::byte>> finish();

 private:
  // Makes the next n bytes available.
  Result<void> fetch(uint64_t n_bytes, const char* field);

  struct Subject {
    const char* kind = nullptr;
    uint64_t number = 0;
    Extent name;
  };

  const HeaderSource& source_;
  const Limits& limits_;
  std::vector<std::byte> buffer_;
  uint64_t at_ = 0;
  Subject subject_;
};

}  // namespace rocmforge::gguf
