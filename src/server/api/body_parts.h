#pragma once
// Helpers for bringing the body of one API into the form of another: members are moved, not copied.

#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "server/api/api_error.h"

namespace rocmforge::server {

// The member, taken out of the object; null when it is absent.
inline JsonValue take_member(JsonObject& object, std::string_view key) {
  for (size_t i = 0; i < object.size(); i++) {
    if (object[i].first != key) continue;
    JsonValue out = std::move(object[i].second);
    object.erase(object.begin() + static_cast<std::ptrdiff_t>(i));
    return out;
  }
  return {};
}

inline JsonObject* object_in(JsonValue& value) {
  return std::get_if<JsonObject>(&value.state());
}
inline JsonArray* array_in(JsonValue& value) {
  return std::get_if<JsonArray>(&value.state());
}
inline const std::string* text_in(const JsonValue& value, std::string_view key) {
  const JsonValue* found = value.find(key);
  return found ? found->as<std::string>() : nullptr;
}
inline std::string text_or(const JsonValue& value, std::string_view key, std::string otherwise) {
  const std::string* found = text_in(value, key);
  return found ? *found : std::move(otherwise);
}
inline std::string json_of(const JsonValue& value) {
  return JsonWriter().value(value).take();
}

// Texts of a message's content: a string, or the texts of its parts.
std::string content_text(const JsonValue& content);
// System and developer messages at the beginning become one: many templates know one alone.
void join_leading_system(JsonArray& messages);

// An error about a member of the new form, said about the member of the old one that it was made from.
struct RenamedParam {
  std::string_view from, to;
};
template <size_t N>
ApiError rename_param(ApiError error, const RenamedParam (&table)[N]) {
  for (const RenamedParam& one : table) {
    if (!error.param.starts_with(one.from)) continue;
    const std::string renamed = std::string(one.to) + error.param.substr(one.from.size());
    const std::string quoted = "'" + error.param + "'";
    if (const size_t at = error.message.find(quoted); at != std::string::npos) {
      error.message.replace(at, quoted.size(), "'" + renamed + "'");
    }
    error.param = renamed;
    break;
  }
  return error;
}

}  // namespace rocmforge::server
