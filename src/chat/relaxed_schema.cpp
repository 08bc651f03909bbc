#include "chat/relaxed_schema.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace rocmforge::chat {
namespace {

// The steps of the pointer that a message of schema_error() (grammar/schema_document.h) names.
std::vector<std::string> steps_in(std::string_view message) {
  std::vector<std::string> out;
  constexpr std::string_view kBefore = "' at '/";
  const size_t at = message.find(kBefore);
  if (at == std::string_view::npos) return out;
  message.remove_prefix(at + kBefore.size());
  message = message.substr(0, message.find("': "));
  out.emplace_back();
  for (size_t i = 0; i < message.size(); i++) {
    if (message[i] == '/') {
      out.emplace_back();
    } else if (message[i] == '~' && i + 1 < message.size()) {
      out.back() += message[++i] == '1' ? '/' : '~';
    } else {
      out.back() += message[i];
    }
  }
  return out;
}

// Keywords that may allow more when a schema inside of them allows less.
bool is_not_monotone(std::string_view keyword) {
  return keyword == "not" || keyword == "if" || keyword == "oneOf" || keyword == "contains";
}

// `step` of a value; null if it has none.
JsonValue* member(JsonValue& value, const std::string& step) {
  if (auto* object = std::get_if<JsonObject>(&value.state())) {
    const auto at = std::ranges::find(*object, step, &JsonObject::value_type::first);
    return at != object->end() ? &at->second : nullptr;
  }
  if (auto* array = std::get_if<JsonArray>(&value.state())) {
    size_t i = 0;
    const auto [end, wrong] = std::from_chars(step.data(), step.data() + step.size(), i);
    const bool is_index = wrong == std::errc() && end == step.data() + step.size();
    return is_index && i < array->size() ? &(*array)[i] : nullptr;
  }
  return nullptr;
}

void remove(JsonValue& schema, std::string_view keyword) {
  if (auto* object = std::get_if<JsonObject>(&schema.state())) {
    std::erase_if(*object, [&](const auto& one) { return one.first == keyword; });
  }
}

bool has_names(std::string_view keyword) {
  return keyword == "properties" || keyword == "patternProperties" || keyword == "$defs" || keyword == "definitions" ||
         keyword == "dependentSchemas";
}

}  // namespace

std::optional<RelaxedSchema> relax_schema(const JsonValue& schema, const Error& error) {
  std::vector<std::string> steps = steps_in(error.message);
  if (steps.empty()) return {};
  bool is_keyword = true;  // the last step; else a name, or a place in an array
  for (size_t i = 0; i < steps.size(); i++) {
    if (is_not_monotone(steps[i])) {
      steps.resize(i + 1);
      is_keyword = true;
      break;
    }
    const bool is_index = !steps[i].empty() && steps[i].find_first_not_of("0123456789") == std::string::npos;
    is_keyword = !is_index;
    if (!has_names(steps[i]) || i + 1 == steps.size()) continue;
    i++;
    is_keyword = false;
  }
  RelaxedSchema out{.schema = schema, .pointer = {}};
  JsonValue* parent = &out.schema;
  for (size_t i = 0; i + 1 < steps.size() && parent; i++) parent = member(*parent, steps[i]);
  JsonValue* const found = parent ? member(*parent, steps.back()) : nullptr;
  if (!found) return {};
  if (!is_keyword) {
    *found = JsonValue(true);
  } else {
    // These also say which keys or items are left for the others.
    if (has_names(steps.back())) remove(*parent, "additionalProperties");
    if (steps.back() == "prefixItems") remove(*parent, "items");
    remove(*parent, steps.back());
  }
  for (const std::string& step : steps) out.pointer += "/" + step;
  return out;
}

}  // namespace rocmforge::chat
