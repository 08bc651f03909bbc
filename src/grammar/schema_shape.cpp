#include "grammar/schema_shape.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge::grammar {
namespace {

constexpr size_t kMaxShapes = 2'000;

Error no_complement(const Shape& shape, std::string_view what) {
  return {ErrorCode::unsupported,
          fmt::format("schema: the complement of {} at '{}' is not supported", what, shape.pointer)};
}

Regex exact_text(const Shape& number, Scalars& scalars) {
  switch (number.number) {
    case Shape::Number::any:
      return scalars.plain_decimal();
    case Shape::Number::integer:
      return scalars.plain_integer();
    default:
      return number.text;
  }
}

bool keep_common_values(Shape& out, const Shape& a, const Shape& b, Scalars& scalars) {
  if (!a.is_finite && !b.is_finite) return true;
  const Shape& finite = a.is_finite ? a : b;
  out.is_finite = true;
  out.values.clear();
  for (const std::string& value : finite.values) {
    const bool is_in = out.type == JsonType::string ? scalars.chars().matches(out.text, value)
                                                    : scalars.pool().matches(exact_text(out, scalars), value);
    if (is_in) out.values.push_back(value);
  }
  return !out.values.empty();
}

bool intersect_arrays(ArrayShape& out, const ArrayShape& a, const ArrayShape& b) {
  const size_t n = std::max(a.prefix.size(), b.prefix.size());
  for (size_t i = 0; i < n; i++) {
    out.prefix.push_back(merge(i < a.prefix.size() ? a.prefix[i] : a.rest, i < b.prefix.size() ? b.prefix[i] : b.rest));
  }
  out.rest = merge(a.rest, b.rest);
  out.least = std::max(a.least, b.least);
  out.most = std::min(a.most, b.most);
  out.contains = a.contains;
  out.contains.insert(out.contains.end(), b.contains.begin(), b.contains.end());
  out.is_unique = a.is_unique || b.is_unique;
  return out.least <= out.most;
}

bool intersect_objects(ObjectShape& out, const ObjectShape& a, const ObjectShape& b) {
  out = a;
  out.clauses.insert(out.clauses.end(), b.clauses.begin(), b.clauses.end());
  for (const std::string& key : b.required) {
    if (std::ranges::find(out.required, key) == out.required.end()) out.required.push_back(key);
  }
  out.names.insert(out.names.end(), b.names.begin(), b.names.end());
  out.least = std::max({a.least, b.least, uint64_t{out.required.size()}});
  out.most = std::min(a.most, b.most);
  return out.least <= out.most;
}

Conjunction negated(SignedSchema schema) {
  return {-schema};
}

void complement_array(Shapes& out, const Shape& shape, Scalars& scalars) {
  const ArrayShape& a = shape.array;
  const auto add = [&](ArrayShape array) {
    Shape s = any_of_type(JsonType::array, scalars);
    s.array = std::move(array);
    s.pointer = shape.pointer;
    out.push_back(std::move(s));
  };
  if (a.least > 0) add({.prefix = {}, .rest = {}, .most = a.least - 1, .contains = {}});
  if (a.most != kNoLimit) add({.prefix = {}, .rest = {}, .least = a.most + 1, .contains = {}});
  for (size_t i = 0; i < a.prefix.size(); i++) {
    for (const SignedSchema schema : a.prefix[i]) {
      ArrayShape one{.prefix = std::vector<Conjunction>(i), .rest = {}, .least = i + 1, .contains = {}};
      one.prefix.push_back(negated(schema));
      add(std::move(one));
    }
  }
  for (const ArrayShape::Contains& c : a.contains) {
    if (c.least > 0) add({.prefix = {}, .rest = {}, .contains = {{c.schema, 0, c.least - 1}}});
    if (c.most != kNoLimit) add({.prefix = {}, .rest = {}, .contains = {{c.schema, c.most + 1, kNoLimit}}});
  }
}

Result<void> complement_object(Shapes& out, const Shape& shape, Scalars& scalars) {
  const ObjectShape& o = shape.object;
  const auto add = [&](ObjectShape object) {
    Shape s = any_of_type(JsonType::object, scalars);
    s.object = std::move(object);
    s.pointer = shape.pointer;
    out.push_back(std::move(s));
  };
  const auto with_key = [](const std::string& key, Conjunction schema, bool is_required) {
    ObjectShape object;
    object.clauses.push_back({.properties = {{key, std::move(schema)}}, .patterns = {}, .additional = {}});
    if (is_required) object.required.push_back(key);
    object.least = is_required;
    return object;
  };
  if (!o.names.empty()) return no_complement(shape, "'propertyNames'");
  for (const ObjectShape::Clause& clause : o.clauses) {
    if (!clause.patterns.empty()) return no_complement(shape, "'patternProperties'");
    if (!clause.additional.empty()) return no_complement(shape, "'additionalProperties'");
    for (const auto& [key, conjunction] : clause.properties) {
      for (const SignedSchema schema : conjunction) add(with_key(key, negated(schema), true));
    }
  }
  for (const std::string& key : o.required) add(with_key(key, {kFalseSchema}, false));
  if (o.least > o.required.size()) {
    ObjectShape few;
    few.most = o.least - 1;
    add(std::move(few));
  }
  if (o.most != kNoLimit) {
    ObjectShape many;
    many.least = o.most + 1;
    add(std::move(many));
  }
  return {};
}

Result<Shapes> complement(const Shape& shape, Scalars& scalars) {
  Shapes out;
  for (size_t t = 0; t < kJsonTypes; t++) {
    if (static_cast<JsonType>(t) != shape.type) out.push_back(any_of_type(static_cast<JsonType>(t), scalars));
  }
  Shape rest = any_of_type(shape.type, scalars);
  rest.pointer = shape.pointer;
  switch (shape.type) {
    case JsonType::null:
      break;
    case JsonType::boolean:
      rest.has_false = !shape.has_false;
      rest.has_true = !shape.has_true;
      if (rest.has_false || rest.has_true) out.push_back(std::move(rest));
      break;
    case JsonType::number:
      if (shape.number == Shape::Number::any) break;
      rest.number = Shape::Number::exact;
      rest.text = scalars.pool().both(scalars.plain_decimal(), scalars.pool().negate(exact_text(shape, scalars)));
      out.push_back(std::move(rest));
      break;
    case JsonType::string:
      rest.text = scalars.chars().complement(shape.text);
      if (scalars.pool().is_alive(rest.text)) out.push_back(std::move(rest));
      break;
    case JsonType::array:
      if (shape.array.is_unique) return no_complement(shape, "'uniqueItems'");
      for (const SignedSchema schema : shape.array.rest) {
        if (!shape.array.prefix.empty()) return no_complement(shape, "'items' behind 'prefixItems'");
        Shape s = rest;
        s.array.contains.push_back({{-schema}, 1, kNoLimit});
        s.array.least = 1;
        out.push_back(std::move(s));
      }
      complement_array(out, shape, scalars);
      break;
    case JsonType::object:
      TRY(complement_object(out, shape, scalars));
      break;
  }
  return out;
}

}  // namespace

