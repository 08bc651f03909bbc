#include "grammar/schema_reader.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxDepth = 64;      // of references and combinations
constexpr uint32_t kMaxEmptyDepth = 4;  // looked into to see that nothing matches
constexpr size_t kMaxAsked = 24;        // nested questions of is_empty()
constexpr size_t kMaxKnown = 20'000;

constexpr std::string_view kRefused[] = {"unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"};

}  // namespace

Result<Shapes> SchemaReader::all_of(const Shapes& a, const Shapes& b, const SchemaPlace& place) {
  auto out = intersection(a, b, scalars_);
  if (!out.ok()) return std::move(out).error();
  for (Shape& shape : *out) {
    if (shape.pointer.empty()) shape.pointer = place.pointer;
  }
  return out;
}

Result<const Shapes*> SchemaReader::shapes(const Conjunction& conjunction, uint32_t depth) {
  if (const auto known = known_.find(conjunction); known != known_.end()) return known->second.get();
  if (known_.size() > kMaxKnown || scalars_.pool().is_exhausted()) {
    return Error{ErrorCode::limit_exceeded, "schema: too many combinations of schemas"};
  }
  Shapes out = any_value(scalars_);
  for (const SignedSchema schema : conjunction) {
    Shapes one = TRY(read(std::abs(schema), depth));
    if (schema < 0) {
      auto other = complement(one, scalars_);
      if (!other.ok()) return std::move(other).error();
      one = std::move(*other);
    }
    out = conjunction.size() == 1 ? std::move(one) : TRY(all_of(out, one, document_.place(std::abs(schema))));
  }
  const auto [at, is_new] = known_.emplace(conjunction, std::make_unique<const Shapes>(std::move(out)));
  return at->second.get();
}

Result<Shapes> SchemaReader::read(SignedSchema schema, uint32_t depth) {
  const SchemaPlace place = document_.place(schema);
  if (const bool* all = place.value->as<bool>()) return *all ? any_value(scalars_) : Shapes{};
  if (!place.value->as<JsonObject>()) {
    return Error{ErrorCode::invalid_argument, fmt::format("schema: the value at '{}' is no schema", place.pointer)};
  }
  if (depth > kMaxDepth) {
    return schema_error(ErrorCode::limit_exceeded, "$ref", place, fmt::format("more than {} levels deep", kMaxDepth));
  }
  return read_object(schema, depth);
}

Result<Shapes> SchemaReader::read_object(SignedSchema schema, uint32_t depth) {
  const SchemaPlace place = document_.place(schema);
  const JsonValue* reference = place.value->find("$ref");
  const std::string* target = reference ? reference->as<std::string>() : nullptr;
  if (reference && !target) return schema_error(ErrorCode::invalid_argument, "$ref", place, "not a string");
  const auto of = [&](SignedSchema s) { return shapes(Conjunction{s}, depth + 1); };
  if (target && place.ignores_siblings_of_ref) {
    return Shapes(*TRY(of(TRY(document_.resolve(*target, place)))));
  }
  for (const std::string_view keyword : kRefused) {
    const JsonValue* value = place.value->find(keyword);
    if (!value || (value->as<bool>() && *value->as<bool>())) continue;
    return schema_error(ErrorCode::unsupported, keyword, place, "not supported");
  }
  Shapes out = TRY(with_types(place));
  if (target) out = TRY(all_of(out, *TRY(of(TRY(document_.resolve(*target, place)))), place));
  if (const JsonValue* value = place.value->find("const")) {
    out = TRY(all_of(out, value_shapes(*value, place), place));
  }
  if (const JsonValue* value = place.value->find("enum")) {
    const auto* values = value->as<JsonArray>();
    if (!values) return schema_error(ErrorCode::invalid_argument, "enum", place, "not an array");
    out = TRY(all_of(out, enumeration(*values, place), place));
  }
  for (const SignedSchema s : TRY(schemas_of(place, "allOf"))) out = TRY(all_of(out, *TRY(of(s)), place));
  if (const auto any = TRY(schemas_of(place, "anyOf")); !any.empty()) {
    Shapes either;
    for (const SignedSchema s : any) {
      const Shapes& one = *TRY(of(s));
      either.insert(either.end(), one.begin(), one.end());
    }
    out = TRY(all_of(out, either, place));
  }
  if (const auto one = TRY(schemas_of(place, "oneOf")); !one.empty()) {
    out = TRY(all_of(out, TRY(one_of(one, place, depth)), place));
  }
  const auto negated = [&](const Conjunction& c) -> Result<Shapes> {
    if (c.empty()) return Shapes{};
    if (c[0] == kFalseSchema) return any_value(scalars_);
    return Shapes(*TRY(shapes({-c[0]}, depth + 1)));
  };
  if (place.value->find("not")) out = TRY(all_of(out, TRY(negated(TRY(schema_of(place, "not")))), place));
  if (place.value->find("if") && (place.value->find("then") || place.value->find("else"))) {
    const Conjunction condition = TRY(schema_of(place, "if"));
    Shapes either =
        TRY(all_of(*TRY(shapes(condition, depth + 1)), *TRY(shapes(TRY(schema_of(place, "then")), depth + 1)), place));
    const Shapes no =
        TRY(all_of(TRY(negated(condition)), *TRY(shapes(TRY(schema_of(place, "else")), depth + 1)), place));
    either.insert(either.end(), no.begin(), no.end());
    out = TRY(all_of(out, either, place));
  }
  return dependencies(std::move(out), place, depth);
}

