#include "grammar/json_schema.h"

#include <fmt/core.h>

#include "grammar/regex_parser.h"
#include "grammar/schema_lowering.h"

namespace rocmforge::grammar {
namespace {

Result<SchemaLowering> make_lowering(Grammar& grammar, SchemaReader& reader, const SchemaOptions& options) {
  SchemaLowering out(grammar, reader, options);
  if (!options.white_space) return out;
  RegexPool& pool = grammar.pool;
  Spelling chars(pool, Spelling::Form::utf8);
  auto space = parse_regex(*options.white_space, chars);
  if (!space.ok()) return std::move(space).error().in("white space");
  std::vector<Regex> blanks;
  for (const char c : {' ', '\t', '\r', '\n'}) blanks.push_back(pool.byte(static_cast<uint8_t>(c)));
  out.set_space(pool.both(*space, pool.star(pool.either(std::move(blanks)))));
  return out;
}

}  // namespace

Result<RuleId> add_schema_text(Grammar& grammar, std::string_view text, const SchemaOptions& options) {
  if (text.size() > kMaxSchemaBytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("schema: {} bytes; at most {} are read", text.size(), kMaxSchemaBytes)};
  }
  auto schema = parse_json(text, {.max_depth = 200});
  if (!schema.ok()) return std::move(schema).error().in("schema");
  return add_schema(grammar, *schema, options);
}

Result<RuleId> add_schema(Grammar& grammar, const JsonValue& schema, const SchemaOptions& options) {
  SchemaDocument document = TRY(SchemaDocument::read(schema));
  Scalars scalars(grammar.pool, options.syntax);
  SchemaReader reader(document, scalars);
  return TRY(make_lowering(grammar, reader, options)).add({document.root()});
}

Result<RuleId> add_object(Grammar& grammar, const JsonValue& schema, const SchemaOptions& options) {
  SchemaDocument document = TRY(SchemaDocument::read(schema));
  Scalars scalars(grammar.pool, options.syntax);
  SchemaReader reader(document, scalars);
  return TRY(make_lowering(grammar, reader, options)).add_objects({document.root()});
}

Result<RuleId> add_members(Grammar& grammar, const JsonValue& schema, const SchemaOptions& options,
                           const MemberSyntax& members) {
  SchemaDocument document = TRY(SchemaDocument::read(schema));
  Scalars scalars(grammar.pool, options.syntax), raw_scalars(grammar.pool, {.chars = Spelling::Form::utf8});
  SchemaReader reader(document, scalars), raw_reader(document, raw_scalars);
  return TRY(make_lowering(grammar, reader, options)).add_members({document.root()}, members, raw_reader);
}

}  // namespace rocmforge::grammar
