// Attributes: the methods of dicts and sequences, the properties of loops, macros and the other objects.

#include <algorithm>
#include <array>

#include "chat/jinja/compare.h"
#include "chat/jinja/loop.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {
namespace {

Result<Value> dict_get(Runtime& rt, const Value& self, const Args& args) {
  const auto [key, fallback] = TRY(bind<2>(args, "get", {"key", "default"}, 1, 2));
  TRY(check_hashable(rt, *key));
  if (const Value* found = dict_of(self).find(*key)) return *found;
  return fallback != nullptr ? *fallback : Value();
}

template <DictViewObject::Part kPart>
Result<Value> dict_view(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "this method"));
  return make<DictViewObject>(kPart, self);
}

// A copy of what cannot change is the thing itself.
Result<Value> copy(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "copy"));
  return self;
}

Result<Value> sequence_count(Runtime& rt, const Value& self, const Args& args) {
  const auto [item] = TRY(bind<1>(args, "count", {"value"}, 1, 1));
  int64_t n = 0;
  Walk walk = TRY(Walk::over(self));
  while (auto candidate = TRY(walk.next())) {
    TRY(rt.charge(1));
    n += TRY(equals(rt, *candidate, *item)) ? 1 : 0;
  }
  return Value::integer(n);
}

Result<Value> sequence_index(Runtime& rt, const Value& self, const Args& args) {
  const auto [item, start, stop] = TRY(bind<3>(args, "index", {"value", "start", "stop"}, 1, 3));
  const std::vector<Value> items = TRY(to_vector(rt, self));
  const Span span = TRY(clamp_span(start, stop, items.size()));
  for (int64_t i = span.start; i < span.stop; i++) {
    TRY(rt.charge(1));
    if (TRY(equals(rt, items[static_cast<size_t>(i)], *item))) return Value::integer(i);
  }
  return fault("the value is not in the {}", type_name(self));
}

Result<Value> cycler_next(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "next"));
  auto* cycler = self.as<CyclerObject>();
  const size_t at = cycler->at;
  cycler->at = (at + 1) % cycler->items.size();
  return cycler->items[at];
}

Result<Value> cycler_reset(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "reset"));
  self.as<CyclerObject>()->at = 0;
  return Value();
}

constexpr auto kDictMethods = std::to_array<NamedCallable>({
    {"get", dict_get},
    {"items", dict_view<DictViewObject::Part::items>},
    {"keys", dict_view<DictViewObject::Part::keys>},
    {"values", dict_view<DictViewObject::Part::values>},
    {"copy", copy},
});
constexpr auto kListMethods =
    std::to_array<NamedCallable>({{"index", sequence_index}, {"count", sequence_count}, {"copy", copy}});
constexpr auto kTupleMethods = std::to_array<NamedCallable>({{"index", sequence_index}, {"count", sequence_count}});
constexpr auto kCyclerMethods = std::to_array<NamedCallable>({{"next", cycler_next}, {"reset", cycler_reset}});

template <size_t N>
Callable find_in(const std::array<NamedCallable, N>& methods, std::string_view name) {
  for (const NamedCallable& method : methods) {
    if (method.name == name) return method.body;
  }
  return nullptr;
}

constexpr std::string_view kForbiddenInDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kForbiddenInLists[] = {"append", "clear", "pop",    "reverse",
                                                  "insert", "sort",  "extend", "remove"};

Value unsafe_attribute(const Value& value, std::string_view name) {
  return make<UndefinedObject>(UndefinedObject::Why::unsafe_attribute, type_name(value), std::string(name));
}

std::optional<Value> macro_property(const Macro& macro, std::string_view name) {
  if (name == "name") return macro.name.empty() ? Value() : Value::string(macro.name);
  if (name == "catch_kwargs") return Value::boolean(macro.uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(macro.uses_varargs);
  if (name == "caller") return Value::boolean(macro.uses_caller);
  return std::nullopt;
}

}  // namespace

Callable find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::string:
      return find_string_method(name);
    case Kind::dict:
      return find_in(kDictMethods, name);
    case Kind::list:
      return find_in(kListMethods, name);
    case Kind::tuple:
    case Kind::range:
      return find_in(kTupleMethods, name);
    case Kind::cycler:
      return find_in(kCyclerMethods, name);
    case Kind::loop:
      return find_loop_method(name);
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
    case Kind::undefined:
    case Kind::name_space:
    case Kind::dict_view:
    case Kind::iterator:
    case Kind::function:
    case Kind::macro:
    case Kind::joiner:
      return nullptr;
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

bool is_forbidden_method(const Value& value, std::string_view name) {
  if (value.is(Kind::dict)) return std::ranges::find(kForbiddenInDicts, name) != std::end(kForbiddenInDicts);
  if (value.is(Kind::list)) return std::ranges::find(kForbiddenInLists, name) != std::end(kForbiddenInLists);
  return false;
}

Result<std::optional<Value>> find_attribute(Runtime&, const Value& value, std::string_view name) {
  if (name.starts_with("__")) return std::optional(unsafe_attribute(value, name));
  if (value.is(Kind::name_space)) {
    const Value* found = dict_of(value).find(name);
    if (found == nullptr) return std::optional<Value>();
    return std::optional(name.starts_with('_') ? unsafe_attribute(value, name) : *found);
  }
  if (is_forbidden_method(value, name)) return std::optional(unsafe_attribute(value, name));
  if (value.is(Kind::loop)) {
    if (auto property = TRY(loop_property(*value.as<LoopObject>(), name))) return property;
  }
  if (value.is(Kind::macro)) return macro_property(*value.as<MacroObject>()->macro, name);
  if (value.is(Kind::range)) {
    const auto* range = value.as<RangeObject>();
    if (name == "start") return std::optional(Value::integer(range->start));
    if (name == "stop") return std::optional(Value::integer(range->stop));
    if (name == "step") return std::optional(Value::integer(range->step));
  }
  if (value.is(Kind::tuple) && value.as<SequenceObject>()->is_group) {
    if (name == "grouper") return std::optional(value.items()[0]);
    if (name == "list") return std::optional(value.items()[1]);
  }
  if (value.is(Kind::cycler) && name == "current") {
    const auto* cycler = value.as<CyclerObject>();
    return std::optional(cycler->items[cycler->at]);
  }
  if (const Callable method = find_method(value, name)) {
    return std::optional(make<FunctionObject>("method", method, value));
  }
  return std::optional<Value>();
}

}  // namespace rocmforge::jinja