Result<Shapes> SchemaReader::one_of(const std::vector<SignedSchema>& schemas, const SchemaPlace& place,
                                    uint32_t depth) {
  Shapes out;
  for (size_t i = 0; i < schemas.size(); i++) {
    Shapes mine = *TRY(shapes({schemas[i]}, depth + 1));
    for (size_t j = 0; j < schemas.size(); j++) {
      if (i == j || mine.empty()) continue;
      const SignedSchema other = schemas[j];
      Conjunction both = {schemas[i], other};
      std::ranges::sort(both);
      if (TRY(is_empty(both))) continue;
      auto no = shapes({-other}, depth + 1);
      if (!no.ok()) {
        if (no.error().code == ErrorCode::limit_exceeded) return std::move(no).error();
        return schema_error(
            ErrorCode::unsupported, "oneOf", place,
            fmt::format("its alternatives may overlap, and that cannot be excluded ({})", no.error().message));
      }
      mine = TRY(all_of(mine, **no, place));
    }
    out.insert(out.end(), mine.begin(), mine.end());
  }
  return out;
}

// dependentRequired, dependentSchemas and, as older drafts have it, dependencies: who lacks the key, or has it and
// more.
Result<Shapes> SchemaReader::dependencies(Shapes all, const SchemaPlace& place, uint32_t depth) {
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const JsonValue* value = place.value->find(keyword);
    if (!value) continue;
    const auto* members = value->as<JsonObject>();
    if (!members) return schema_error(ErrorCode::invalid_argument, keyword, place, "not an object");
    for (const auto& [key, demand] : *members) {
      Shapes without = any_value(scalars_), with;
      without.back().object.clauses.push_back(
          {.properties = {{key, {kFalseSchema}}}, .patterns = {}, .additional = {}});
      JsonArray names;
      if (const auto* array = demand.as<JsonArray>()) names = *array;
      if (demand.as<std::string>()) names = {demand};
      if (demand.as<JsonArray>() || demand.as<std::string>()) {
        Shape has = any_of_type(JsonType::object, scalars_);
        has.object.required = {key};
        for (const JsonValue& name : names) {
          const auto* text = name.as<std::string>();
          if (!text) return schema_error(ErrorCode::invalid_argument, keyword, place, "not an array of strings");
          if (*text != key) has.object.required.push_back(*text);
        }
        has.object.least = has.object.required.size();
        with = {has};
      } else {
        const SignedSchema s = document_.at(demand, place, pointer_token(keyword) + pointer_token(key));
        Shape has = any_of_type(JsonType::object, scalars_);
        has.object.required = {key};
        has.object.least = 1;
        with = TRY(all_of({has}, *TRY(shapes({s}, depth + 1)), place));
      }
      without.insert(without.end(), with.begin(), with.end());
      all = TRY(all_of(all, without, place));
    }
  }
  return all;
}

