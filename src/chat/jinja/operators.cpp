#include "chat/jinja/operators.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/compare.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/print.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

std::string_view symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::subtract:
      return "-";
    case BinaryOp::multiply:
      return "*";
    case BinaryOp::divide:
      return "/";
    case BinaryOp::floor_divide:
      return "//";
    case BinaryOp::modulo:
      return "%";
    case BinaryOp::power:
      return "** or pow()";
  }
  RF_UNREACHABLE("a BinaryOp outside its enum");
}

Error bad_operands(BinaryOp op, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) return undefined_fault(a);
  if (b.is(Kind::undefined)) return undefined_fault(b);
  return fault("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b));
}

Error overflow() {
  return Error{ErrorCode::template_runtime, "an integer beyond 64 bits"};
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return fault("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value::integer(result);
}

Result<Value> integer_arithmetic(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::add:
      return __builtin_add_overflow(a, b, &result) ? Result<Value>(overflow()) : Value::integer(result);
    case BinaryOp::subtract:
      return __builtin_sub_overflow(a, b, &result) ? Result<Value>(overflow()) : Value::integer(result);
    case BinaryOp::multiply:
      return __builtin_mul_overflow(a, b, &result) ? Result<Value>(overflow()) : Value::integer(result);
    case BinaryOp::power:
      return integer_power(a, b);
    case BinaryOp::divide:
      if (b == 0) return fault("division by zero");
      return Value::real(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOp::floor_divide:
    case BinaryOp::modulo:
      break;
  }
  if (b == 0) return fault("integer division or modulo by zero");
  if (b == -1) {  // INT64_MIN / -1 does not fit
    if (op == BinaryOp::modulo) return Value::integer(0);
    return a == INT64_MIN ? Result<Value>(overflow()) : Value::integer(-a);
  }
  const bool round_down = a % b != 0 && (a < 0) != (b < 0);
  return Value::integer(op == BinaryOp::modulo ? a % b + (round_down ? b : 0) : a / b - (round_down ? 1 : 0));
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Result<Value> real_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return Value::real(a + b);
    case BinaryOp::subtract:
      return Value::real(a - b);
    case BinaryOp::multiply:
      return Value::real(a * b);
    case BinaryOp::divide:
      return b == 0 ? Result<Value>(fault("float division by zero")) : Value::real(a / b);
    case BinaryOp::floor_divide: {
      if (b == 0) return fault("float floor division by zero");
      // In Python's order of roundings: from the exact remainder, then down.
      const double rest = std::fmod(a, b);
      double quotient = (a - rest) / b;
      if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
      if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
      const double whole = std::floor(quotient);
      return Value::real(quotient - whole > 0.5 ? whole + 1 : whole);
    }
    case BinaryOp::modulo:
      return b == 0 ? Result<Value>(fault("float modulo")) : Value::real(floor_modulo(a, b));
    case BinaryOp::power: {
      if (a == 0 && b < 0) return fault("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(b) && b != std::floor(b)) return fault("complex numbers are not supported");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) return fault("numerical result out of range");
      return Value::real(result);
    }
  }
  RF_UNREACHABLE("a BinaryOp outside its enum");
}

Result<Value> add_strings(Runtime& rt, const Value& a, const Value& b) {
  const bool markup = is_markup(a) || is_markup(b);
  const Value left = markup ? TRY(to_escaped(rt, a)) : a;
  const Value right = markup ? TRY(to_escaped(rt, b)) : b;
  Builder out(rt);
  TRY(out.add(left.text()));
  TRY(out.add(right.text()));
  return markup ? Value::markup(out.take()) : Value::string(out.take());
}

Result<Value> repeat(Runtime& rt, const Value& value, int64_t n) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(n, 0));
  if (value.is(Kind::string)) {
    Builder out(rt);
    TRY(out.repeat(value.text(), times));
    return is_markup(value) ? Value::markup(out.take()) : Value::string(out.take());
  }
  const std::vector<Value>& items = value.items();
  size_t total = 0;
  if (__builtin_mul_overflow(items.size(), times, &total)) total = SIZE_MAX;
  TRY(rt.charge_copies(total));
  std::vector<Value> repeated;
  repeated.reserve(total);
  for (uint64_t i = 0; i < times && !items.empty(); i++) repeated.insert(repeated.end(), items.begin(), items.end());
  return value.is(Kind::list) ? Value::list(std::move(repeated)) : Value::tuple(std::move(repeated));
}

