// Random sentences of schemas are JSON and valid; a validator of this file, which shares no code with the compiler,
// says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "grammar/compile.h"
#include "grammar/sampler.h"

namespace rocmforge::grammar {
namespace {

std::optional<double> number_in(const JsonValue& v) {
  if (const auto* i = v.as<int64_t>()) return static_cast<double>(*i);
  if (const auto* u = v.as<uint64_t>()) return static_cast<double>(*u);
  if (const auto* d = v.as<double>()) return *d;
  return {};
}

bool equal(const JsonValue& a, const JsonValue& b) {
  if (const auto x = number_in(a)) return number_in(b) == x;
  if (a.state().index() != b.state().index()) return false;
  if (const auto* x = a.as<JsonArray>()) return std::ranges::equal(*x, *b.as<JsonArray>(), equal);
  if (const auto* x = a.as<JsonObject>()) {
    return x->size() == b.as<JsonObject>()->size() && std::ranges::all_of(*x, [&](const auto& member) {
             const JsonValue* other = b.find(member.first);
             return other && equal(member.second, *other);
           });
  }
  if (const auto* x = a.as<std::string>()) return *x == *b.as<std::string>();
  if (const auto* x = a.as<bool>()) return *x == *b.as<bool>();
  return true;
}

size_t n_chars(std::string_view text) {
  size_t n = 0;
  for (size_t at = 0; at < text.size(); n++) at += decode_utf8(text, at).n_bytes;
  return n;
}

class Validator {
 public:
  explicit Validator(const JsonValue& root) : root_(root) {}

  bool is_valid(const JsonValue& schema, const JsonValue& v) const {
    if (const auto* flag = schema.as<bool>()) return *flag;
    const auto has = [&](const char* key) { return schema.find(key); };
    const auto all = [&](const JsonValue& list) { return *list.as<JsonArray>(); };
    const auto number = [&](const char* key) { return has(key) ? number_in(*has(key)) : std::nullopt; };
    if (const auto* ref = has("$ref")) {
      const std::string name = ref->as<std::string>()->substr(8);  // #/$defs/
      if (!is_valid(*root_.find("$defs")->find(name), v)) return false;
    }
    if (const auto* type = has("type"); type && !has_type(v, *type)) return false;
    if (const auto* c = has("const"); c && !equal(*c, v)) return false;
    if (const auto* e = has("enum");
        e && std::ranges::none_of(all(*e), [&](const JsonValue& x) { return equal(x, v); }))
      return false;
    const auto n_valid = [&](const JsonValue& list) {
      return std::ranges::count_if(all(list), [&](const JsonValue& s) { return is_valid(s, v); });
    };
    if (has("anyOf") && n_valid(*has("anyOf")) == 0) return false;
    if (has("oneOf") && n_valid(*has("oneOf")) != 1) return false;
    if (has("allOf") && n_valid(*has("allOf")) != std::ssize(all(*has("allOf")))) return false;
    if (has("not") && is_valid(*has("not"), v)) return false;
    if (has("if")) {
      const char* branch = is_valid(*has("if"), v) ? "then" : "else";
      if (has(branch) && !is_valid(*has(branch), v)) return false;
    }
    if (const auto x = number_in(v)) {
      if (const auto m = number("minimum"); m && *x < *m) return false;
      if (const auto m = number("maximum"); m && *x > *m) return false;
      if (const auto m = number("exclusiveMinimum"); m && *x <= *m) return false;
      if (const auto m = number("multipleOf")) {
        const double q = *x / *m;
        if (std::abs(q - std::round(q)) > 1e-6 * std::max(1.0, std::abs(q))) return false;
      }
    }
    if (const auto* text = v.as<std::string>()) {
      const auto n = static_cast<double>(n_chars(*text));
      if (n < number("minLength").value_or(0) || n > number("maxLength").value_or(1e9)) return false;
    }
    if (const auto* items = v.as<JsonArray>()) return array(schema, *items);
    if (const auto* members = v.as<JsonObject>()) return object(schema, *members, v);
    return true;
  }

 private:
  static bool has_type(const JsonValue& v, const JsonValue& type) {
    if (const auto* list = type.as<JsonArray>()) {
      return std::ranges::any_of(*list, [&](const JsonValue& t) { return has_type(v, t); });
    }
    const std::string& name = *type.as<std::string>();
    const auto x = number_in(v);
    return (name == "null" && v.is_null()) || (name == "boolean" && v.as<bool>()) ||
           (name == "string" && v.as<std::string>()) || (name == "array" && v.as<JsonArray>()) ||
           (name == "object" && v.as<JsonObject>()) || (name == "number" && x) ||
           (name == "integer" && x && std::floor(*x) == *x);
  }

