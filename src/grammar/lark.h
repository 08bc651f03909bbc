#pragma once
// A subset of Lark's notation: rules, terminals, regular expressions, %import of common terminals, %ignore.
//
// There is no longest match: a text is in the language when it can be split into terminals in any way. Priorities are
// read and have no effect, since they never exclude a text.

#include <memory>
#include <string_view>

#include "base/result.h"
#include "grammar/rules.h"

namespace rocmforge::grammar {

// invalid_argument and unsupported name the line.
Result<std::unique_ptr<Grammar>> compile_lark(std::string_view source);

}  // namespace rocmforge::grammar
