// Filters on sequences and mappings as a whole.

#include <algorithm>
#include <array>

#include "chat/jinja/attribute_path.h"
#include "chat/jinja/compare.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

bool truth(const Value* argument) {
  return argument != nullptr && is_true(*argument);
}

Result<Value> first(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "first"));
  Walk walk = TRY(Walk::over(self));
  if (auto item = TRY(walk.next())) return std::move(*item);
  return make_undefined("No first item, sequence was empty.");
}

Result<Value> last(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "last"));
  if (self.is(Kind::string) || self.is_sequence()) {
    if (TRY(length_of(self)) == 0) return make_undefined("No last item, sequence was empty.");
    return get_item(rt, self, Value::integer(-1));
  }
  const auto items = TRY(to_reversed(rt, self));
  if (!items) return fault("'{}' object is not reversible", type_name(self));
  return items->empty() ? make_undefined("No last item, sequence was empty.") : items->front();
}

Result<Value> reverse(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "reverse"));
  if (self.is(Kind::string)) return slice(rt, self, Value(), Value(), Value::integer(-1));
  if (auto items = TRY(to_reversed(rt, self))) {
    return make<IteratorObject>("reversed", std::move(*items));
  }
  if (!is_iterable(self)) return fault("argument must be iterable");
  std::vector<Value> items = TRY(to_vector(rt, self));
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Result<Value> join(Runtime& rt, const Value& self, const Args& args) {
  const auto [separator, attribute] = TRY(bind<2>(args, "join", {"d", "attribute"}));
  const std::string between = separator != nullptr ? TRY(to_str(rt, *separator)) : "";
  const AttributePath path = TRY(AttributePath::from(attribute));
  Walk walk = TRY(Walk::over(self));
  Builder out(rt);
  for (bool is_first = true;; is_first = false) {
    const auto item = TRY(walk.next());
    if (!item) break;
    TRY(rt.charge(1));
    if (!is_first) TRY(out.add(between));
    TRY(print_str(out, TRY(path.of(rt, *item))));
  }
  return Value::string(out.take());
}

Result<Value> sum(Runtime& rt, const Value& self, const Args& args) {
  const auto [attribute, start] = TRY(bind<2>(args, "sum", {"attribute", "start"}));
  const AttributePath path = TRY(AttributePath::from(attribute));
  Value total = start != nullptr ? *start : Value::integer(0);
  if (total.is(Kind::string)) return fault("sum() can't sum strings [use ''.join(seq) instead]");
  Walk walk = TRY(Walk::over(self));
  while (const auto item = TRY(walk.next())) {
    TRY(rt.charge(1));
    total = TRY(arithmetic(rt, BinaryOp::add, total, TRY(path.of(rt, *item))));
  }
  return total;
}

template <bool kMaximum>
Result<Value> extreme(Runtime& rt, const Value& self, const Args& args) {
  const auto [case_sensitive, attribute] =
      TRY(bind<2>(args, kMaximum ? "max" : "min", {"case_sensitive", "attribute"}));
  const AttributePath path = TRY(AttributePath::from(attribute, !truth(case_sensitive)));
  Walk walk = TRY(Walk::over(self));
  auto best = TRY(walk.next());
  if (!best) return make_undefined("No aggregated item, sequence was empty.");
  Value best_key = TRY(path.of(rt, *best));
  while (auto item = TRY(walk.next())) {
    Value key = TRY(path.of(rt, *item));
    if (kMaximum ? TRY(less_than(rt, best_key, key)) : TRY(less_than(rt, key, best_key))) {
      best = std::move(item);
      best_key = std::move(key);
    }
  }
  return std::move(*best);
}

Result<Value> sort(Runtime& rt, const Value& self, const Args& args) {
  const auto [descending, case_sensitive, attribute] =
      TRY(bind<3>(args, "sort", {"reverse", "case_sensitive", "attribute"}));
  const std::vector<AttributePath> paths = TRY(AttributePath::several_from(attribute, !truth(case_sensitive)));
  std::vector<Value> items = TRY(to_vector(rt, self));
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items) {
    std::vector<Value> key;
    key.reserve(paths.size());
    for (const AttributePath& path : paths) key.push_back(TRY(path.of(rt, item)));
    keys.push_back(Value::list(std::move(key)));
  }
  return Value::list(TRY(sort_by(rt, std::move(items), keys, truth(descending))));
}

Result<Value> dictsort(Runtime& rt, const Value& self, const Args& args) {
  const auto [case_sensitive, by, descending] = TRY(bind<3>(args, "dictsort", {"case_sensitive", "by", "reverse"}));
  const std::string_view part = by != nullptr && by->is(Kind::string) ? std::string_view(by->text())
                                : by != nullptr                       ? ""
                                                                      : "key";
  if (part != "key" && part != "value") return fault("You can only sort by either \"key\" or \"value\"");
  if (self.is(Kind::undefined)) return undefined_fault(self);
  if (!self.is(Kind::dict)) return fault("'{}' object has no attribute 'items'", type_name(self));
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const Dict::Entry& entry : dict_of(self).entries()) {
    TRY(rt.charge(1));
    pairs.push_back(make_pair(entry.key, entry.value));
    const Value& key = part == "key" ? entry.key : entry.value;
    keys.push_back(truth(case_sensitive) ? key : fold_case(key));
  }
  return Value::list(TRY(sort_by(rt, std::move(pairs), keys, truth(descending))));
}

