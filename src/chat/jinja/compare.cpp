#include "chat/jinja/compare.h"

#include <algorithm>
#include <numeric>

#include "base/utf8.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_integral() < b.as_integral() ? -1 : a.as_integral() > b.as_integral();
  }
  const auto x = static_cast<long double>(a.is(Kind::real) ? a.as_number() : static_cast<long double>(a.as_integral()));
  const auto y = static_cast<long double>(b.is(Kind::real) ? b.as_number() : static_cast<long double>(b.as_integral()));
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;  // 2: NaN, neither less nor equal
}

Result<bool> equals_at(Runtime& rt, const Value& a, const Value& b, size_t depth);

Result<bool> equal_items(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b, size_t depth) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    if (!TRY(equals_at(rt, a[i], b[i], depth))) return false;
  }
  return true;
}

Result<bool> equal_dicts(Runtime& rt, const Dict& a, const Dict& b, bool with_values, size_t depth) {
  if (a.size() != b.size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.find(entry.key);
    if (other == nullptr || (with_values && !TRY(equals_at(rt, entry.value, *other, depth)))) return false;
  }
  return true;
}

// Views of keys and of items compare as sets.
Result<bool> equal_views(Runtime& rt, const Value& a, const Value& b, size_t depth) {
  const auto* x = a.as<DictViewObject>();
  const auto* y = b.as<DictViewObject>();
  if (x->part != y->part || x->part == DictViewObject::Part::values) return x == y;
  return equal_dicts(rt, dict_of(x->dict), dict_of(y->dict), x->part == DictViewObject::Part::items, depth);
}

Result<bool> equals_at(Runtime& rt, const Value& a, const Value& b, size_t depth) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (depth > kMaxValueDepth) return value_too_deep();
  TRY(rt.charge(1));
  switch (a.kind()) {
    case Kind::none:
    case Kind::undefined:
      return true;
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      RF_UNREACHABLE("numbers were compared above");
    case Kind::string:
      TRY(rt.charge_text(a.text().size()));
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple:
      return a.object() == b.object() ? Result<bool>(true) : equal_items(rt, a.items(), b.items(), depth + 1);
    case Kind::dict:
      return a.object() == b.object() ? Result<bool>(true) : equal_dicts(rt, dict_of(a), dict_of(b), true, depth + 1);
    case Kind::dict_view:
      return equal_views(rt, a, b, depth + 1);
    case Kind::range: {
      const auto* x = a.as<RangeObject>();
      const auto* y = b.as<RangeObject>();
      return x->n == y->n && (x->n == 0 || (x->start == y->start && (x->n == 1 || x->step == y->step)));
    }
    case Kind::function: {
      const auto* x = a.as<FunctionObject>();
      const auto* y = b.as<FunctionObject>();
      return x->body == y->body && is_same(x->self, y->self);
    }
    case Kind::name_space:
    case Kind::iterator:
    case Kind::macro:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
      return a.object() == b.object();
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

Error not_ordered(const char* op, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) return undefined_fault(a);
  if (b.is(Kind::undefined)) return undefined_fault(b);
  return fault("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b));
}

// -1, 0, 1, or 2 when neither is less (NaN).
Result<int> order(Runtime& rt, const char* op, const Value& a, const Value& b, size_t depth) {
  TRY(rt.charge(1));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.kind() != b.kind()) return not_ordered(op, a, b);
  if (a.is(Kind::string)) {
    TRY(rt.charge_text(std::min(a.text().size(), b.text().size())));
    // UTF-8 sorts as its code points do.
    const int c = a.text().compare(b.text());
    return c < 0 ? -1 : c > 0;
  }
  if (!a.is_sequence()) return not_ordered(op, a, b);
  if (depth > kMaxValueDepth) return value_too_deep();
  const size_t n = std::min(a.items().size(), b.items().size());
  for (size_t i = 0; i < n; i++) {
    if (!TRY(equals_at(rt, a.items()[i], b.items()[i], depth + 1))) {
      return order(rt, op, a.items()[i], b.items()[i], depth + 1);
    }
  }
  return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size();
}

