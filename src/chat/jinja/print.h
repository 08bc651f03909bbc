#pragma once
// Values as text: str(), repr() and json.dumps().

#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {

Result<void> print_str(Builder& out, const Value& value);
Result<void> print_repr(Builder& out, const Value& value);
Result<std::string> to_str(Runtime& rt, const Value& value);
Result<std::string> to_repr(Runtime& rt, const Value& value);
// str(value) as a value: a string stays itself, escaped or not (Jinja's soft_str).
Result<Value> to_soft_str(Runtime& rt, const Value& value);
// Replaces & < > " ' by entities, unless the value is escaped already (Jinja's escape).
Result<Value> to_escaped(Runtime& rt, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent;  // per level, when multiline
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Result<std::string> to_json(Runtime& rt, const Value& value, const JsonStyle& style);

}  // namespace rocmforge::jinja
