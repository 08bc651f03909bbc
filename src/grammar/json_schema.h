#pragma once
// JSON Schema as a grammar: exact, or refused with the keyword and the JSON pointer.

#include <memory>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/rules.h"

namespace rocmforge::grammar {

inline constexpr size_t kMaxSchemaBytes = 1u << 20;

struct SchemaOptions {
  // Keys in any order, up to 64 of them; else as the schema lists them, others last.
  bool any_order = true;
  bool has_white_space = true;  // at most a line break and 32 blanks, or one blank, between tokens
};

// unsupported, invalid_argument, limit_exceeded
Result<std::unique_ptr<Grammar>> compile_schema(const JsonValue& schema, const SchemaOptions& options = {});
Result<std::unique_ptr<Grammar>> compile_schema_text(std::string_view text, const SchemaOptions& options = {});

}  // namespace rocmforge::grammar
