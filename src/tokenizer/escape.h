#pragma once
// How SentencePiece vocabularies write a space: U+2581, "lower one eighth block".

#include <string>
#include <string_view>

namespace rocmforge::tokenizer {

inline constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";

inline void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == ' ') {
      out.append(kEscapedSpace);
    } else {
      out.push_back(c);
    }
  }
}

inline std::string unescape_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kEscapedSpace)) {
      out.push_back(' ');
      at += kEscapedSpace.size();
    } else {
      out.push_back(text[at++]);
    }
  }
  return out;
}

}  // namespace rocmforge::tokenizer
