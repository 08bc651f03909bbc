#pragma once
// ECMA-262 regular expressions (Unicode mode, Annex B's literal braces) as expressions of a pool.
//
// Look-ahead and anchors are exact wherever they stand, except inside what repeats without bound. Refused by name: back
// references, look-behind and word boundaries.

#include <string_view>

#include "base/result.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {

inline constexpr size_t kMaxRegexBytes = 64u << 10;

struct RegexOptions {
  bool is_search = false;     // anywhere in the text, as `pattern` of JSON Schema; else the whole text
  bool ignores_case = false;  // i
  bool dot_is_all = false;    // s
};

// invalid_argument: no regular expression. unsupported: one that is not done. limit_exceeded. Each names the byte.
Result<Regex> parse_regex(std::string_view source, Spelling& spelling, const RegexOptions& options = {});

}  // namespace rocmforge::grammar