Result<void> check_hashable_at(Runtime& rt, const Value& key, size_t depth) {
  TRY(rt.charge(1));
  if (key.is(Kind::list) || key.is(Kind::dict) || key.is(Kind::dict_view))
    return fault("unhashable type: '{}'", type_name(key));
  if (!key.is(Kind::tuple)) return {};
  if (depth > kMaxValueDepth) return value_too_deep();
  for (const Value& item : key.items()) TRY(check_hashable_at(rt, item, depth + 1));
  return {};
}

Value view_item(const DictViewObject& view, size_t i) {
  const Dict::Entry& entry = dict_of(view.dict).entries()[i];
  switch (view.part) {
    case DictViewObject::Part::keys:
      return entry.key;
    case DictViewObject::Part::values:
      return entry.value;
    case DictViewObject::Part::items:
      return make_pair(entry.key, entry.value);
  }
  RF_UNREACHABLE("a view of no part");
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
    case Kind::undefined:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integral() != 0;
    case Kind::real:
      return value.as_number() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return dict_of(value).size() > 0;
    case Kind::range:
      return value.as<RangeObject>()->n > 0;
    case Kind::dict_view:
      return dict_of(value.as<DictViewObject>()->dict).size() > 0;
    case Kind::name_space:
    case Kind::iterator:
    case Kind::function:
    case Kind::macro:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
      return true;
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

Result<bool> equals(Runtime& rt, const Value& a, const Value& b) {
  return equals_at(rt, a, b, 0);
}

Result<bool> less_than(Runtime& rt, const Value& a, const Value& b) {
  return TRY(order(rt, "<", a, b, 0)) == -1;
}

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_integral()) return a.as_integral() == b.as_integral();
  if (a.is(Kind::real)) return a.as_number() == b.as_number();
  return a.object() == b.object();
}

Result<bool> compare(Runtime& rt, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::equal:
      return equals(rt, a, b);
    case CompareOp::not_equal:
      return !TRY(equals(rt, a, b));
    case CompareOp::less:
      return less_than(rt, a, b);
    case CompareOp::less_equal: {
      const int c = TRY(order(rt, "<=", a, b, 0));
      return c == -1 || c == 0;
    }
    case CompareOp::greater:
      return TRY(order(rt, ">", a, b, 0)) == 1;
    case CompareOp::greater_equal: {
      const int c = TRY(order(rt, ">=", a, b, 0));
      return c == 1 || c == 0;
    }
    case CompareOp::in:
      return contains(rt, b, a);
    case CompareOp::not_in:
      return !TRY(contains(rt, b, a));
  }
  RF_UNREACHABLE("a CompareOp outside its enum");
}