Result<Value> add_sequences(Runtime& rt, const Value& a, const Value& b) {
  TRY(rt.charge_copies(a.items().size() + b.items().size()));
  std::vector<Value> joined;
  joined.reserve(a.items().size() + b.items().size());
  joined.insert(joined.end(), a.items().begin(), a.items().end());
  joined.insert(joined.end(), b.items().begin(), b.items().end());
  return a.is(Kind::list) ? Value::list(std::move(joined)) : Value::tuple(std::move(joined));
}

struct SliceRange {
  int64_t start, stop, step;
  size_t n;
};

Result<std::optional<int64_t>> slice_bound(const Value& bound) {
  if (bound.is(Kind::none)) return std::optional<int64_t>();
  if (bound.is_integral()) return std::optional<int64_t>(bound.as_integral());
  return fault("slice indices must be integers or None or have an __index__ method");
}

Result<SliceRange> resolve_slice(const Value& start, const Value& stop, const Value& step, size_t n) {
  const auto length = static_cast<int64_t>(n);
  const int64_t by = std::max(TRY(slice_bound(step)).value_or(1), -INT64_MAX);
  if (by == 0) return fault("slice step cannot be zero");
  const int64_t low = by > 0 ? 0 : -1;
  const int64_t high = by > 0 ? length : length - 1;
  const auto place = [&](std::optional<int64_t> bound, int64_t missing) {
    if (!bound) return missing;
    return std::clamp(*bound < 0 ? *bound + length : *bound, low, high);
  };
  const int64_t first = place(TRY(slice_bound(start)), by > 0 ? low : high);
  const int64_t last = place(TRY(slice_bound(stop)), by > 0 ? high : low);
  const int64_t distance = by > 0 ? last - first : first - last;
  const auto count = distance > 0 ? static_cast<size_t>((distance - 1) / std::abs(by)) + 1 : 0;
  return SliceRange{first, last, by, count};
}

std::string slice_text(const StringObject& string, const SliceRange& range) {
  const std::string& text = string.text;
  if (range.step == 1) {
    if (string.is_ascii()) return text.substr(static_cast<size_t>(range.start), range.n);
    const size_t from = byte_of_character(text, static_cast<size_t>(range.start));
    return text.substr(from, byte_of_character(std::string_view(text).substr(from), range.n));
  }
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t n = decode_utf8(text, at).n_bytes;
    characters.push_back(std::string_view(text).substr(at, n));
    at += n;
  }
  std::string out;
  for (size_t i = 0; i < range.n; i++)
    out += characters[static_cast<size_t>(range.start + static_cast<int64_t>(i) * range.step)];
  return out;
}

// The position a subscript means, or nothing when it is out of range.
std::optional<size_t> find_position(int64_t index, size_t n) {
  if (index < 0) index += static_cast<int64_t>(n);
  return index >= 0 && index < static_cast<int64_t>(n) ? std::optional(static_cast<size_t>(index)) : std::nullopt;
}

// value[key] where that is an item.
Result<std::optional<Value>> find_item(Runtime& rt, const Value& value, const Value& key) {
  if (value.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return std::optional<Value>();
    TRY(check_hashable(rt, key));
    const Value* found = dict_of(value).find(key);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_integral()) return std::optional<Value>();
  const int64_t index = key.as_integral();
  if (value.is_sequence()) {
    const auto at = find_position(index, value.items().size());
    return at ? std::optional(value.items()[*at]) : std::nullopt;
  }
  if (value.is(Kind::string)) {
    const auto* string = value.as<StringObject>();
    const auto at = find_position(index, string->n_characters());
    if (!at) return std::optional<Value>();
    TRY(rt.charge_text(string->is_ascii() ? 0 : string->text.size()));
    std::string character = slice_text(*string, {static_cast<int64_t>(*at), 0, 1, 1});
    return std::optional(string->markup ? Value::markup(std::move(character)) : Value::string(std::move(character)));
  }
  if (value.is(Kind::range)) {
    const auto* range = value.as<RangeObject>();
    const auto at = find_position(index, static_cast<size_t>(range->n));
    return at ? std::optional(Value::integer(range->at(static_cast<int64_t>(*at)))) : std::nullopt;
  }
  return std::optional<Value>();
}

Result<Value> missing(Runtime& rt, const Value& value, const Value& key) {
  using Why = UndefinedObject::Why;
  if (key.is(Kind::string)) return make<UndefinedObject>(Why::no_attribute, type_name(value), key.text());
  return make_undefined(fmt::format("{} object has no element {}", type_name(value), TRY(to_repr(rt, key))));
}

}  // namespace

