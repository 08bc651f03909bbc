#pragma once
// A schema of which one keyword cannot be enforced, without it: so that the rest still is.

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace rocmforge::chat {

struct RelaxedSchema {
  JsonValue schema;
  std::string pointer;  // of what was removed
};

// Removes the keyword that the error of add_schema() points to. Where that keyword stands inside of one that it could
// make stricter without it (not, if, oneOf), that one is removed. Every value of the schema is one of the result.
// Nothing if the error points to no keyword.
std::optional<RelaxedSchema> relax_schema(const JsonValue& schema, const Error& error);

}  // namespace rocmforge::chat
