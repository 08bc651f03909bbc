#pragma once
// The `attribute` argument of map, sort, join and others: a name, a number, or several joined by dots.

#include <optional>
#include <vector>

#include "base/result.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {

// A string in lower case; anything else as it is.
Value fold_case(const Value& value);

class AttributePath {
 public:
  // No attribute (null or none) means the item itself. With `ignore_case`, strings found are lower-cased.
  static Result<AttributePath> from(const Value* attribute, bool ignore_case = false);
  // "a.b,c" as several paths.
  static Result<std::vector<AttributePath>> several_from(const Value* attribute, bool ignore_case);

  void set_default(Value value) { default_ = std::move(value); }
  void keep_case() { ignore_case_ = false; }

  Result<Value> of(Runtime& rt, const Value& item) const;

 private:
  std::vector<Value> parts_;
  bool ignore_case_ = false;
  std::optional<Value> default_;  // for a part that is undefined
};

}  // namespace rocmforge::jinja
