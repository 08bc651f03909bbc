#include "chat/jinja/value.h"

#include <fmt/core.h>

#include "chat/jinja/objects.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

// Hands every value the object holds to `give`, then frees the object.
template <class Give>
void dismantle(Object* object, Give give) {
  const auto give_all = [&](std::vector<Value>& values) {
    for (Value& v : values) give(v);
  };
  switch (object->kind) {
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      RF_UNREACHABLE("a plain value has no object");
    case Kind::undefined:
      delete static_cast<UndefinedObject*>(object);
      return;
    case Kind::string:
      delete static_cast<StringObject*>(object);
      return;
    case Kind::list:
    case Kind::tuple: {
      auto* sequence = static_cast<SequenceObject*>(object);
      give_all(sequence->items);
      delete sequence;
      return;
    }
    case Kind::dict:
    case Kind::name_space: {
      auto* dict = static_cast<DictObject*>(object);
      for (Dict::Entry& entry : dict->dict.take()) {
        give(entry.key);
        give(entry.value);
      }
      delete dict;
      return;
    }
    case Kind::range:
      delete static_cast<RangeObject*>(object);
      return;
    case Kind::dict_view: {
      auto* view = static_cast<DictViewObject*>(object);
      give(view->dict);
      delete view;
      return;
    }
    case Kind::iterator: {
      auto* iterator = static_cast<IteratorObject*>(object);
      give_all(iterator->items);
      delete iterator;
      return;
    }
    case Kind::function: {
      auto* function = static_cast<FunctionObject*>(object);
      give(function->self);
      delete function;
      return;
    }
    case Kind::macro:
      delete static_cast<MacroObject*>(object);
      return;
    case Kind::loop: {
      auto* loop = static_cast<LoopObject*>(object);
      give_all(loop->ahead);
      give(loop->previous);
      give(loop->current);
      if (loop->last_changed) give(*loop->last_changed);
      delete loop;
      return;
    }
    case Kind::cycler: {
      auto* cycler = static_cast<CyclerObject*>(object);
      give_all(cycler->items);
      delete cycler;
      return;
    }
    case Kind::joiner: {
      auto* joiner = static_cast<JoinerObject*>(object);
      give(joiner->separator);
      delete joiner;
      return;
    }
  }
}

}  // namespace

Value Value::string(std::string text) {
  return make<StringObject>(std::move(text), false);
}
Value Value::markup(std::string text) {
  return make<StringObject>(std::move(text), true);
}
Value Value::list(std::vector<Value> items) {
  return make<SequenceObject>(Kind::list, std::move(items));
}
Value Value::tuple(std::vector<Value> items) {
  return make<SequenceObject>(Kind::tuple, std::move(items));
}

// Without a call for each level, and without memory for the list of those that follow: there may be none.
void Value::destroy(Object* object) noexcept {
  for (Object* doomed = object; doomed != nullptr;) {
    Object* const one = std::exchange(doomed, doomed->next_doomed);
    dismantle(one, [&](Value& child) {
      if (Object* last = child.surrender()) last->next_doomed = std::exchange(doomed, last);
    });
  }
}

Value Value::from_json(const JsonValue& json) {
  struct Visitor {
    Value operator()(std::nullptr_t) const { return {}; }
    Value operator()(bool v) const { return boolean(v); }
    Value operator()(int64_t v) const { return integer(v); }
    Value operator()(uint64_t v) const { return real(static_cast<double>(v)); }
    Value operator()(double v) const { return real(v); }
    Value operator()(const std::string& v) const { return string(v); }
    Value operator()(const JsonArray& array) const {
      std::vector<Value> items;
      items.reserve(array.size());
      for (const JsonValue& item : array) items.push_back(from_json(item));
      return list(std::move(items));
    }
    Value operator()(const JsonObject& object) const {
      Dict dict;
      dict.reserve(object.size());
      for (const auto& [key, member] : object) dict.set(key, from_json(member));
      return make_dict(std::move(dict));
    }
  };
  return std::visit(Visitor{}, json.state());
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::undefined:
      return "Undefined";
    case Kind::string:
      return value.as<StringObject>()->markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::name_space:
      return "Namespace";
    case Kind::range:
      return "range";
    case Kind::dict_view:
      switch (value.as<DictViewObject>()->part) {
        case DictViewObject::Part::keys:
          return "dict_keys";
        case DictViewObject::Part::values:
          return "dict_values";
        case DictViewObject::Part::items:
          return "dict_items";
      }
      RF_UNREACHABLE("a view of no part");
    case Kind::iterator:
      return value.as<IteratorObject>()->type;
    case Kind::function:
      return "function";
    case Kind::macro:
      return "Macro";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

bool is_markup(const Value& value) {
  return value.is(Kind::string) && value.as<StringObject>()->markup;
}

size_t StringObject::n_characters() const {
  if (n_characters_ < 0) n_characters_ = static_cast<int64_t>(count_characters(text));
  return static_cast<size_t>(n_characters_);
}

std::string undefined_message(const Value& value) {
  const auto* undefined = value.as<UndefinedObject>();
  if (undefined == nullptr) return "the value is undefined";
  switch (undefined->why) {
    case UndefinedObject::Why::no_variable:
      return fmt::format("'{}' is undefined", undefined->name);
    case UndefinedObject::Why::no_attribute:
      return fmt::format("'{} object' has no attribute '{}'", undefined->of_type, undefined->name);
    case UndefinedObject::Why::unsafe_attribute:
      return fmt::format("access to attribute '{}' of '{}' object is unsafe", undefined->name, undefined->of_type);
    case UndefinedObject::Why::other:
      return undefined->name;
  }
  RF_UNREACHABLE("an undefined value without a reason");
}

}  // namespace rocmforge::jinja
