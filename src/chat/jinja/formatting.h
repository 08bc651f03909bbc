#pragma once
// Python's three ways to format: the operator %, str.format and the mini-language of format().

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {

// format(value, spec)
Result<std::string> format_value(Runtime& rt, const Value& value, std::string_view spec);

// pattern % argument. REQUIRES: pattern is a string
Result<Value> format_percent(Runtime& rt, const Value& pattern, const Value& argument);

// pattern.format(*args.positional, **args.named); fields reach attributes by the sandbox's rules.
// REQUIRES: pattern is a string
Result<Value> format_braces(Runtime& rt, const Value& pattern, const Args& args);

// A number in the C notations e, f and g (and E, F, G) with the given number of digits.
Result<std::string> format_c_real(Runtime& rt, double value, char type, int64_t precision, bool alternate);
// The magnitude of an integer in base 2, 8, 10 or 16.
std::string format_magnitude(int64_t value, int base, bool upper);

}  // namespace rocmforge::jinja
