#pragma once
// The values that a JSON Schema allows: a union of shapes, each of one type. Inner schemas stay references (lists of
// schemas that must all hold), so that recursive schemas are finite.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/spelling.h"
#include "grammar/value_syntax.h"

namespace rocmforge::grammar {

// A schema of the document, numbered from 1; negative: its complement.
using SignedSchema = int32_t;
// Schemas that must all hold, ascending; empty: every value is allowed.
using Conjunction = std::vector<SignedSchema>;

inline constexpr SignedSchema kFalseSchema = 1;  // allows no value
inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct ArrayShape {
  struct Contains {
    Conjunction schema;
    uint64_t least = 1, most = kNoLimit;
  };
  std::vector<Conjunction> prefix;
  Conjunction rest;
  uint64_t least = 0, most = kNoLimit;
  std::vector<Contains> contains;
  bool is_unique = false;
};

struct ObjectShape {
  // The keywords of one schema about keys; together they decide on each key.
  struct Clause {
    std::vector<std::pair<std::string, Conjunction>> properties;
    std::vector<std::pair<Regex, Conjunction>> patterns;
    Conjunction additional;
  };
  std::vector<Clause> clauses;
  std::vector<std::string> required;
  std::vector<Regex> names;  // every key matches all of these
  uint64_t least = 0, most = kNoLimit;
};

struct Shape {
  enum class Number : uint8_t { any, integer, exact };  // exact: the texts of `text`, plain decimals only

  JsonType type = JsonType::null;
  bool has_false = true, has_true = true;  // boolean
  Number number = Number::any;
  Regex text = kNothing;            // number: its spelling; string: the text between the quotes
  bool is_finite = false;           // number, string: `values` lists all values
  std::vector<std::string> values;  // texts; numbers as decimal_text() spells them
  ArrayShape array = {};
  ObjectShape object = {};
  std::string pointer = {};  // the schema's JSON pointer, for messages
};
using Shapes = std::vector<Shape>;

// A number as a plain decimal: "-12.5", without superfluous zeros; zero is "0".
std::string decimal_text(const JsonValue& number);

// The expressions of numbers and strings in shapes.
class Scalars {
 public:
  explicit Scalars(RegexPool& pool, ValueSyntax syntax = {})
      : pool_(&pool), syntax_(std::move(syntax)), chars_(pool, syntax_.chars) {}

  RegexPool& pool() { return *pool_; }
  Spelling& chars() { return chars_; }
  const Spelling& chars() const { return chars_; }
  Regex plain_decimal();  // no exponent
  Regex plain_integer();  // the integers among them, 1.0 included
  Regex any_number();
  Regex any_integer();
  Regex equal_to(const std::string& decimal);
  Regex compared(NumberRelation relation, const std::string& bound);
  Regex multiple_of(const std::string& divisor);  // REQUIRES: positive, fits_divisor()
  static bool fits_divisor(const std::string& divisor);

  // How values of a shape are written. REQUIRES: not an array or object
  Regex spelled(const Shape& scalar);
  Regex null_word() { return word("null", "None"); }
  Regex boolean(bool value) { return value ? word("true", "True") : word("false", "False"); }
  Regex quoted(Regex text);
  Regex key(Regex text);

 private:
  Regex word(std::string_view json, std::string_view python);
  Regex signed_number(Regex positive, Regex negative);
  Regex magnitude(NumberRelation relation, const std::string& bound);

  RegexPool* pool_;
  ValueSyntax syntax_;
  Spelling chars_;
};

Shape any_of_type(JsonType type, Scalars& scalars);
Shapes any_value(Scalars& scalars);

// Empty if no value is in both, as far as that is known without looking into arrays and objects.
Shapes intersection(const Shape& a, const Shape& b, Scalars& scalars);
// Errors: limit_exceeded
Result<Shapes> intersection(const Shapes& a, const Shapes& b, Scalars& scalars);
// Errors: unsupported (no shape can express the complement)
Result<Shapes> complement(const Shapes& shapes, Scalars& scalars);

Conjunction merge(const Conjunction& a, const Conjunction& b);
// The schemas that a clause applies to a key.
Conjunction schema_of_key(const ObjectShape::Clause& clause, const std::string& key, const Scalars& scalars);

}  // namespace rocmforge::grammar
