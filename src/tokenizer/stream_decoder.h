#pragma once
// Tokens in, text out, as they arrive: whole UTF-8 characters only, and nothing that may still turn out to be a stop
// string. What comes out does not depend on where the tokens' borders lie.
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
  // The text ends before the first of these to be completed; empty ones are ignored.
  std::vector<std::string> stop = {};
  bool show_special = false;  // control tokens are text, too
  // Tokens, ascending, that are text even where control tokens are not, between the bytes 0xFF and 0xFE, which no UTF-8
  // has: so a reader can tell them from the same letters. They end a character that is incomplete.
  std::shared_ptr<const std::vector<TokenId>> marked = {};
};

class StreamDecoder {
 public:
  struct Output {
    std::string text;               // valid UTF-8; invalid parts of the input are U+FFFD
    std::optional<size_t> stopped;  // which of `stop` has ended the text, once
  };

  // `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, const StreamOptions& options = {});

  // After a stop, nothing more comes out. REQUIRES: tokenizer.contains(id)
  Output push(TokenId id);
  // What was held back, when no more tokens come.
  Output finish();

 private:
  // Matches one stop string byte by byte (Knuth, Morris, Pratt), so that time per byte is constant.
  struct Stop {
    size_t index;
    std::string text;
    std::vector<uint32_t> fallback;  // per matched length, the next shorter one that still matches
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
