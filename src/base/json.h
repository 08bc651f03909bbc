#pragma once
// JSON in and out. Reading: text to a JsonValue, under limits, errors with the byte they stand at.
// Writing: JsonWriter appends to a string; it cannot produce anything but valid UTF-8 JSON.
// Boost.JSON does the parsing and is compiled in json.cpp alone.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace rocmforge {

class JsonValue;
using JsonArray = std::vector<JsonValue>;
// Members in the order of the text; a key that repeats keeps its first place and its last value, as in Python.
using JsonObject = std::vector<std::pair<std::string, JsonValue>>;

class JsonValue {
 public:
  using State = std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, JsonArray, JsonObject>;

  JsonValue() : state_(nullptr) {}
  template <class T>
    requires std::is_constructible_v<State, T&&>
  JsonValue(T&& value) : state_(std::forward<T>(value)) {}
  JsonValue(const char* text) : state_(std::string(text)) {}
  // By assignment. If memory runs out while libstdc++ copy-constructs a variant of strings and vectors, it destroys a
  // value that was never constructed (it assumes that such a variant always holds a value).
  JsonValue(const JsonValue& other) : state_(nullptr) { state_ = other.state_; }
  JsonValue(JsonValue&&) = default;
  JsonValue& operator=(const JsonValue&) = default;
  JsonValue& operator=(JsonValue&&) = default;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(state_); }
  const State& state() const { return state_; }
  State& state() { return state_; }

  // The value as a T, or null when it holds something else.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&state_);
  }

  // The member `key` of an object; null when this is no object or has no such member.
  const JsonValue* find(std::string_view key) const;

 private:
  State state_;  // uint64_t only for integers above INT64_MAX
};

struct JsonLimits {
  size_t max_depth = 64;
  size_t max_bytes = 64u << 20;
  size_t max_members = 1u << 20;  // of one object; a repeated key counts once
};

// Exactly one JSON text (RFC 8259, UTF-8); trailing bytes are an error. Integers beyond 64 bits become doubles;
// a number too large for a double is an error.
Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits = {});

class JsonWriter {
 public:
  enum class Style { compact, pretty };
  explicit JsonWriter(Style style = Style::compact) : style_(style) {}

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);  // REQUIRES: inside an object, before each value
  JsonWriter& null();
  JsonWriter& value(bool v);
  JsonWriter& value(int64_t v);
  JsonWriter& value(uint64_t v);
  JsonWriter& value(int v) { return value(static_cast<int64_t>(v)); }
  JsonWriter& value(uint32_t v) { return value(static_cast<uint64_t>(v)); }
  // The shortest digits that read back as the same number; NaN and infinities, which JSON lacks, become null.
  JsonWriter& value(double v);
  JsonWriter& value(float v);
  JsonWriter& value(std::string_view v);  // invalid UTF-8 becomes U+FFFD
  JsonWriter& value(const char* v) { return value(std::string_view(v)); }
  JsonWriter& value(const std::string& v) { return value(std::string_view(v)); }
  JsonWriter& value(const JsonValue& v);

  // REQUIRES: every object and array was ended
  std::string take();
  // The text written so far, for streaming it out in parts.
  std::string& buffer() { return out_; }

 private:
  void separate();
  void newline();
  void open(char bracket);
  void close(char bracket);
  template <class T>
  void number(T v);

  std::string out_;
  std::vector<bool> has_items_;  // one per open object or array
  bool after_key_ = false;
  Style style_;
};

// `text` as a JSON string literal, quotes included.
void append_json_string(std::string& out, std::string_view text);

}  // namespace rocmforge
