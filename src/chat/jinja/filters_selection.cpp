// map, select, reject, selectattr, rejectattr: a filter or test applied to each item.

#include <array>

#include "chat/jinja/attribute_path.h"
#include "chat/jinja/compare.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

// What is left of the arguments after the first `n`.
Args rest_of(const Args& args, size_t n) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(n), args.positional.end());
  rest.named = args.named;
  return rest;
}

Result<Value> map_items(Runtime& rt, const Value& self, const Args& args, std::vector<Value>& out) {
  if (!is_true(self)) return Value();
  AttributePath path;
  Callable filter = nullptr;
  Args filter_args;
  if (args.positional.empty()) {
    const auto [attribute, fallback] = TRY(bind<2>(args, "map", {"attribute", "default"}));
    if (attribute == nullptr) return fault("map requires a filter argument");
    path = TRY(AttributePath::from(attribute));
    if (fallback != nullptr && !fallback->is(Kind::none)) path.set_default(*fallback);
  } else {
    const std::string_view name = TRY(to_text_argument(args.positional[0], "map"));
    filter = find_filter(name);
    if (filter == nullptr) return fault("No filter named '{}'.", name);
    filter_args = rest_of(args, 1);
  }
  Walk walk = TRY(Walk::over(self));
  while (const auto item = TRY(walk.next())) {
    TRY(rt.charge(1));
    out.push_back(filter != nullptr ? TRY(filter(rt, *item, filter_args)) : TRY(path.of(rt, *item)));
  }
  return Value();
}

template <bool kByAttribute, bool kReject>
Result<Value> select_items(Runtime& rt, const Value& self, const Args& args, std::vector<Value>& out) {
  if (!is_true(self)) return Value();
  constexpr size_t kFirst = kByAttribute ? 1 : 0;
  if (args.positional.size() < kFirst) return fault("Missing parameter for attribute name");
  const AttributePath path = kByAttribute ? TRY(AttributePath::from(&args.positional[0])) : AttributePath();
  Callable test = nullptr;
  Args test_args;
  if (args.positional.size() > kFirst) {
    const std::string_view name = TRY(to_text_argument(args.positional[kFirst], "select"));
    test = find_test(name);
    if (test == nullptr) return fault("No test named '{}'.", name);
    test_args = rest_of(args, kFirst + 1);
  }
  Walk walk = TRY(Walk::over(self));
  while (auto item = TRY(walk.next())) {
    TRY(rt.charge(1));
    const Value subject = TRY(path.of(rt, *item));
    const bool passes = is_true(test != nullptr ? TRY(test(rt, subject, test_args)) : subject);
    if (passes != kReject) out.push_back(std::move(*item));
  }
  return Value();
}

// Python applies the filter as the result is walked: an error waits until the walk gets to it.
using Producer = Result<Value> (*)(Runtime& rt, const Value& self, const Args& args, std::vector<Value>& out);
template <Producer kProducer>
Result<Value> lazily(Runtime& rt, const Value& self, const Args& args) {
  std::vector<Value> out;
  auto done = kProducer(rt, self, args, out);
  Value iterator = make<IteratorObject>("generator", std::move(out));
  if (!done.ok()) {
    Error error = std::move(done).error();
    if (error.code != ErrorCode::template_runtime) return error;
    iterator.as<IteratorObject>()->then = std::move(error);
  }
  return iterator;
}

constexpr auto kFilters = std::to_array<NamedCallable>({
    {"map", lazily<map_items>},
    {"select", lazily<select_items<false, false>>},
    {"reject", lazily<select_items<false, true>>},
    {"selectattr", lazily<select_items<true, false>>},
    {"rejectattr", lazily<select_items<true, true>>},
});

}  // namespace

std::span<const NamedCallable> selection_filters() {
  return kFilters;
}

Value fold_case(const Value& value) {
  return value.is(Kind::string) ? Value::string(to_lower(value.text())) : value;
}

Result<AttributePath> AttributePath::from(const Value* attribute, bool ignore_case) {
  AttributePath path;
  path.ignore_case_ = ignore_case;
  if (attribute == nullptr || attribute->is(Kind::none)) return path;
  if (!attribute->is(Kind::string)) {
    path.parts_.push_back(*attribute);
    return path;
  }
  const std::string_view text = attribute->text();
  for (size_t at = 0; at <= text.size();) {
    const size_t dot = std::min(text.find('.', at), text.size());
    const std::string_view part = text.substr(at, dot - at);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    const auto number = digits ? parse_integer(part, 10) : std::nullopt;
    path.parts_.push_back(number ? Value::integer(*number) : Value::string(std::string(part)));
    at = dot + 1;
  }
  return path;
}

Result<std::vector<AttributePath>> AttributePath::several_from(const Value* attribute, bool ignore_case) {
  std::vector<AttributePath> paths;
  if (attribute == nullptr || !attribute->is(Kind::string)) {
    paths.push_back(TRY(from(attribute, ignore_case)));
    return paths;
  }
  const std::string_view text = attribute->text();
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const Value part = Value::string(std::string(text.substr(at, comma - at)));
    paths.push_back(TRY(from(&part, ignore_case)));
    at = comma + 1;
  }
  return paths;
}

Result<Value> AttributePath::of(Runtime& rt, const Value& item) const {
  if (parts_.empty()) return ignore_case_ ? fold_case(item) : item;
  Value found = item;
  for (const Value& part : parts_) {
    TRY(rt.charge(1));
    found = TRY(get_item(rt, found, part));
    if (default_ && found.is(Kind::undefined)) found = *default_;
  }
  return ignore_case_ ? fold_case(found) : found;
}

}  // namespace rocmforge::jinja
