// Keywords that speak of one type of value.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "grammar/lark.h"
#include "grammar/regex_parser.h"
#include "grammar/schema_reader.h"

namespace rocmforge::grammar {
namespace {

bool is_number(const JsonValue& value) {
  return value.as<int64_t>() || value.as<uint64_t>() || value.as<double>();
}

std::optional<JsonType> type_named(std::string_view name) {
  constexpr std::string_view kNames[] = {"null", "boolean", "number", "string", "array", "object"};
  const auto at = std::ranges::find(kNames, name);
  if (at == std::end(kNames)) return {};
  return static_cast<JsonType>(at - std::begin(kNames));
}

Error wrong(std::string_view keyword, const SchemaPlace& place, std::string_view what) {
  return schema_error(ErrorCode::invalid_argument, keyword, place, what);
}

}  // namespace

Result<std::optional<uint64_t>> SchemaReader::count(const SchemaPlace& place, std::string_view keyword) {
  const JsonValue* value = place.value->find(keyword);
  if (!value) return std::optional<uint64_t>();
  const auto* d = value->as<double>();
  if (const auto* i = value->as<int64_t>(); i && *i >= 0) return std::optional(static_cast<uint64_t>(*i));
  if (value->as<uint64_t>() || (d && *d >= 1e18)) return std::optional(kNoLimit);
  if (d && *d >= 0 && std::floor(*d) == *d) return std::optional(static_cast<uint64_t>(*d));
  return wrong(keyword, place, "not a whole number from 0 on");
}

Result<std::vector<SignedSchema>> SchemaReader::schemas_of(const SchemaPlace& place, std::string_view keyword) {
  std::vector<SignedSchema> out;
  const JsonValue* value = place.value->find(keyword);
  if (!value) return out;
  const auto* array = value->as<JsonArray>();
  if (!array) return wrong(keyword, place, "not an array of schemas");
  for (size_t i = 0; i < array->size(); i++) {
    out.push_back(document_.at((*array)[i], place, pointer_token(keyword) + pointer_token(std::to_string(i))));
  }
  return out;
}

Result<Conjunction> SchemaReader::schema_of(const SchemaPlace& place, std::string_view keyword) {
  const JsonValue* value = place.value->find(keyword);
  if (!value) return Conjunction{};
  if (const auto* all = value->as<bool>()) return *all ? Conjunction{} : Conjunction{kFalseSchema};
  const auto* object = value->as<JsonObject>();
  if (!object) return wrong(keyword, place, "not a schema");
  if (object->empty()) return Conjunction{};
  return Conjunction{document_.at(*value, place, pointer_token(keyword))};
}

Result<void> SchemaReader::add_number(Shape& shape, const SchemaPlace& place, bool& is_possible) {
  using enum NumberRelation;
  std::vector<Regex> tests;
  const auto exclusive = [&](std::string_view keyword) {  // as draft 4 has it
    const JsonValue* value = place.value->find(keyword);
    const bool* flag = value ? value->as<bool>() : nullptr;
    return flag && *flag;
  };
  const auto add = [&](std::string_view keyword, NumberRelation relation) -> Result<void> {
    const JsonValue* value = place.value->find(keyword);
    if (!value || value->as<bool>()) return {};
    if (!is_number(*value)) return wrong(keyword, place, "not a number");
    tests.push_back(scalars_.compared(relation, decimal_text(*value)));
    return {};
  };
  TRY(add("minimum", exclusive("exclusiveMinimum") ? greater : greater_or_equal));
  TRY(add("maximum", exclusive("exclusiveMaximum") ? less : less_or_equal));
  TRY(add("exclusiveMinimum", greater));
  TRY(add("exclusiveMaximum", less));
  if (const JsonValue* value = place.value->find("multipleOf")) {
    if (!is_number(*value)) return wrong("multipleOf", place, "not a number");
    const std::string divisor = decimal_text(*value);
    if (divisor == "0" || divisor.starts_with('-')) return wrong("multipleOf", place, "not above zero");
    if (!Scalars::fits_divisor(divisor)) {
      return schema_error(ErrorCode::unsupported, "multipleOf", place, "more digits than are supported");
    }
    tests.push_back(scalars_.multiple_of(divisor));
  }
  if (tests.empty()) return {};
  tests.push_back(shape.number == Shape::Number::integer ? scalars_.plain_integer() : scalars_.plain_decimal());
  shape.number = Shape::Number::exact;
  shape.text = scalars_.pool().both(std::move(tests));
  is_possible = scalars_.pool().is_alive(shape.text);
  return {};
}

Result<void> SchemaReader::add_string(Shape& shape, const SchemaPlace& place, bool& is_possible) {
  std::vector<Regex> tests;
  const auto least = TRY(count(place, "minLength")), most = TRY(count(place, "maxLength"));
  constexpr uint64_t kMaxLength = 1'000'000'000;
  if (least || most) {
    const uint64_t from = least.value_or(0), to = most.value_or(kNoLimit);
    is_possible = from <= to;
    if (!is_possible) return {};
    if (from > kMaxLength) return schema_error(ErrorCode::limit_exceeded, "minLength", place, "too long");
    tests.push_back(scalars_.chars().any_text(static_cast<uint32_t>(from),
                                              to > kMaxLength ? kUnbounded : static_cast<uint32_t>(to)));
  }
  if (const JsonValue* value = place.value->find("pattern")) {
    const auto* source = value->as<std::string>();
    if (!source) return wrong("pattern", place, "not a string");
    auto pattern = parse_regex(*source, scalars_.chars(), {.is_search = true});
    if (!pattern.ok()) return schema_error(pattern.error().code, "pattern", place, pattern.error().message);
    tests.push_back(*pattern);
  }
  // Our own: the grammar of a tool's text.
  if (const JsonValue* value = place.value->find("x-lark"); value && value->as<std::string>()) {
    auto grammar = lark_regex(*value->as<std::string>(), scalars_.chars());
    if (!grammar.ok()) return schema_error(grammar.error().code, "x-lark", place, grammar.error().message);
    tests.push_back(*grammar);
  }
  if (const JsonValue* value = place.value->find("format"); value && value->as<std::string>()) {
    if (const char* source = format_pattern(*value->as<std::string>())) {
      tests.push_back(TRY(parse_regex(source, scalars_.chars())));
    }
  }
  if (tests.empty()) return {};
  shape.text = scalars_.pool().both(std::move(tests));
  is_possible = scalars_.pool().is_alive(shape.text);
  return {};
}

Result<void> SchemaReader::add_array(Shape& shape, const SchemaPlace& place) {
  ArrayShape& a = shape.array;
  const auto refs = [&](const std::vector<SignedSchema>& schemas) {
    for (const SignedSchema s : schemas) {
      const bool* flag = document_.place(s).value->as<bool>();
      a.prefix.push_back(!flag ? Conjunction{s} : *flag ? Conjunction{} : Conjunction{kFalseSchema});
    }
  };
  refs(TRY(schemas_of(place, "prefixItems")));
  const JsonValue* items = place.value->find("items");
  if (items && items->as<JsonArray>()) {  // as drafts before 2020 have it
    refs(TRY(schemas_of(place, "items")));
    a.rest = TRY(schema_of(place, "additionalItems"));
  } else {
    a.rest = TRY(schema_of(place, "items"));
  }
  a.least = TRY(count(place, "minItems")).value_or(0);
  a.most = TRY(count(place, "maxItems")).value_or(kNoLimit);
  if (place.value->find("contains")) {
    ArrayShape::Contains c{.schema = TRY(schema_of(place, "contains"))};
    c.least = TRY(count(place, "minContains")).value_or(1);
    c.most = TRY(count(place, "maxContains")).value_or(kNoLimit);
    a.contains.push_back(std::move(c));
  }
  const JsonValue* unique = place.value->find("uniqueItems");
  a.is_unique = unique && unique->as<bool>() && *unique->as<bool>();
  return {};
}

Result<void> SchemaReader::add_object(Shape& shape, const SchemaPlace& place) {
  ObjectShape& o = shape.object;
  ObjectShape::Clause clause;
  const auto conjunction_of = [&](const JsonValue& value, const std::string& path) {
    const SignedSchema s = document_.at(value, place, path);
    const bool* flag = value.as<bool>();
    const auto* object = value.as<JsonObject>();
    if ((flag && *flag) || (object && object->empty())) return Conjunction{};
    return flag ? Conjunction{kFalseSchema} : Conjunction{s};
  };
  if (const JsonValue* value = place.value->find("properties")) {
    const auto* members = value->as<JsonObject>();
    if (!members) return wrong("properties", place, "not an object");
    for (const auto& [key, inner] : *members) {
      clause.properties.emplace_back(key, conjunction_of(inner, "/properties" + pointer_token(key)));
    }
  }
  if (const JsonValue* value = place.value->find("patternProperties")) {
    const auto* members = value->as<JsonObject>();
    if (!members) return wrong("patternProperties", place, "not an object");
    for (const auto& [source, inner] : *members) {
      auto pattern = parse_regex(source, scalars_.chars(), {.is_search = true});
      if (!pattern.ok()) return schema_error(pattern.error().code, "patternProperties", place, pattern.error().message);
      clause.patterns.emplace_back(*pattern, conjunction_of(inner, "/patternProperties" + pointer_token(source)));
    }
  }
  clause.additional = TRY(schema_of(place, "additionalProperties"));
  if (!clause.properties.empty() || !clause.patterns.empty() || !clause.additional.empty())
    o.clauses.push_back(std::move(clause));
  if (const JsonValue* value = place.value->find("required"); value && !value->as<bool>()) {
    const auto* names = value->as<JsonArray>();
    if (!names) return wrong("required", place, "not an array");
    for (const JsonValue& name : *names) {
      const auto* text = name.as<std::string>();
      if (!text) return wrong("required", place, "not an array of strings");
      if (std::ranges::find(o.required, *text) == o.required.end()) o.required.push_back(*text);
    }
  }
  o.least = std::max<uint64_t>(TRY(count(place, "minProperties")).value_or(0), o.required.size());
  o.most = TRY(count(place, "maxProperties")).value_or(kNoLimit);
  const Conjunction names = TRY(schema_of(place, "propertyNames"));
  if (!names.empty()) {
    const Shapes& of_names = *TRY(shapes(names));
    Regex all = kNothing;
    for (const Shape& s : of_names) {
      if (s.type == JsonType::string) all = scalars_.pool().either(all, s.text);
    }
    o.names.push_back(all);
  }
  return {};
}

Result<Shapes> SchemaReader::with_types(const SchemaPlace& place) {
  bool wanted[kJsonTypes] = {true, true, true, true, true, true};
  bool only_integers = false;
  if (const JsonValue* type = place.value->find("type")) {
    std::ranges::fill(wanted, false);
    bool any_number = false, any_integer = false;
    const JsonArray one = {*type};
    for (const JsonValue& name : type->as<JsonArray>() ? *type->as<JsonArray>() : one) {
      const auto* text = name.as<std::string>();
      if (!text) return wrong("type", place, "not the name of a type, or an array of such");
      if (*text == "any") return schema_error(ErrorCode::unsupported, "type", place, "'any' is no type");
      const auto known = *text == "integer" ? JsonType::number : type_named(*text);
      if (!known) return wrong("type", place, "no such type");
      wanted[static_cast<size_t>(*known)] = true;
      (*text == "integer" ? any_integer : any_number) |= *known == JsonType::number;
    }
    only_integers = any_integer && !any_number;
  }
  Shapes out;
  for (size_t t = 0; t < kJsonTypes; t++) {
    if (!wanted[t]) continue;
    Shape shape = any_of_type(static_cast<JsonType>(t), scalars_);
    shape.pointer = place.pointer;
    bool is_possible = true;
    if (shape.type == JsonType::number) {
      if (only_integers) shape.number = Shape::Number::integer;
      TRY(add_number(shape, place, is_possible));
    } else if (shape.type == JsonType::string) {
      TRY(add_string(shape, place, is_possible));
    } else if (shape.type == JsonType::array) {
      TRY(add_array(shape, place));
      is_possible = shape.array.least <= shape.array.most;
    } else if (shape.type == JsonType::object) {
      TRY(add_object(shape, place));
      is_possible = shape.object.least <= shape.object.most;
    }
    if (is_possible) out.push_back(std::move(shape));
  }
  return out;
}

}  // namespace rocmforge::grammar