Result<Value> unique(Runtime& rt, const Value& self, const Args& args) {
  const auto [case_sensitive, attribute] = TRY(bind<2>(args, "unique", {"case_sensitive", "attribute"}));
  const AttributePath path = TRY(AttributePath::from(attribute, !truth(case_sensitive)));
  std::vector<Value> kept;
  Dict seen;
  Walk walk = TRY(Walk::over(self));
  while (auto item = TRY(walk.next())) {
    Value key = TRY(path.of(rt, *item));
    TRY(check_hashable(rt, key));
    TRY(rt.charge(1));
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), Value());
    kept.push_back(std::move(*item));
  }
  return make<IteratorObject>("generator", std::move(kept));
}

Result<Value> groupby(Runtime& rt, const Value& self, const Args& args) {
  const auto [attribute, fallback, case_sensitive] =
      TRY(bind<3>(args, "groupby", {"attribute", "default", "case_sensitive"}, 1));
  AttributePath path = TRY(AttributePath::from(attribute, !truth(case_sensitive)));
  if (fallback != nullptr && !fallback->is(Kind::none)) path.set_default(*fallback);
  AttributePath shown = path;
  shown.keep_case();
  std::vector<Value> items = TRY(to_vector(rt, self));
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items) keys.push_back(TRY(path.of(rt, item)));
  items = TRY(sort_by(rt, std::move(items), keys, false));
  std::vector<Value> groups;
  for (size_t i = 0; i < items.size();) {
    const Value key = TRY(path.of(rt, items[i]));
    std::vector<Value> members;
    const size_t start = i;
    while (i < items.size() && TRY(equals(rt, TRY(path.of(rt, items[i])), key))) members.push_back(items[i++]);
    if (i == start) members.push_back(items[i++]);  // a key unequal to itself (NaN)
    Value group = make_pair(TRY(shown.of(rt, members[0])), Value::list(members));
    group.as<SequenceObject>()->is_group = true;
    groups.push_back(std::move(group));
  }
  return Value::list(std::move(groups));
}

Result<Value> batch(Runtime& rt, const Value& self, const Args& args) {
  const auto [size, fill] = TRY(bind<2>(args, "batch", {"linecount", "fill_with"}, 1));
  const int64_t n = size->is_integral() ? size->as_integral() : -1;
  std::vector<Value> batches;
  std::vector<Value> current;
  Walk walk = TRY(Walk::over(self));
  while (auto item = TRY(walk.next())) {
    TRY(rt.charge(1));
    if (static_cast<int64_t>(current.size()) == n) batches.push_back(Value::list(std::exchange(current, {})));
    current.push_back(std::move(*item));
  }
  if (!current.empty()) {
    if (fill != nullptr && !fill->is(Kind::none) && static_cast<int64_t>(current.size()) < n) {
      TRY(rt.charge_copies(static_cast<size_t>(n)));
      current.resize(static_cast<size_t>(n), *fill);
    }
    batches.push_back(Value::list(std::move(current)));
  }
  return make<IteratorObject>("generator", std::move(batches));
}

Result<Value> slices(Runtime& rt, const Value& self, const Args& args) {
  const auto [count, fill] = TRY(bind<2>(args, "slice", {"slices", "fill_with"}, 1));
  const int64_t n = TRY(to_index(*count));
  const std::vector<Value> items = TRY(to_vector(rt, self));
  if (n == 0) return fault("integer division or modulo by zero");
  std::vector<Value> out;
  if (n > 0) {
    const size_t per_slice = items.size() / static_cast<size_t>(n);
    const size_t n_longer = items.size() % static_cast<size_t>(n);
    size_t at = 0;
    for (size_t i = 0; i < static_cast<size_t>(n); i++) {
      const size_t size = per_slice + (i < n_longer ? 1 : 0);
      TRY(rt.charge(1));
      std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(at),
                              items.begin() + static_cast<ptrdiff_t>(at + size));
      at += size;
      if (fill != nullptr && !fill->is(Kind::none) && i >= n_longer) part.push_back(*fill);
      out.push_back(Value::list(std::move(part)));
    }
  }
  return make<IteratorObject>("generator", std::move(out));
}

Result<Value> items(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "items"));
  if (self.is(Kind::undefined)) return make<IteratorObject>("generator", std::vector<Value>());
  if (!self.is(Kind::dict)) return fault("Can only get item pairs from a mapping.");
  const Value view = make<DictViewObject>(DictViewObject::Part::items, self);
  return make<IteratorObject>("generator", TRY(to_vector(rt, view)));
}

// Python runs these when the result is walked: so an error waits until then.
template <Callable kFilter>
Result<Value> lazy(Runtime& rt, const Value& self, const Args& args) {
  auto result = kFilter(rt, self, args);
  if (result.ok()) return result;
  Error error = std::move(result).error();
  if (error.code != ErrorCode::template_runtime) return error;
  Value failed = make<IteratorObject>("generator", std::vector<Value>());
  failed.as<IteratorObject>()->then = std::move(error);
  return failed;
}

constexpr auto kFilters = std::to_array<NamedCallable>({
    {"join", join},
    {"items", lazy<items>},
    {"first", first},
    {"last", last},
    {"sort", sort},
    {"dictsort", dictsort},
    {"reverse", reverse},
    {"unique", lazy<unique>},
    {"sum", sum},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"groupby", groupby},
    {"batch", lazy<batch>},
    {"slice", lazy<slices>},
});

}  // namespace

std::span<const NamedCallable> sequence_filters() {
  return kFilters;
}

}  // namespace rocmforge::jinja
