#pragma once
// Schemas as shapes: every keyword is taken exactly or refused with its name and place.

#include <map>
#include <memory>

#include "base/result.h"
#include "grammar/schema_document.h"
#include "grammar/schema_shape.h"

namespace rocmforge::grammar {

class SchemaReader {
 public:
  SchemaReader(SchemaDocument& document, Scalars& scalars) : document_(document), scalars_(scalars) {}

  // The values for which all schemas hold. The view lives as long as the reader.
  Result<const Shapes*> shapes(const Conjunction& conjunction) { return shapes(conjunction, 0); }
  // Whether no value is both, as far as can be seen; false when in doubt.
  Result<bool> is_empty(const Conjunction& conjunction, uint32_t depth = 0);
  // The union of the values that are scalars, as one expression; kNothing when there are none.
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
  Result<bool> is_empty(const Shape& shape, uint32_t depth);
  Result<std::optional<uint64_t>> count(const SchemaPlace& place, std::string_view keyword);
  Result<std::vector<SignedSchema>> schemas_of(const SchemaPlace& place, std::string_view keyword);
  Result<Conjunction> schema_of(const SchemaPlace& place, std::string_view keyword);
  Result<Shapes> all_of(const Shapes& a, const Shapes& b, const SchemaPlace& place);

  SchemaDocument& document_;
  Scalars& scalars_;
  std::map<Conjunction, std::unique_ptr<const Shapes>> known_;
};

// The texts of a JSON Schema format as a regular expression; null for formats that only annotate.
const char* format_pattern(std::string_view name);

}  // namespace rocmforge::grammar
