#include "grammar/schema_document.h"

#include <fmt/core.h>

#include <algorithm>

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxDepth = 64;
constexpr const char* kRootUri = "schema:///";

constexpr std::string_view kMapsOfSchemas[] = {"properties",  "patternProperties", "$defs",
                                               "definitions", "dependentSchemas",  "dependencies"};
constexpr std::string_view kArraysOfSchemas[] = {"allOf", "anyOf", "oneOf", "prefixItems", "items"};
constexpr std::string_view kSchemas[] = {
    "items", "additionalItems", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"};

const std::string* text_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value ? value->as<std::string>() : nullptr;
}

// RFC 3986, as far as schemas need it.
std::string resolved_uri(const std::string& base, const std::string& reference) {
  const size_t colon = reference.find(':');
  if (colon != std::string::npos && colon < reference.find_first_of("/?#")) return reference;
  const std::string document = base.substr(0, base.find('#'));
  if (reference.empty() || reference[0] == '#') return document + reference;
  const size_t scheme = document.find("://");
  const size_t path = scheme == std::string::npos ? std::string::npos : document.find('/', scheme + 3);
  if (reference[0] == '/') return document.substr(0, path) + reference;
  const size_t last = document.rfind('/');
  if (path == std::string::npos || last == std::string::npos) return document + "/" + reference;
  return document.substr(0, last + 1) + reference;
}

std::string unescaped(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); i++) {
    const auto digit = [&](size_t at) -> int {
      const char c = at < token.size() ? token[at] : 'x';
      return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    };
    if (token[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += token[i];
    }
  }
  std::string plain;
  for (size_t i = 0; i < out.size(); i++) {
    if (out[i] == '~' && i + 1 < out.size() && (out[i + 1] == '0' || out[i + 1] == '1')) {
      plain += out[++i] == '0' ? '~' : '/';
    } else {
      plain += out[i];
    }
  }
  return plain;
}

}  // namespace