Conjunction merge(const Conjunction& a, const Conjunction& b) {
  Conjunction out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

Conjunction schema_of_key(const ObjectShape::Clause& clause, const std::string& key, const Scalars& scalars) {
  Conjunction out;
  bool is_known = false;
  for (const auto& [name, schema] : clause.properties) {
    if (name == key) out = merge(out, schema), is_known = true;
  }
  for (const auto& [pattern, schema] : clause.patterns) {
    if (scalars.chars().matches(pattern, key)) out = merge(out, schema), is_known = true;
  }
  return is_known ? out : clause.additional;
}

Shape any_of_type(JsonType type, Scalars& scalars) {
  Shape out;
  out.type = type;
  if (type == JsonType::string) out.text = scalars.chars().any_text();
  return out;
}

Shapes any_value(Scalars& scalars) {
  Shapes out;
  for (size_t t = 0; t < kJsonTypes; t++) out.push_back(any_of_type(static_cast<JsonType>(t), scalars));
  return out;
}

Shapes intersection(const Shape& a, const Shape& b, Scalars& scalars) {
  if (a.type != b.type) return {};
  Shape out = a;
  bool is_possible = true;
  switch (a.type) {
    case JsonType::null:
      break;
    case JsonType::boolean:
      out.has_false = a.has_false && b.has_false;
      out.has_true = a.has_true && b.has_true;
      is_possible = out.has_false || out.has_true;
      break;
    case JsonType::number:
      if (a.number == Shape::Number::any) {
        out.number = b.number;
        out.text = b.text;
      } else if (b.number == Shape::Number::exact ||
                 (a.number == Shape::Number::exact && b.number != Shape::Number::any)) {
        out.number = Shape::Number::exact;
        out.text = scalars.pool().both(exact_text(a, scalars), exact_text(b, scalars));
        is_possible = scalars.pool().is_alive(out.text);
      }
      is_possible = is_possible && keep_common_values(out, a, b, scalars);
      break;
    case JsonType::string:
      if (a.text != b.text) {
        const Regex any = scalars.chars().any_text();
        out.text = a.text == any ? b.text : b.text == any ? a.text : scalars.pool().both(a.text, b.text);
        is_possible = scalars.pool().is_alive(out.text);
      }
      is_possible = is_possible && keep_common_values(out, a, b, scalars);
      break;
    case JsonType::array:
      out.array = {};
      is_possible = intersect_arrays(out.array, a.array, b.array);
      break;
    case JsonType::object:
      is_possible = intersect_objects(out.object, a.object, b.object);
      break;
  }
  if (!is_possible) return {};
  return {std::move(out)};
}

Result<Shapes> intersection(const Shapes& a, const Shapes& b, Scalars& scalars) {
  Shapes out;
  for (const Shape& x : a) {
    for (const Shape& y : b) {
      for (Shape& shape : intersection(x, y, scalars)) out.push_back(std::move(shape));
    }
    if (out.size() > kMaxShapes || scalars.pool().is_exhausted()) {
      return Error{ErrorCode::limit_exceeded,
                   fmt::format("schema: more than {} alternatives at '{}'", kMaxShapes, a[0].pointer)};
    }
  }
  return out;
}

Result<Shapes> complement(const Shapes& shapes, Scalars& scalars) {
  Shapes out = any_value(scalars);
  for (const Shape& shape : shapes) out = TRY(intersection(out, TRY(complement(shape, scalars)), scalars));
  return out;
}

}  // namespace rocmforge::grammar