Result<Value> arithmetic(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.as_integral(), b.as_integral());
  if (a.is_number() && b.is_number()) return real_arithmetic(op, a.as_number(), b.as_number());
  if (op == BinaryOp::add) {
    if (a.is(Kind::string) && b.is(Kind::string)) return add_strings(rt, a, b);
    if (a.is_sequence() && a.kind() == b.kind()) return add_sequences(rt, a, b);
    if ((a.is(Kind::string) || a.is_sequence()) && !b.is(Kind::undefined)) {
      return fault("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a));
    }
  }
  if (op == BinaryOp::multiply) {
    if ((a.is(Kind::string) || a.is_sequence()) && b.is_integral()) return repeat(rt, a, b.as_integral());
    if ((b.is(Kind::string) || b.is_sequence()) && a.is_integral()) return repeat(rt, b, a.as_integral());
  }
  if (op == BinaryOp::modulo && a.is(Kind::string)) return format_percent(rt, a, b);
  return bad_operands(op, a, b);
}

Result<Value> negate(const Value& value) {
  if (value.is(Kind::real)) return Value::real(-value.as_number());
  if (value.is_integral()) return integer_arithmetic(BinaryOp::subtract, 0, value.as_integral());
  if (value.is(Kind::undefined)) return undefined_fault(value);
  return fault("bad operand type for unary -: '{}'", type_name(value));
}

Result<Value> unary_plus(const Value& value) {
  if (value.is(Kind::real)) return value;
  if (value.is_integral()) return Value::integer(value.as_integral());
  if (value.is(Kind::undefined)) return undefined_fault(value);
  return fault("bad operand type for unary +: '{}'", type_name(value));
}

Result<Value> get_item(Runtime& rt, const Value& value, const Value& key) {
  if (value.is(Kind::undefined)) return undefined_fault(value);
  if (auto item = TRY(find_item(rt, value, key))) return std::move(*item);
  if (key.is(Kind::string)) {
    if (auto attribute = TRY(find_attribute(rt, value, key.text()))) return std::move(*attribute);
  }
  return missing(rt, value, key);
}

Result<Value> get_attribute(Runtime& rt, const Value& value, std::string_view name) {
  if (value.is(Kind::undefined)) return undefined_fault(value);
  if (auto attribute = TRY(find_attribute(rt, value, name))) return std::move(*attribute);
  if (value.is(Kind::dict)) {
    if (const Value* item = dict_of(value).find(name)) return *item;
  }
  return make<UndefinedObject>(UndefinedObject::Why::no_attribute, type_name(value), std::string(name));
}

Result<Value> slice(Runtime& rt, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is(Kind::undefined)) return undefined_fault(value);
  if (value.is(Kind::string)) {
    const auto* string = value.as<StringObject>();
    const SliceRange range = TRY(resolve_slice(start, stop, step, string->n_characters()));
    TRY(rt.charge_text(string->text.size()));
    std::string part = slice_text(*string, range);
    return string->markup ? Value::markup(std::move(part)) : Value::string(std::move(part));
  }
  if (value.is_sequence()) {
    const std::vector<Value>& items = value.items();
    const SliceRange range = TRY(resolve_slice(start, stop, step, items.size()));
    TRY(rt.charge_copies(range.n));
    std::vector<Value> part;
    part.reserve(range.n);
    for (size_t i = 0; i < range.n; i++)
      part.push_back(items[static_cast<size_t>(range.start + static_cast<int64_t>(i) * range.step)]);
    return value.is(Kind::list) ? Value::list(std::move(part)) : Value::tuple(std::move(part));
  }
  if (value.is(Kind::dict)) return fault("unhashable type: 'slice'");
  if (value.is(Kind::range)) {
    const auto* range = value.as<RangeObject>();
    const SliceRange part = TRY(resolve_slice(start, stop, step, static_cast<size_t>(range->n)));
    return make<RangeObject>(range->at(part.start), range->at(part.stop), wrapping_multiply(range->step, part.step),
                             static_cast<int64_t>(part.n));
  }
  return fault("'{}' object is not subscriptable", type_name(value));
}

Result<Span> clamp_span(const Value* start, const Value* stop, size_t length) {
  const auto n = static_cast<int64_t>(length);
  const auto place = [&](const Value* bound, int64_t missing_bound) -> Result<int64_t> {
    if (bound == nullptr || bound->is(Kind::none)) return missing_bound;
    if (!bound->is_integral()) return fault("slice indices must be integers or None or have an __index__ method");
    const int64_t v = bound->as_integral();
    return v < 0 ? std::max<int64_t>(v + n, 0) : v;
  };
  return Span{TRY(place(start, 0)), std::min(TRY(place(stop, n)), n)};
}

}  // namespace rocmforge::jinja
