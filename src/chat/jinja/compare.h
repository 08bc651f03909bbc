#pragma once
// Truth, equality, order and membership of values, and iteration over a value.

#include <optional>
#include <vector>

#include "base/result.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {

bool is_true(const Value& value);

Result<bool> equals(Runtime& rt, const Value& a, const Value& b);
Result<bool> less_than(Runtime& rt, const Value& a, const Value& b);
Result<bool> contains(Runtime& rt, const Value& container, const Value& item);
Result<bool> compare(Runtime& rt, CompareOp op, const Value& a, const Value& b);
// `a is b` of Python.
bool is_same(const Value& a, const Value& b);

// Whether the value can be a key of a dict; an error names the type that cannot.
Result<void> check_hashable(Runtime& rt, const Value& key);

// len(value); an error if the value has no length.
Result<size_t> length_of(const Value& value);
// The length, or nullopt if the value has none.
std::optional<size_t> find_length(const Value& value);

// One pass over a value. Iterators are used up; everything else can be walked again.
class Walk {
 public:
  static Result<Walk> over(Value value);
  Result<std::optional<Value>> next();

 private:
  explicit Walk(Value source) : source_(std::move(source)) {}
  Value source_;
  size_t at_ = 0;
};

bool is_iterable(const Value& value);
// All items, as list(value) gives them.
Result<std::vector<Value>> to_vector(Runtime& rt, const Value& value);
// The items in reverse order, or nullopt if the value cannot be iterated backwards.
Result<std::optional<std::vector<Value>>> to_reversed(Runtime& rt, const Value& value);

// Sorts by `keys`, carrying `items` along; equal keys keep their order. REQUIRES: as many keys as items
Result<std::vector<Value>> sort_by(Runtime& rt, std::vector<Value> items, const std::vector<Value>& keys, bool reverse);

}  // namespace rocmforge::jinja
