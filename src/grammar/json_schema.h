#pragma once
// Compiles a JSON Schema to rules that are exact. A schema that cannot be exact is refused, with the keyword and its
// JSON pointer.

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/rules.h"
#include "grammar/value_syntax.h"

namespace rocmforge::grammar {

inline constexpr size_t kMaxSchemaBytes = 1u << 20;

struct SchemaOptions {
  // True: keys in any order, for up to 64 declared keys. False: in the schema's order, undeclared keys last.
  bool any_order = true;
  bool has_white_space = true;  // at most a line break and 32 blanks, or one blank, between tokens
  // A regular expression for the white space between tokens instead; of it texts of white space alone.
  std::optional<std::string> white_space = {};
  ValueSyntax syntax = {};
};

// Adds rules to a grammar that is not finished; returns the rule of the schema's values. Errors: unsupported,
// invalid_argument, limit_exceeded.
Result<RuleId> add_schema(Grammar& grammar, const JsonValue& schema, const SchemaOptions& options);
Result<RuleId> add_schema_text(Grammar& grammar, std::string_view text, const SchemaOptions& options);
// The same for its objects alone, and for their members.
Result<RuleId> add_object(Grammar& grammar, const JsonValue& schema, const SchemaOptions& options);
Result<RuleId> add_members(Grammar& grammar, const JsonValue& schema, const SchemaOptions& options,
                           const MemberSyntax& members);

}  // namespace rocmforge::grammar