Shapes SchemaReader::value_shapes(const JsonValue& value, const SchemaPlace& place) {
  Shape shape;
  shape.pointer = place.pointer;
  if (const auto* flag = value.as<bool>()) {
    shape.type = JsonType::boolean;
    shape.has_false = !*flag;
    shape.has_true = *flag;
  } else if (const auto* text = value.as<std::string>()) {
    shape.type = JsonType::string;
    shape.text = scalars_.chars().literal(*text);
    shape.is_finite = true;
    shape.values = {*text};
  } else if (const auto* array = value.as<JsonArray>()) {
    shape.type = JsonType::array;
    for (const JsonValue& item : *array) shape.array.prefix.push_back({document_.constant(item, place.pointer)});
    shape.array.rest = {kFalseSchema};
    shape.array.least = shape.array.most = array->size();
  } else if (const auto* object = value.as<JsonObject>()) {
    shape.type = JsonType::object;
    ObjectShape::Clause clause;
    for (const auto& [key, member] : *object) {
      clause.properties.emplace_back(key, Conjunction{document_.constant(member, place.pointer)});
      shape.object.required.push_back(key);
    }
    clause.additional = {kFalseSchema};
    shape.object.clauses.push_back(std::move(clause));
    shape.object.least = shape.object.most = object->size();
  } else if (!value.is_null()) {
    shape.type = JsonType::number;
    shape.number = Shape::Number::exact;
    shape.values = {decimal_text(value)};
    shape.is_finite = true;
    shape.text = scalars_.equal_to(shape.values[0]);
  }
  return {std::move(shape)};
}

// Strings in one shape, and numbers in one: lists of them are long.
Shapes SchemaReader::enumeration(const JsonArray& values, const SchemaPlace& place) {
  Shapes out;
  std::vector<Regex> texts[2];
  Shape merged[2];
  for (const JsonValue& value : values) {
    Shape one = std::move(value_shapes(value, place)[0]);
    if (one.type != JsonType::string && one.type != JsonType::number) {
      out.push_back(std::move(one));
      continue;
    }
    const size_t i = one.type == JsonType::number;
    texts[i].push_back(one.text);
    merged[i].values.insert(merged[i].values.end(), one.values.begin(), one.values.end());
    one.values = std::move(merged[i].values);
    merged[i] = std::move(one);
  }
  for (size_t i = 0; i < 2; i++) {
    if (texts[i].empty()) continue;
    std::ranges::sort(merged[i].values);
    const auto again = std::ranges::unique(merged[i].values);
    merged[i].values.erase(again.begin(), again.end());
    merged[i].text = scalars_.pool().either(std::move(texts[i]));
    out.push_back(std::move(merged[i]));
  }
  return out;
}

Regex SchemaReader::scalar_text(const Shapes& all) {
  std::vector<Regex> parts;
  for (const Shape& shape : all) {
    if (shape.type != JsonType::array && shape.type != JsonType::object) parts.push_back(scalars_.spelled(shape));
  }
  return scalars_.pool().either(std::move(parts));
}

Result<bool> SchemaReader::is_empty(const Conjunction& conjunction, uint32_t depth) {
  if (std::ranges::binary_search(conjunction, kFalseSchema)) return true;
  if (depth > kMaxEmptyDepth || conjunction.empty()) return false;
  // To read a schema may take to know whether one of its parts is empty, and that part may refer to the schema.
  if (asked_.size() >= kMaxAsked || std::ranges::find(asked_, conjunction) != asked_.end()) return false;
  asked_.push_back(conjunction);
  auto out = is_empty_as_read(conjunction, depth);
  asked_.pop_back();
  return out;
}

Result<bool> SchemaReader::is_empty_as_read(const Conjunction& conjunction, uint32_t depth) {
  auto found = shapes(conjunction);
  if (!found.ok()) {
    // A schema without shapes is not known to be empty; the caller that needs its shapes reports the error.
    if (found.error().code == ErrorCode::unsupported) return false;
    return std::move(found).error();
  }
  for (const Shape& shape : **found) {
    if (!TRY(is_empty(shape, depth))) return false;
  }
  return true;
}

Result<bool> SchemaReader::is_empty(const Shape& shape, uint32_t depth) {
  if (shape.type == JsonType::array) {
    const ArrayShape& a = shape.array;
    if (a.least > a.most) return true;
    for (size_t i = 0; i < std::min<uint64_t>(a.prefix.size(), a.least); i++) {
      if (TRY(is_empty(a.prefix[i], depth + 1))) return true;
    }
    return a.least > a.prefix.size() && TRY(is_empty(a.rest, depth + 1));
  }
  if (shape.type != JsonType::object) return false;
  if (shape.object.least > shape.object.most) return true;
  for (const std::string& key : shape.object.required) {
    Conjunction all;
    for (const ObjectShape::Clause& clause : shape.object.clauses)
      all = merge(all, schema_of_key(clause, key, scalars_));
    if (TRY(is_empty(all, depth + 1))) return true;
    for (const Regex name : shape.object.names) {
      if (!scalars_.chars().matches(name, key)) return true;
    }
  }
  return false;
}

}  // namespace rocmforge::grammar
