#pragma once
// The objects behind a Value. Plain structures; their operations are in the files that use them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/dict.h"
#include "chat/jinja/value.h"

namespace rocmforge::jinja {

class Runtime;
struct Args;
struct Scope;

// The reason why a value is undefined, for the error message when it is used.
struct UndefinedObject : Object {
  enum class Why { no_variable, no_attribute, unsafe_attribute, other };
  UndefinedObject(Why w, std::string_view type, std::string n)
      : Object(Kind::undefined), why(w), of_type(type), name(std::move(n)) {}
  static bool holds(Kind kind) { return kind == Kind::undefined; }
  Why why;
  std::string_view of_type;  // type of the value that lacks the attribute
  std::string name;          // name of the variable or attribute; the whole message for `other`
};

struct StringObject : Object {
  StringObject(std::string t, bool m) : Object(Kind::string), text(std::move(t)), markup(m) {}
  static bool holds(Kind kind) { return kind == Kind::string; }
  size_t n_characters() const;  // code points, counted once
  bool is_ascii() const { return n_characters() == text.size(); }
  const std::string text;  // valid UTF-8
  const bool markup;

 private:
  mutable int64_t n_characters_ = -1;
};

struct SequenceObject : Object {
  SequenceObject(Kind k, std::vector<Value> v) : Object(k), items(std::move(v)) {}
  static bool holds(Kind kind) { return kind == Kind::list || kind == Kind::tuple; }
  std::vector<Value> items;
  bool is_group = false;  // a pair of the filter groupby: .grouper and .list are its items
};

struct DictObject : Object {
  DictObject(Kind k, Dict d) : Object(k), dict(std::move(d)) {}
  static bool holds(Kind kind) { return kind == Kind::dict || kind == Kind::name_space; }
  Dict dict;
};

inline int64_t wrapping_multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

struct RangeObject : Object {
  RangeObject(int64_t a, int64_t b, int64_t s, int64_t count)
      : Object(Kind::range), start(a), stop(b), step(s), n(count) {}
  static bool holds(Kind kind) { return kind == Kind::range; }
  // Wraps around only for an i outside [0, n).
  int64_t at(int64_t i) const {
    return static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(wrapping_multiply(i, step)));
  }
  const int64_t start, stop, step;
  const int64_t n;
};

struct DictViewObject : Object {
  enum class Part { keys, values, items };
  DictViewObject(Part p, Value d) : Object(Kind::dict_view), part(p), dict(std::move(d)) {}
  static bool holds(Kind kind) { return kind == Kind::dict_view; }
  Part part;
  Value dict;
};

// Python's generators and iterators: can be iterated once, have no length. The items are computed when the object is
// made; an error is reported when the iteration reaches its item.
struct IteratorObject : Object {
  IteratorObject(std::string_view t, std::vector<Value> v) : Object(Kind::iterator), type(t), items(std::move(v)) {}
  static bool holds(Kind kind) { return kind == Kind::iterator; }
  std::string_view type;
  std::vector<Value> items;
  size_t next = 0;
  std::optional<Error> then;
};

// A global function, or a method together with its object.
struct FunctionObject : Object {
  using Body = Result<Value> (*)(Runtime& rt, const Value& self, const Args& args);
  FunctionObject(std::string_view n, Body b, Value s) : Object(Kind::function), name(n), body(b), self(std::move(s)) {}
  static bool holds(Kind kind) { return kind == Kind::function; }
  std::string_view name;
  Body body;
  Value self;
};

struct MacroObject : Object {
  MacroObject(const Macro* m, Scope* s) : Object(Kind::macro), macro(m), scope(s) {}
  static bool holds(Kind kind) { return kind == Kind::macro; }
  const Macro* macro;
  Scope* scope;  // where the macro was defined; kept by the interpreter until the rendering ends
};

// The variable `loop`. `pull` returns the next item that meets the loop's condition; it is empty after the last item.
struct LoopObject : Object {
  LoopObject() : Object(Kind::loop) {}
  static bool holds(Kind kind) { return kind == Kind::loop; }
  std::function<Result<std::optional<Value>>()> pull;
  std::optional<size_t> known_length;  // if the loop's source has a length
  std::vector<Value> ahead;            // pulled but not yet reached, last one first
  int64_t index0 = -1;
  int64_t depth0 = 0;
  Value previous, current;
  std::optional<Value> last_changed;
  const For* recursive = nullptr;  // the statement, if the loop is recursive
  Scope* scope = nullptr;
};

struct CyclerObject : Object {
  explicit CyclerObject(std::vector<Value> v) : Object(Kind::cycler), items(std::move(v)) {}
  static bool holds(Kind kind) { return kind == Kind::cycler; }
  std::vector<Value> items;
  size_t at = 0;
};

struct JoinerObject : Object {
  explicit JoinerObject(Value s) : Object(Kind::joiner), separator(std::move(s)) {}
  static bool holds(Kind kind) { return kind == Kind::joiner; }
  Value separator;
  bool used = false;
};

template <class T, class... A>
Value make(A&&... arguments) {
  // The analyzer does not follow the count inside a Value.
  return Value::of(new T(std::forward<A>(arguments)...));  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
}

inline const std::string& Value::text() const {
  return as<StringObject>()->text;
}
inline const std::vector<Value>& Value::items() const {
  return as<SequenceObject>()->items;
}
inline const Dict& dict_of(const Value& value) {
  return value.as<DictObject>()->dict;
}
inline Value make_dict(Dict dict) {
  return make<DictObject>(Kind::dict, std::move(dict));
}
inline Value make_pair(Value a, Value b) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(a));
  items.push_back(std::move(b));
  return Value::tuple(std::move(items));
}
inline Value make_undefined(std::string message) {
  return make<UndefinedObject>(UndefinedObject::Why::other, "", std::move(message));
}
// The message for the use of an undefined value. REQUIRES: value.is(Kind::undefined)
std::string undefined_message(const Value& value);

}  // namespace rocmforge::jinja
