#pragma once
// The values a template computes with, as Python sees them: 16 bytes, either the value itself or a counted reference.
//
// Threads: the counts are plain integers. A Value belongs to one rendering and never leaves it.
// Invariants: everything but a namespace is immutable once built, so only namespaces can close a cycle; the Runtime
// empties them when the rendering ends. A value nested any number of levels deep is freed without recursion.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"

namespace rocmforge::jinja {

enum class Kind : uint8_t {
  none,
  boolean,
  integer,
  real,
  undefined,  // from here on the payload is an object; undefined alone may do without
  string,
  list,
  tuple,
  dict,
  name_space,
  range,
  dict_view,
  iterator,
  function,
  macro,
  loop,
  cycler,
  joiner,
};

// The base of every counted object. The kind tells its type in objects.h.
struct Object {
  explicit Object(Kind k) : kind(k) {}
  uint32_t n_references = 0;
  const Kind kind;
  Object* next_doomed = nullptr;  // the next object to free, while nested values are freed
};

class Value {
 public:
  Value() = default;  // none
  Value(const Value& other) : kind_(other.kind_), payload_(other.payload_) { retain(); }
  Value(Value&& other) noexcept : kind_(std::exchange(other.kind_, Kind::none)), payload_(other.payload_) {}
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(payload_, other.payload_);
    return *this;
  }
  ~Value() {
    if (Object* last = surrender()) destroy(last);
  }

  static Value boolean(bool v) { return Value(Kind::boolean, {.boolean = v}); }
  static Value integer(int64_t v) { return Value(Kind::integer, {.integer = v}); }
  static Value real(double v) { return Value(Kind::real, {.real = v}); }
  static Value undefined() { return Value(Kind::undefined, {.object = nullptr}); }
  static Value string(std::string text);
  static Value markup(std::string text);  // text that counts as escaped already (the filter `safe`)
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  // Takes ownership of a new object.
  static Value of(Object* object) {
    Value v(object->kind, {.object = object});
    v.retain();
    return v;
  }
  // Integers above INT64_MAX become doubles.
  static Value from_json(const JsonValue& json);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_integral() || kind_ == Kind::real; }

  // REQUIRES: of that kind (integral() takes booleans too, number() every number)
  bool as_boolean() const { return CHECK(is(Kind::boolean)), payload_.boolean; }
  int64_t as_integral() const {
    return is(Kind::boolean) ? payload_.boolean : (CHECK(is(Kind::integer)), payload_.integer);
  }
  double as_number() const { return is(Kind::real) ? payload_.real : static_cast<double>(as_integral()); }
  const std::string& text() const;          // of a string
  const std::vector<Value>& items() const;  // of a list or tuple
  // The object as its type of objects.h; null for undefined without one.
  template <class T>
  T* as() const {
    CHECK(T::holds(kind_));
    return static_cast<T*>(payload_.object);
  }
  Object* object() const { return kind_ >= Kind::undefined ? payload_.object : nullptr; }

  // Drops the reference. Returns the object if that was the last one: the caller then frees it. Otherwise null.
  Object* surrender() {
    Object* held = object();
    kind_ = Kind::none;
    return held != nullptr && --held->n_references == 0 ? held : nullptr;
  }

 private:
  union Payload {
    bool boolean;
    int64_t integer;
    double real;
    Object* object;
  };
  Value(Kind kind, Payload payload) : kind_(kind), payload_(payload) {}
  void retain() {
    if (Object* held = object()) held->n_references++;
  }
  static void destroy(Object* object) noexcept;

  Kind kind_ = Kind::none;
  Payload payload_ = {.integer = 0};
};

// The type's name in messages, as Python writes it: 'str', 'NoneType'.
std::string_view type_name(const Value& value);

bool is_markup(const Value& value);

}  // namespace rocmforge::jinja
