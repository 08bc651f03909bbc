#pragma once
// Converts schemas to shapes. Every keyword is converted exactly, or refused with its name and place.

#include <map>
#include <memory>

#include "base/result.h"
#include "grammar/schema_document.h"
#include "grammar/schema_shape.h"

namespace rocmforge::grammar {

class SchemaReader {
 public:
  SchemaReader(SchemaDocument& document, Scalars& scalars) : document_(document), scalars_(scalars) {}

  // The values for which all schemas of the conjunction hold. The reader owns the result.
  Result<const Shapes*> shapes(const Conjunction& conjunction) { return shapes(conjunction, 0); }
  // Whether no value meets both, if that is decidable here; false if unknown.
  Result<bool> is_empty(const Conjunction& conjunction, uint32_t depth = 0);
  // The union of the scalar values as one expression; kNothing if there are none.
  Regex scalar_text(const Shapes& shapes);
  Scalars& scalars() { return scalars_; }

 private:
  Result<const Shapes*> shapes(const Conjunction& conjunction, uint32_t depth);
  Result<Shapes> read(SignedSchema schema, uint32_t depth);
  Result<Shapes> read_object(SignedSchema schema, uint32_t depth);
  Result<Shapes> with_types(const SchemaPlace& place);
  Result<void> add_number(Shape& shape, const SchemaPlace& place, bool& is_possible);
  Result<void> add_string(Shape& shape, const SchemaPlace& place, bool& is_possible);
  Result<void> add_array(Shape& shape, const SchemaPlace& place);
  Result<void> add_object(Shape& shape, const SchemaPlace& place);
  Result<Shapes> one_of(const std::vector<SignedSchema>& schemas, const SchemaPlace& place, uint32_t depth);
  Result<Shapes> dependencies(Shapes all, const SchemaPlace& place, uint32_t depth);
  Shapes value_shapes(const JsonValue& value, const SchemaPlace& place);
  Shapes enumeration(const JsonArray& values, const SchemaPlace& place);
  Result<bool> is_empty_as_read(const Conjunction& conjunction, uint32_t depth);
  Result<bool> is_empty(const Shape& shape, uint32_t depth);
  Result<std::optional<uint64_t>> count(const SchemaPlace& place, std::string_view keyword);
  Result<std::vector<SignedSchema>> schemas_of(const SchemaPlace& place, std::string_view keyword);
  Result<Conjunction> schema_of(const SchemaPlace& place, std::string_view keyword);
  Result<Shapes> all_of(const Shapes& a, const Shapes& b, const SchemaPlace& place);

  SchemaDocument& document_;
  Scalars& scalars_;
  std::map<Conjunction, std::unique_ptr<const Shapes>> known_;
  std::vector<Conjunction> asked_;  // the calls of is_empty() that have not returned
};

// A regular expression for the texts of a JSON Schema format; null for formats that are annotations only.
const char* format_pattern(std::string_view name);

}  // namespace rocmforge::grammar