  bool array(const JsonValue& schema, const JsonArray& items) const {
    const auto number = [&](const char* key, double otherwise) {
      return schema.find(key) ? *number_in(*schema.find(key)) : otherwise;
    };
    const auto n = static_cast<double>(items.size());
    if (n < number("minItems", 0) || n > number("maxItems", 1e9)) return false;
    const JsonValue* prefix = schema.find("prefixItems");
    for (size_t i = 0; i < items.size(); i++) {
      const JsonValue* one =
          prefix && i < prefix->as<JsonArray>()->size() ? &(*prefix->as<JsonArray>())[i] : schema.find("items");
      if (one && !is_valid(*one, items[i])) return false;
      for (size_t j = 0; j < i && schema.find("uniqueItems"); j++) {
        if (equal(items[i], items[j])) return false;
      }
    }
    if (!schema.find("contains")) return true;
    const auto found = static_cast<double>(
        std::ranges::count_if(items, [&](const JsonValue& v) { return is_valid(*schema.find("contains"), v); }));
    return found >= number("minContains", 1) && found <= number("maxContains", 1e9);
  }

  bool object(const JsonValue& schema, const JsonObject& members, const JsonValue& v) const {
    const auto n = static_cast<double>(members.size());
    if (schema.find("minProperties") && n < *number_in(*schema.find("minProperties"))) return false;
    if (schema.find("maxProperties") && n > *number_in(*schema.find("maxProperties"))) return false;
    if (const auto* required = schema.find("required")) {
      for (const JsonValue& key : *required->as<JsonArray>()) {
        if (!v.find(*key.as<std::string>())) return false;
      }
    }
    for (const auto& [key, value] : members) {
      const JsonValue* properties = schema.find("properties");
      const JsonValue* one = properties ? properties->find(key) : nullptr;
      if (!one) one = schema.find("additionalProperties");
      if (one && !is_valid(*one, value)) return false;
      const JsonValue* names = schema.find("propertyNames");
      if (names && !is_valid(*names, JsonValue(key))) return false;
    }
    return true;
  }

  const JsonValue& root_;
};

constexpr const char* kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":9},"age":{"type":"integer","minimum":0,"maximum":130},
       "mail":{"type":["string","null"]}},"required":["name","age"],"additionalProperties":false})",
    R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"number"},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/node"}]}},
       "required":["v","next"],"additionalProperties":false}}})",
    R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},
       {"type":"object","properties":{"kind":{"const":"b"},"y":{"type":"boolean"}},"required":["kind"],"additionalProperties":false}]})",
    R"({"type":"array","items":{"enum":[1,2,3,"x",null,true]},"uniqueItems":true,"minItems":2,"maxItems":4})",
    R"({"type":"array","prefixItems":[{"type":"boolean"},{"type":"string","maxLength":3}],"items":{"type":"integer","multipleOf":3},"minItems":3,"maxItems":6})",
    R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":99},"contains":{"minimum":50},"minContains":1,"maxContains":2,"maxItems":5})",
    R"({"type":"object","minProperties":2,"maxProperties":3,"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"},"d":{"type":"null"}},
       "required":["c"],"additionalProperties":false})",
    R"({"type":"number","minimum":-2.5,"exclusiveMinimum":-2.25,"maximum":17})",
    R"({"type":"number","multipleOf":0.25,"minimum":-3,"maximum":40})",
    R"({"type":["string","integer"],"not":{"enum":["a","b",3]},"maxLength":2})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string","maxLength":4}},"required":["a"],
       "if":{"properties":{"a":{"minimum":10}}},"then":{"required":["b"]},"else":{"properties":{"b":false}},"additionalProperties":false})",
    R"({"type":"object","propertyNames":{"maxLength":2},"additionalProperties":{"type":"boolean"},"maxProperties":2})",
    R"({"allOf":[{"type":"object","properties":{"a":{"minimum":3}},"required":["a"]},{"properties":{"a":{"type":"integer","maximum":5}},"additionalProperties":false}]})",
    R"({"const":{"a":[1,"two",null,{"b":true}]}})",
};

TEST(SchemaSamples, AreValidInBothOrders) {
  for (const char* text : kSchemas) {
    const auto schema = parse_json(text);
    ASSERT_TRUE(schema.ok()) << text;
    const Validator validator(*schema);
    for (const bool any_order : {true, false}) {
      const auto made = compile({.text = text, .schema = {.any_order = any_order}});
      ASSERT_TRUE(made.ok()) << text << ": " << made.error().message;
      for (uint64_t seed = 0; seed < 25; seed++) {
        const auto sentence = random_sentence(*made, {.seed = seed, .length = 40});
        ASSERT_TRUE(sentence.ok()) << text << ": " << sentence.error().message;
        const auto value = parse_json(*sentence);
        // An exponent may make a number that no double holds.
        if (!value.ok() && value.error().message.find("number") != std::string::npos) continue;
        ASSERT_TRUE(value.ok()) << text << ": " << *sentence << ": " << value.error().message;
        EXPECT_TRUE(validator.is_valid(*schema, *value)) << text << ": " << *sentence;
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge::grammar
