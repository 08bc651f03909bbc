#pragma once
// Decodes tokens to text as they arrive. The output has whole UTF-8 characters only, and no text that may still become
// a stop string. It does not depend on the boundaries between tokens.
//
// Threads: one object per stream.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::tokenizer {

struct StreamOptions {
  // The text ends before the first stop string that is completed; empty ones are ignored.
  std::vector<std::string> stop = {};
  bool show_special = false;  // control tokens are text
  // Control tokens, ascending, that are output even without show_special, each between the bytes 0xFF and 0xFE, which
  // never occur in UTF-8. They end an incomplete character.
  std::shared_ptr<const std::vector<TokenId>> marked = {};
};

class StreamDecoder {
 public:
  struct Output {
    std::string text;               // valid UTF-8; invalid parts of the input are U+FFFD
    std::optional<size_t> stopped;  // the index of the stop string that has ended the text; reported once
  };

  // `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, const StreamOptions& options = {});

  // After a stop, the output is empty. REQUIRES: tokenizer.contains(id)
  Output push(TokenId id);
  // Ends the text and returns the held-back rest.
  Output finish();

 private:
  // Matches one stop string byte by byte (Knuth, Morris, Pratt), so that time per byte is constant.
  struct Stop {
    size_t index;
    std::string text;
    std::vector<uint32_t> fallback;  // per matched length: the next shorter length that still matches
    uint32_t matched = 0;
    void advance(char byte);
  };

  bool is_marked(TokenId id) const;
  Output emit(std::string_view valid_text);

  const Tokenizer* tokenizer_;
  bool show_special_;
  std::shared_ptr<const std::vector<TokenId>> marked_;
  bool ended_ = false;
  std::vector<Stop> stops_;
  std::string bytes_;  // the start of a character
  std::string held_;   // characters that may begin a stop string
};

}  // namespace rocmforge::tokenizer
