#pragma once
// Arithmetic, subscripts and slices.

#include <optional>

#include "base/result.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {

// Integers have 64 bits; overflow is an error.
Result<Value> arithmetic(Runtime& rt, BinaryOp op, const Value& a, const Value& b);
Result<Value> negate(const Value& value);
Result<Value> unary_plus(const Value& value);

// value[key] and value.name by Jinja's rules: the first looks for an item, then for an attribute, the second in reverse
// order. A missing item or attribute is undefined; accessing an undefined value is an error.
Result<Value> get_item(Runtime& rt, const Value& value, const Value& key);
Result<Value> get_attribute(Runtime& rt, const Value& value, std::string_view name);
// The attribute alone, or nothing: properties and methods, and the names of a namespace.
Result<std::optional<Value>> find_attribute(Runtime& rt, const Value& value, std::string_view name);

// value[start:stop:step]; none is a bound left out.
Result<Value> slice(Runtime& rt, const Value& value, const Value& start, const Value& stop, const Value& step);

// Start and end for str.find and the like: negative ones count from the end, both clamped to the length.
struct Span {
  int64_t start, stop;
};
Result<Span> clamp_span(const Value* start, const Value* stop, size_t length);

}  // namespace rocmforge::jinja
