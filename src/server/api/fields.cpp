#include "server/api/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace rocmforge::server {

std::optional<int64_t> as_integer(const JsonValue& value) {
  if (const auto* i = value.as<int64_t>()) return *i;
  const auto* d = value.as<double>();
  // Doubles are whole and exact below 2^53 only; beyond, nobody meant a particular integer.
  if (d && std::abs(*d) <= 9007199254740992.0 && std::trunc(*d) == *d) return static_cast<int64_t>(*d);
  return {};
}

std::optional<double> as_number(const JsonValue& value) {
  if (const auto* d = value.as<double>()) return *d;
  if (const auto* i = value.as<int64_t>()) return static_cast<double>(*i);
  if (const auto* u = value.as<uint64_t>()) return static_cast<double>(*u);
  return {};
}

Fields::Fields(const JsonValue& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
  if (!object.as<JsonObject>()) {
    error_ =
        ApiError::bad_param(prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1), "This must be an object.");
  }
}

void Fields::refuse(ApiError error) {
  if (!error_) error_ = std::move(error);
}
void Fields::refuse(std::string_view name, std::string message, std::string code) {
  const std::string param = prefix_ + std::string(name);
  refuse(ApiError::bad_param(param, fmt::format("'{}' {}", param, message), std::move(code)));
}

const JsonValue* Fields::find(std::string_view name) const {
  if (error_) return nullptr;
  const JsonValue* value = object_.find(name);
  if (value && std::ranges::find(asked_, name) == asked_.end()) asked_.emplace_back(name);
  return value && !value->is_null() ? value : nullptr;
}

std::vector<std::string_view> Fields::unread() const {
  std::vector<std::string_view> out;
  const auto* members = object_.as<JsonObject>();
  if (!members) return out;
  for (const auto& [name, value] : *members) {
    if (std::ranges::find(asked_, name) != asked_.end()) continue;
    if (out.size() == kMaxUnread) break;
    out.push_back(name);
  }
  return out;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t least, int64_t most) {
  const JsonValue* value = find(name);
  if (!value) return {};
  const auto found = as_integer(*value);
  if (!found && !value->as<uint64_t>() && !value->as<double>()) refuse(name, "must be an integer.");
  if (!found || *found < least || *found > most) {
    refuse(name, fmt::format("must be an integer from {} to {}.", least, most));
    return {};
  }
  return found;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const JsonValue* value = find(name);
  if (!value) return {};
  const auto found = as_number(*value);
  if (!found) {
    refuse(name, "must be a number.");
    return {};
  }
  if (!(least <= *found && *found <= most)) {
    refuse(name, fmt::format("must be a number from {} to {}.", least, most));
    return {};
  }
  return found;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const JsonValue* value = find(name);
  if (!value) return {};
  if (const auto* found = value->as<bool>()) return *found;
  refuse(name, "must be true or false.");
  return {};
}

std::optional<std::string> Fields::text(std::string_view name, size_t max_bytes) {
  const JsonValue* value = find(name);
  if (!value) return {};
  const auto* found = value->as<std::string>();
  if (found && found->size() <= max_bytes) return *found;
  refuse(name, found ? fmt::format("is longer than {} bytes.", max_bytes) : "must be a string.");
  return {};
}

const JsonArray* Fields::array(std::string_view name, size_t max_size) {
  const JsonValue* value = find(name);
  if (!value) return nullptr;
  const auto* found = value->as<JsonArray>();
  if (found && found->size() <= max_size) return found;
  refuse(name, found ? fmt::format("has more than {} items.", max_size) : "must be an array.");
  return nullptr;
}

const JsonObject* Fields::object(std::string_view name, size_t max_size) {
  const JsonValue* value = find(name);
  if (!value) return nullptr;
  const auto* found = value->as<JsonObject>();
  if (found && found->size() <= max_size) return found;
  refuse(name, found ? fmt::format("has more than {} members.", max_size) : "must be an object.");
  return nullptr;
}

}  // namespace rocmforge::server
