#include "chat/tool_set.h"

#include "chat/literal.h"

namespace rocmforge::chat {
namespace {

uint8_t type_of_name(std::string_view name) {
  if (name == "string") return kString;
  if (name == "integer" || name == "number") return kNumber;
  if (name == "boolean") return kBoolean;
  if (name == "null") return kNull;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return kUnknown;
}

uint8_t type_of_json(std::string_view json) {
  if (json.empty()) return kUnknown;
  switch (json[0]) {
    case '"':
      return kString;
    case '{':
      return kObject;
    case '[':
      return kArray;
    case 't':
    case 'f':
      return kBoolean;
    case 'n':
      return kNull;
    default:
      return kNumber;
  }
}

uint8_t type_of_value(const JsonValue& value) {
  if (value.as<std::string>()) return kString;
  if (value.as<bool>()) return kBoolean;
  if (value.is_null()) return kNull;
  if (value.as<JsonArray>()) return kArray;
  return value.as<JsonObject>() ? kObject : kNumber;
}

uint8_t types_of(const JsonValue& schema, int depth = 0) {
  if (depth > 8) return kUnknown;
  uint8_t out = 0;
  if (const JsonValue* type = schema.find("type")) {
    if (const auto* name = type->as<std::string>()) return type_of_name(*name);
    if (const auto* names = type->as<JsonArray>()) {
      for (const JsonValue& one : *names) {
        if (const auto* name = one.as<std::string>()) out |= type_of_name(*name);
      }
      return out;
    }
  }
  if (const JsonValue* fixed = schema.find("const")) return type_of_value(*fixed);
  if (const JsonValue* values = schema.find("enum"); values && values->as<JsonArray>()) {
    for (const JsonValue& one : *values->as<JsonArray>()) out |= type_of_value(one);
    return out;
  }
  for (const char* name : {"anyOf", "oneOf"}) {
    const JsonValue* branches = schema.find(name);
    if (!branches || !branches->as<JsonArray>()) continue;
    for (const JsonValue& one : *branches->as<JsonArray>()) {
      const uint8_t types = types_of(one, depth + 1);
      if (types == kUnknown) return kUnknown;
      out |= types;
    }
    return out;
  }
  if (schema.find("properties")) return kObject;
  return schema.find("items") ? kArray : kUnknown;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

ToolSet::ToolSet(const JsonArray& tools) {
  for (const JsonValue& tool : tools) {
    const JsonValue* function = tool.find("function");
    if (!function) function = &tool;
    const JsonValue* name = function->find("name");
    if (!name || !name->as<std::string>()) continue;
    auto& parameters = tools_[*name->as<std::string>()];
    const JsonValue* schema = function->find("parameters");
    const JsonValue* properties = schema ? schema->find("properties") : nullptr;
    if (!properties || !properties->as<JsonObject>()) continue;
    for (const auto& [key, value] : *properties->as<JsonObject>()) parameters[key] = types_of(value);
  }
}

uint8_t ToolSet::types(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return kUnknown;
  const auto type = found->second.find(parameter);
  return type == found->second.end() ? uint8_t{kUnknown} : type->second;
}

std::string tagged_json(std::string_view text, uint8_t types) {
  std::string json;
  if (types != kString) {
    const std::string_view value = trimmed(text);
    if (types == kUnknown) {
      if (parse_json(value).ok()) return std::string(value);
    } else if (to_json(value, json) && (!(types & kString) || (types & ~kString & type_of_json(json)))) {
      return json;
    }
    json.clear();
  }
  append_json_string(json, text);
  return json;
}

}  // namespace rocmforge::chat
