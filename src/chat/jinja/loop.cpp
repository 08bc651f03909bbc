#include "chat/jinja/loop.h"

#include <algorithm>
#include <array>

#include "chat/jinja/compare.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/runtime.h"

namespace rocmforge::jinja {
namespace {

Result<std::optional<Value>> pull(LoopObject& loop) {
  if (!loop.pull) return std::optional<Value>();
  return loop.pull();
}

Result<std::optional<Value>> peek(LoopObject& loop) {
  if (loop.ahead.empty()) {
    auto item = TRY(pull(loop));
    if (!item) return std::optional<Value>();
    loop.ahead.push_back(std::move(*item));
  }
  return std::optional(loop.ahead.back());
}

Result<int64_t> length(LoopObject& loop) {
  if (!loop.known_length) {
    std::vector<Value> rest;
    while (auto item = TRY(pull(loop))) rest.push_back(std::move(*item));
    std::reverse(rest.begin(), rest.end());
    rest.insert(rest.end(), loop.ahead.begin(), loop.ahead.end());
    loop.ahead = std::move(rest);
    loop.known_length = loop.ahead.size() + static_cast<size_t>(loop.index0 + 1);
  }
  return static_cast<int64_t>(*loop.known_length);
}

Result<Value> cycle(Runtime&, const Value& self, const Args& args) {
  if (!args.named.empty()) return fault("cycle() takes no keyword arguments");
  if (args.positional.empty()) return fault("no items for cycling given");
  return args.positional[static_cast<size_t>(self.as<LoopObject>()->index0) % args.positional.size()];
}

Result<Value> changed(Runtime& rt, const Value& self, const Args& args) {
  if (!args.named.empty()) return fault("changed() takes no keyword arguments");
  auto* loop = self.as<LoopObject>();
  Value now = Value::tuple(args.positional);
  if (loop->last_changed && TRY(equals(rt, *loop->last_changed, now))) return Value::boolean(false);
  // A loop that ended remembers nothing more: it could remember itself.
  if (loop->pull) loop->last_changed = std::move(now);
  return Value::boolean(true);
}

}  // namespace

Result<std::optional<Value>> advance(LoopObject& loop) {
  auto item = TRY(peek(loop));
  if (!item) return item;
  loop.ahead.pop_back();
  loop.index0++;
  loop.previous = std::move(loop.current);
  loop.current = *item;
  return item;
}

Result<std::optional<Value>> loop_property(LoopObject& loop, std::string_view name) {
  const auto integer = [](int64_t v) { return std::optional(Value::integer(v)); };
  if (name == "index0") return integer(loop.index0);
  if (name == "index") return integer(loop.index0 + 1);
  if (name == "first") return std::optional(Value::boolean(loop.index0 == 0));
  if (name == "last") return std::optional(Value::boolean(!TRY(peek(loop)).has_value()));
  if (name == "length") return integer(TRY(length(loop)));
  if (name == "revindex") return integer(TRY(length(loop)) - loop.index0);
  if (name == "revindex0") return integer(TRY(length(loop)) - loop.index0 - 1);
  if (name == "depth") return integer(loop.depth0 + 1);
  if (name == "depth0") return integer(loop.depth0);
  if (name == "previtem")
    return std::optional(loop.index0 == 0 ? make_undefined("there is no previous item") : loop.previous);
  if (name == "nextitem") {
    auto item = TRY(peek(loop));
    return item ? std::move(item) : std::optional(make_undefined("there is no next item"));
  }
  return std::optional<Value>();
}

Callable find_loop_method(std::string_view name) {
  if (name == "cycle") return cycle;
  if (name == "changed") return changed;
  return nullptr;
}

}  // namespace rocmforge::jinja
