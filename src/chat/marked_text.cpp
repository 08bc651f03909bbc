#include "chat/marked_text.h"

#include <algorithm>

namespace rocmforge::chat {
namespace {

// A noncharacter: no text means anything by it.
constexpr std::string_view kMark = "\xEF\xB7\x90";  // U+FDD0

}  // namespace

void mark_control_names(std::string& text, const tokenizer::PhraseFinder& names) {
  tokenizer::PhraseFinder::Scan scan(names, text);
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < text.size(); at++) {
    if (!scan.longest_at(at)) continue;
    out.append(text, done, at + 1 - done);
    out += kMark;
    done = at + 1;
  }
  if (done > 0) text = out.append(text, done);
}

Result<std::vector<TokenId>> encode_marked(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> tokens;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(kMark, at), text.size());
    const auto piece = TRY(tokenizer.encode(text.substr(at, end - at), {.parse_special = true, .add_bos = at == 0}));
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    at = end + kMark.size();
  }
  return tokens;
}

}  // namespace rocmforge::chat
