#pragma once
// SentencePiece's normalising table ("precompiled_charsmap"): texts and their replacements, in a double-array trie.
//
//   u32 n | n bytes of u32 units | replacements, each ended by a zero byte
//
// A unit: bits 0-7 and 31 are the label, bit 8 is set if a text ends here, bits 10-30 are the base, shifted left by 8
// if bit 9 is set. In the unit after an end, bits 0-30 are the offset of the replacement.
//
// Threads: immutable.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rocmforge::tokenizer {

class Charsmap {
 public:
  // Texts and replacements of SentencePiece's own tables are below 64 bytes.
  static constexpr size_t kMaxTextBytes = 256;
  static constexpr size_t kMaxReplacementBytes = 256;
  static constexpr size_t kMaxBytes = 16u << 20;

  Charsmap() = default;  // replaces nothing
  // Errors: tokenizer_vocabulary, naming the part that does not fit.
  static Result<Charsmap> parse(std::span<const std::byte> bytes);

  struct Match {
    size_t n_bytes;
    std::string_view replacement;
  };
  // The replacement of the longest text of the table that text[at..] begins with. Any table, also a hostile one, is
  // followed for at most kMaxTextBytes and never out of bounds. REQUIRES: at < text.size()
  std::optional<Match> longest(std::string_view text, size_t at) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace rocmforge::tokenizer
