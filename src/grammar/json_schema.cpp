#include "grammar/json_schema.h"

#include <fmt/core.h>

#include "grammar/schema_lowering.h"

namespace rocmforge::grammar {

Result<std::unique_ptr<Grammar>> compile_schema_text(std::string_view text, const SchemaOptions& options) {
  if (text.size() > kMaxSchemaBytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("schema: {} bytes; at most {} are read", text.size(), kMaxSchemaBytes)};
  }
  auto schema = parse_json(text, {.max_depth = 200});
  if (!schema.ok()) return std::move(schema).error().in("schema");
  return compile_schema(*schema, options);
}

Result<std::unique_ptr<Grammar>> compile_schema(const JsonValue& schema, const SchemaOptions& options) {
  auto grammar = std::make_unique<Grammar>();
  SchemaDocument document = TRY(SchemaDocument::read(schema));
  Scalars scalars(grammar->pool);
  SchemaReader reader(document, scalars);
  SchemaLowering lowering(*grammar, reader, options);
  TRY(lowering.run({document.root()}));
  return grammar;
}

}  // namespace rocmforge::grammar
