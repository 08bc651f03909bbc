#pragma once
// Splits template text into tokens, and applies whitespace control with Hugging Face's settings of Jinja: trim_blocks
// (removes a newline after a block), lstrip_blocks (removes blanks before a block that starts its line), and no newline
// at the end of the text.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/jinja/ast.h"

namespace rocmforge::jinja {

enum class TokenType : uint8_t {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  real,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  tilde,
  left_bracket,
  right_bracket,
  left_paren,
  right_paren,
  left_brace,
  right_brace,
  equal,
  not_equal,
  greater,
  greater_equal,
  less,
  less_equal,
  assign,
  dot,
  colon,
  pipe,
  comma,
  semicolon,
  end,
};

struct Token {
  TokenType type;
  Offset at;
  std::string_view text;  // as written; a string with its quotes
};

// Converts line ends to \n and removes the last one.
std::string normalize_newlines(std::string_view source);

// The tokens are views into `source`. An error's position is put into `failed_at`.
// REQUIRES: source is normalized, valid UTF-8 and at most 4 GiB
Result<std::vector<Token>> tokenize(std::string_view source, Offset& failed_at);

// The characters of a string token, escapes resolved.
Result<std::string> unescape(std::string_view quoted);

}  // namespace rocmforge::jinja
