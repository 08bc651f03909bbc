#pragma once
// The methods of strings, dicts, lists and other values, except those that modify: a template cannot change its input.

#include <string_view>

#include "chat/jinja/ast.h"
#include "chat/jinja/value.h"

namespace rocmforge::jinja {

struct NamedCallable {
  std::string_view name;
  Callable body;
};

// Null when the value has no such method.
Callable find_method(const Value& value, std::string_view name);
// Whether Python has such a method and the sandbox forbids it.
bool is_forbidden_method(const Value& value, std::string_view name);

Callable find_string_method(std::string_view name);
Callable find_string_query(std::string_view name);  // methods that return a number or a boolean
Callable find_loop_method(std::string_view name);

}  // namespace rocmforge::jinja
