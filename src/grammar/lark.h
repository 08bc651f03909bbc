#pragma once
// A subset of Lark's notation: rules, terminals, regular expressions, %import of common terminals, %ignore.
//
// There is no longest match: a text is in the language if any split into terminals is. Priorities are accepted and have
// no effect, because they never exclude a text.

#include <memory>
#include <string_view>

#include "base/result.h"
#include "grammar/rules.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {

// invalid_argument and unsupported name the line.
Result<RuleId> add_lark(Grammar& grammar, std::string_view source);

// The same as one expression, spelled as `chars` spells: for texts inside of other texts. unsupported: also where a
// rule is part of itself.
Result<Regex> lark_regex(std::string_view source, Spelling& chars);

}  // namespace rocmforge::grammar
