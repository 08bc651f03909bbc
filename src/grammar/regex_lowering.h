#pragma once
// A parsed regular expression, and its language as an expression of a pool.

#include <vector>

#include "base/result.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {

struct RegexTree {
  enum class Kind : uint8_t { chars, sequence, either, repeat, look, begin, end };
  Kind kind = Kind::sequence;
  CharSet set = {};
  uint32_t least = 0, most = 0;
  bool is_negative = false;  // of a look-ahead
  std::vector<RegexTree> parts = {};
};

// unsupported: an assertion inside what repeats without bound
Result<Regex> lower_regex(const RegexTree& tree, Spelling& spelling, bool is_search);

}  // namespace rocmforge::grammar
