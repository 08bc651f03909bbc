#pragma once
// ECMA-262 regular expressions (Unicode mode, Annex B's literal braces) as expressions of a pool.
//
// Look-ahead and anchors are exact, except inside an unbounded repeat, where they are refused. Refused by name: back
// references, look-behind and word boundaries.

#include <string_view>

#include "base/result.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {

inline constexpr size_t kMaxRegexBytes = 64u << 10;

struct RegexOptions {
  bool is_search = false;     // true: matches anywhere in the text, as `pattern` of JSON Schema; false: the whole text
  bool ignores_case = false;  // the flag i
  bool dot_is_all = false;    // the flag s
};

// Errors, with the byte: invalid_argument (a syntax error), unsupported (a valid expression that is refused),
// limit_exceeded.
Result<Regex> parse_regex(std::string_view source, Spelling& spelling, const RegexOptions& options = {});

}  // namespace rocmforge::grammar
