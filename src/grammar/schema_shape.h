#pragma once
// What a JSON Schema allows, by type of value: a union of shapes, each of one type. Schemas inside stay names of
// schemas that must all hold, so that recursive ones are finite.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {

// A schema of the document, from 1 on; negative: its complement.
using SignedSchema = int32_t;
// Schemas that all hold, ascending; none: everything is allowed.
using Conjunction = std::vector<SignedSchema>;

inline constexpr SignedSchema kFalseSchema = 1;  // allows nothing
inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

enum class JsonType : uint8_t { null, boolean, number, string, array, object };
inline constexpr size_t kJsonTypes = 6;

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
  // Of one schema: what it says of a key depends on all of these.
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
  enum class Number : uint8_t { any, integer, exact };  // exact: `text`, plain decimals only

  JsonType type = JsonType::null;
  bool has_false = true, has_true = true;  // boolean
  Number number = Number::any;
  Regex text = kNothing;            // number: as it is written; string: what stands between the quotes
  bool is_finite = false;           // number, string: `values` are all that there are
  std::vector<std::string> values;  // their texts; of numbers as decimal_text() gives them
  ArrayShape array = {};
  ObjectShape object = {};
  std::string pointer = {};  // where the schema is, for messages
};
using Shapes = std::vector<Shape>;

// A number's digits: "-12.5", without zeros that mean nothing; "0" is not negative.
std::string decimal_text(const JsonValue& number);

// Expressions of numbers and strings that shapes are made of.
class Scalars {
 public:
  explicit Scalars(RegexPool& pool) : pool_(&pool), chars_(pool, Spelling::Form::json) {}

  RegexPool& pool() { return *pool_; }
  Spelling& chars() { return chars_; }
  const Spelling& chars() const { return chars_; }
  Regex plain_decimal();  // no exponent
  Regex plain_integer();  // of those, the integers: also 1.0
  Regex any_number();
  Regex any_integer();
  Regex equal_to(const std::string& decimal);
  Regex compared(NumberRelation relation, const std::string& bound);
  Regex multiple_of(const std::string& divisor);  // REQUIRES: positive, fits_divisor()
  static bool fits_divisor(const std::string& divisor);

 private:
  Regex signed_number(Regex positive, Regex negative);
  Regex magnitude(NumberRelation relation, const std::string& bound);

  RegexPool* pool_;
  Spelling chars_;
};

Shape any_of_type(JsonType type, Scalars& scalars);
Shapes any_value(Scalars& scalars);

// Nothing when no value is in both, as far as that is seen without looking into arrays and objects.
Shapes intersection(const Shape& a, const Shape& b, Scalars& scalars);
// limit_exceeded
Result<Shapes> intersection(const Shapes& a, const Shapes& b, Scalars& scalars);
// unsupported: the complement needs what no shape has
Result<Shapes> complement(const Shapes& shapes, Scalars& scalars);

Conjunction merge(const Conjunction& a, const Conjunction& b);
// What a clause says of a key that it may declare.
Conjunction schema_of_key(const ObjectShape::Clause& clause, const std::string& key, const Scalars& scalars);

}  // namespace rocmforge::grammar
