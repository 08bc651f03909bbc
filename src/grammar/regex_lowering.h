#pragma once
// Lowers a parsed regular expression to an expression of a pool.

#include <vector>

#include "base/result.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {

struct RegexTree {
  enum class Kind : uint8_t { chars, sequence, either, repeat, look, begin, end };
  Kind kind = Kind::sequence;
  CharSet set = {};
  uint32_t least = 0, most = 0;
  bool is_negative = false;  // a negative look-ahead
  std::vector<RegexTree> parts = {};
};

// Errors: unsupported (an assertion inside an unbounded repeat)
Result<Regex> lower_regex(const RegexTree& tree, Spelling& spelling, bool is_search);

}  // namespace rocmforge::grammar