Result<bool> contains(Runtime& rt, const Value& container, const Value& item) {
  if (container.is(Kind::string)) {
    if (!item.is(Kind::string)) {
      return fault("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    TRY(rt.charge_text(container.text().size()));
    return find_text(container.text(), item.text()) != std::string_view::npos;
  }
  const bool is_keys =
      container.is(Kind::dict_view) && container.as<DictViewObject>()->part == DictViewObject::Part::keys;
  if (container.is(Kind::dict) || is_keys) {
    TRY(check_hashable(rt, item));
    return dict_of(is_keys ? container.as<DictViewObject>()->dict : container).find(item) != nullptr;
  }
  if (!is_iterable(container)) return fault("argument of type '{}' is not iterable", type_name(container));
  Walk walk = TRY(Walk::over(container));
  while (auto candidate = TRY(walk.next())) {
    TRY(rt.charge(1));
    if (is_same(*candidate, item) || TRY(equals(rt, *candidate, item))) return true;
  }
  return false;
}

Result<void> check_hashable(Runtime& rt, const Value& key) {
  if (key.is(Kind::string)) return {};
  return check_hashable_at(rt, key, 0);
}

std::optional<size_t> find_length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return value.as<StringObject>()->n_characters();
    case Kind::list:
    case Kind::tuple:
      return value.items().size();
    case Kind::dict:
      return dict_of(value).size();
    case Kind::range:
      return static_cast<size_t>(value.as<RangeObject>()->n);
    case Kind::dict_view:
      return dict_of(value.as<DictViewObject>()->dict).size();
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
    case Kind::name_space:
    case Kind::iterator:
    case Kind::function:
    case Kind::macro:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
      return std::nullopt;
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

Result<size_t> length_of(const Value& value) {
  if (const auto n = find_length(value)) return *n;
  return fault("object of type '{}' has no len()", type_name(value));
}

bool is_iterable(const Value& value) {
  return value.is(Kind::iterator) || find_length(value).has_value();
}

Result<Walk> Walk::over(Value value) {
  if (is_iterable(value)) return Walk(std::move(value));
  return fault("'{}' object is not iterable", type_name(value));
}

Result<std::optional<Value>> Walk::next() {
  switch (source_.kind()) {
    case Kind::string: {
      const std::string& text = source_.text();
      if (at_ >= text.size()) return std::optional<Value>();
      const size_t n = decode_utf8(text, at_).n_bytes;
      at_ += n;
      return std::optional(Value::string(text.substr(at_ - n, n)));
    }
    case Kind::iterator: {
      auto* iterator = source_.as<IteratorObject>();
      if (iterator->next < iterator->items.size()) return std::optional(iterator->items[iterator->next++]);
      if (iterator->then) {
        Error error = std::move(*iterator->then);
        iterator->then.reset();
        return error;
      }
      return std::optional<Value>();
    }
    default:
      break;
  }
  if (at_ >= *find_length(source_)) return std::optional<Value>();
  const size_t i = at_++;
  if (source_.is_sequence()) return std::optional(source_.items()[i]);
  if (source_.is(Kind::dict)) return std::optional(dict_of(source_).entries()[i].key);
  if (source_.is(Kind::range))
    return std::optional(Value::integer(source_.as<RangeObject>()->at(static_cast<int64_t>(i))));
  return std::optional(view_item(*source_.as<DictViewObject>(), i));
}

Result<std::vector<Value>> to_vector(Runtime& rt, const Value& value) {
  if (value.is_sequence()) {
    TRY(rt.charge_copies(value.items().size()));
    return value.items();
  }
  Walk walk = TRY(Walk::over(value));
  std::vector<Value> items;
  while (auto item = TRY(walk.next())) {
    TRY(rt.charge(1));
    items.push_back(std::move(*item));
  }
  return items;
}

Result<std::optional<std::vector<Value>>> to_reversed(Runtime& rt, const Value& value) {
  if (!find_length(value)) return std::optional<std::vector<Value>>();
  std::vector<Value> items = TRY(to_vector(rt, value));
  std::reverse(items.begin(), items.end());
  return std::optional(std::move(items));
}

Result<std::vector<Value>> sort_by(Runtime& rt, std::vector<Value> items, const std::vector<Value>& keys,
                                   bool reverse) {
  // Merging from the bottom up: stable, and an error from a comparison ends it at once.
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<size_t> merged(items.size());
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t low = 0; low < order.size(); low += 2 * width) {
      const size_t middle = std::min(low + width, order.size());
      const size_t high = std::min(low + 2 * width, order.size());
      size_t left = low;
      size_t right = middle;
      for (size_t out = low; out < high; out++) {
        bool take_right = left == middle;
        if (!take_right && right < high) {
          const Value& a = keys[order[left]];
          const Value& b = keys[order[right]];
          take_right = reverse ? TRY(less_than(rt, a, b)) : TRY(less_than(rt, b, a));
        }
        merged[out] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(std::move(items[i]));
  return sorted;
}

}  // namespace rocmforge::jinja