std::string pointer_token(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

Error schema_error(ErrorCode code, std::string_view keyword, const SchemaPlace& place, std::string_view why) {
  return {code, fmt::format("schema: '{}' at '{}': {}", keyword, place.pointer + pointer_token(keyword), why)};
}

Result<SchemaDocument> SchemaDocument::read(const JsonValue& root) {
  if (!root.as<JsonObject>() && !root.as<bool>()) {
    return Error{ErrorCode::invalid_argument, "schema: neither an object nor true or false"};
  }
  SchemaDocument out;
  out.places_.resize(2);
  out.made_.emplace_back(false);
  out.places_[kFalseSchema] = {.value = &out.made_.back(), .pointer = {}, .base = kRootUri};
  if (const std::string* dialect = text_of(root, "$schema")) {
    for (const char* old : {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"}) {
      out.is_old_ |= dialect->find(old) != std::string::npos;
    }
  }
  out.index(root, "", kRootUri, 0);
  out.root_ = out.ids_.at(&root);
  out.by_uri_.emplace(kRootUri, out.root_);
  return out;
}

void SchemaDocument::index(const JsonValue& value, const std::string& pointer, std::string base, uint32_t depth) {
  const auto* members = value.as<JsonObject>();
  if ((!members && !value.as<bool>()) || ids_.contains(&value)) return;
  const auto id = static_cast<SignedSchema>(places_.size());
  ids_.emplace(&value, id);
  const bool has_ignored_id = is_old_ && members && value.find("$ref") != nullptr;
  for (const char* name : {"$id", "id"}) {
    const std::string* uri = members && !has_ignored_id ? text_of(value, name) : nullptr;
    if (!uri || (name[0] == 'i' && !is_old_)) continue;
    const std::string whole = resolved_uri(base, *uri);
    if (uri->starts_with('#')) {
      by_uri_.emplace(whole, id);  // an anchor, as old drafts have it
    } else {
      base = whole.substr(0, whole.find('#'));
      by_uri_.emplace(base, id);
    }
  }
  const std::string* anchor = members ? text_of(value, "$anchor") : nullptr;
  if (anchor) by_uri_.emplace(base + "#" + *anchor, id);
  if (const std::string* dynamic = members ? text_of(value, "$dynamicAnchor") : nullptr) {
    by_uri_.emplace(base + "#" + *dynamic, id);
  }
  places_.push_back({&value, pointer, base, is_old_});
  if (!members || depth >= kMaxDepth) return;
  for (const auto& [key, member] : *members) {
    const std::string path = pointer + pointer_token(key);
    const auto* object = member.as<JsonObject>();
    const auto* array = member.as<JsonArray>();
    if (object && std::ranges::find(kMapsOfSchemas, key) != std::end(kMapsOfSchemas)) {
      for (const auto& [name, inner] : *object) index(inner, path + pointer_token(name), base, depth + 1);
    } else if (array && std::ranges::find(kArraysOfSchemas, key) != std::end(kArraysOfSchemas)) {
      for (size_t i = 0; i < array->size(); i++) {
        index((*array)[i], path + pointer_token(std::to_string(i)), base, depth + 1);
      }
    } else if (std::ranges::find(kSchemas, key) != std::end(kSchemas)) {
      index(member, path, base, depth + 1);
    }
  }
}

SignedSchema SchemaDocument::at(const JsonValue& value, const SchemaPlace& parent, const std::string& path) {
  if (const auto known = ids_.find(&value); known != ids_.end()) return known->second;
  const auto id = static_cast<SignedSchema>(places_.size());
  ids_.emplace(&value, id);
  places_.push_back({&value, parent.pointer + path, parent.base, is_old_});
  return id;
}

SignedSchema SchemaDocument::constant(const JsonValue& value, const std::string& pointer) {
  if (const auto known = constants_.find(&value); known != constants_.end()) return known->second;
  made_.emplace_back(JsonObject{{"const", value}});
  const auto id = static_cast<SignedSchema>(places_.size());
  places_.push_back({.value = &made_.back(), .pointer = pointer, .base = kRootUri});
  constants_.emplace(&value, id);
  return id;
}

Result<SignedSchema> SchemaDocument::resolve(const std::string& reference, const SchemaPlace& from) {
  const std::string uri = resolved_uri(from.base, reference);
  const size_t hash = uri.find('#');
  const std::string document = uri.substr(0, hash);
  const std::string fragment = hash == std::string::npos ? "" : uri.substr(hash + 1);
  const auto not_found = [&] {
    return schema_error(ErrorCode::unsupported, "$ref", from, fmt::format("'{}' is not in the schema", reference));
  };
  if (!fragment.empty() && fragment[0] != '/') {
    const auto found = by_uri_.find(document + "#" + unescaped(fragment));
    if (found == by_uri_.end()) return not_found();
    return found->second;
  }
  const auto found = by_uri_.find(document);
  if (found == by_uri_.end()) return not_found();
  const SchemaPlace start = place(found->second);
  const JsonValue* value = start.value;
  std::string base = start.base;
  SignedSchema id = found->second;
  for (size_t at = 0; at < fragment.size();) {
    const size_t end = std::min(fragment.find('/', at + 1), fragment.size());
    const std::string key = unescaped(std::string_view(fragment).substr(at + 1, end - at - 1));
    const JsonValue* next = value->find(key);
    if (const auto* array = value->as<JsonArray>();
        array && !key.empty() && key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos) {
      const auto i = static_cast<size_t>(std::stoul(key));
      next = i < array->size() ? &(*array)[i] : nullptr;
    }
    if (!next) return not_found();
    value = next;
    if (const auto known = ids_.find(value); known != ids_.end()) base = place(known->second).base;
    at = end;
  }
  if (!value->as<JsonObject>() && !value->as<bool>()) return not_found();
  if (fragment.empty()) return id;
  SchemaPlace parent = start;
  parent.base = base;
  return this->at(*value, parent, fragment);
}

}  // namespace rocmforge::grammar
