#pragma once
// A JSON Schema document: its schemas by number, with their pointers, and the targets of references.

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/schema_shape.h"

namespace rocmforge::grammar {

struct SchemaPlace {
  const JsonValue* value = nullptr;
  std::string pointer;
  std::string base;                      // the base URI of relative references
  bool ignores_siblings_of_ref = false;  // true up to draft 7
};

class SchemaDocument {
 public:
  // The value must outlive the document. Errors: limit_exceeded, unsupported
  static Result<SchemaDocument> read(const JsonValue& root);

  SignedSchema root() const { return root_; }
  const SchemaPlace& place(SignedSchema schema) const { return places_[static_cast<size_t>(schema)]; }
  // The schema at a member of another schema. REQUIRES: the value is part of the document
  SignedSchema at(const JsonValue& value, const SchemaPlace& parent, const std::string& path);
  // {"const": value}
  SignedSchema constant(const JsonValue& value, const std::string& pointer);
  // Errors: unsupported, with the reference
  Result<SignedSchema> resolve(const std::string& reference, const SchemaPlace& from);

 private:
  void index(const JsonValue& value, const std::string& pointer, std::string base, uint32_t depth);

  std::vector<SchemaPlace> places_;
  std::unordered_map<const JsonValue*, SignedSchema> ids_;
  std::map<std::string, SignedSchema> by_uri_;
  std::deque<JsonValue> made_;
  std::unordered_map<const JsonValue*, SignedSchema> constants_;
  SignedSchema root_ = 0;
  bool is_old_ = false;
};

std::string pointer_token(std::string_view key);
Error schema_error(ErrorCode code, std::string_view keyword, const SchemaPlace& place, std::string_view why);

}  // namespace rocmforge::grammar
