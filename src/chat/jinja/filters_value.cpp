// Filters on numbers, and those that take any value.

#include <array>
#include <cmath>
#include <cstdlib>

#include "chat/jinja/compare.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

Result<Value> default_value(Runtime&, const Value& self, const Args& args) {
  const auto [fallback, boolean] = TRY(bind<2>(args, "default", {"default_value", "boolean"}));
  if (!self.is(Kind::undefined) && (boolean == nullptr || !is_true(*boolean) || is_true(self))) return self;
  return fallback != nullptr ? *fallback : Value::string("");
}

Result<Value> attr(Runtime& rt, const Value& self, const Args& args) {
  const auto [name] = TRY(bind<1>(args, "attr", {"name"}, 1));
  const std::string text = TRY(to_str(rt, *name));
  if (self.is(Kind::undefined)) return undefined_fault(self);
  if (auto found = TRY(find_attribute(rt, self, text))) return std::move(*found);
  return make<UndefinedObject>(UndefinedObject::Why::no_attribute, type_name(self), text);
}

Result<Value> absolute(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "abs"));
  if (self.is(Kind::real)) return Value::real(std::fabs(self.as_number()));
  if (self.is_integral())
    return self.as_integral() < 0 ? negate(self) : Result<Value>(Value::integer(self.as_integral()));
  if (self.is(Kind::undefined)) return undefined_fault(self);
  return fault("bad operand type for abs(): '{}'", type_name(self));
}

Result<Value> truncated(double v) {
  if (std::fabs(v) >= 9223372036854775808.0)
    return fault("cannot convert float {} to a 64-bit integer", real_to_text(v));
  return Value::integer(static_cast<int64_t>(v));
}

Result<Value> to_integer(Runtime&, const Value& self, const Args& args) {
  const auto [fallback, base] = TRY(bind<2>(args, "int", {"default", "base"}));
  Value otherwise = fallback != nullptr ? *fallback : Value::integer(0);
  if (self.is(Kind::undefined)) return undefined_fault(self);
  if (self.is_integral()) return Value::integer(self.as_integral());
  if (self.is(Kind::real)) return std::isnan(self.as_number()) ? Result<Value>(otherwise) : truncated(self.as_number());
  if (!self.is(Kind::string)) return otherwise;
  const int64_t radix = base != nullptr ? TRY(to_index(*base)) : 10;
  if (radix == 0 || (radix >= 2 && radix <= 36)) {
    if (const auto v = parse_integer(self.text(), static_cast<int>(radix))) return Value::integer(*v);
  }
  const auto v = parse_real(self.text());
  if (!v || !std::isfinite(*v)) return otherwise;
  return truncated(*v);
}

Result<Value> to_real(Runtime&, const Value& self, const Args& args) {
  const auto [fallback] = TRY(bind<1>(args, "float", {"default"}));
  if (self.is(Kind::undefined)) return undefined_fault(self);
  if (self.is_number()) return Value::real(self.as_number());
  if (self.is(Kind::string)) {
    if (const auto v = parse_real(self.text())) return Value::real(*v);
  }
  return fallback != nullptr ? *fallback : Value::real(0);
}

// round(v, n) of Python: the exact decimal value decides, halves go to the even digit.
Result<double> round_decimal(Runtime& rt, double v, int64_t n) {
  if (!std::isfinite(v) || n > 323) return v;
  if (n < -308) return std::copysign(0.0, v);
  if (n >= 0) return std::strtod(TRY(format_c_real(rt, v, 'f', n, false)).c_str(), nullptr);
  const long double unit = std::pow(10.0L, static_cast<long double>(-n));
  return static_cast<double>(std::nearbyint(static_cast<long double>(v) / unit) * unit);
}

Result<Value> round_integer(int64_t v, int64_t n) {
  if (n >= 0) return Value::integer(v);
  if (n < -18) return Value::integer(0);
  int64_t unit = 1;
  for (int64_t i = n; i < 0; i++) unit *= 10;
  const int64_t rest = ((v % unit) + unit) % unit;
  const int64_t down = (v - rest) / unit;  // whole units, rounded down
  const bool up = rest * 2 > unit || (rest * 2 == unit && down % 2 != 0);
  int64_t result = 0;
  if (__builtin_mul_overflow(down + (up ? 1 : 0), unit, &result)) return fault("an integer beyond 64 bits");
  return Value::integer(result);
}

Result<Value> round(Runtime& rt, const Value& self, const Args& args) {
  const auto [precision, method] = TRY(bind<2>(args, "round", {"precision", "method"}));
  const std::string_view how = method != nullptr ? TRY(to_text_argument(*method, "round")) : "common";
  if (how != "common" && how != "ceil" && how != "floor") return fault("method must be common, ceil or floor");
  if (self.is(Kind::undefined)) return undefined_fault(self);
  if (!self.is_number()) return fault("type {} doesn't define __round__ method", type_name(self));
  const int64_t n = precision != nullptr ? TRY(to_index(*precision)) : 0;
  if (how == "common") {
    if (self.is_integral()) return round_integer(self.as_integral(), n);
    return Value::real(TRY(round_decimal(rt, self.as_number(), n)));
  }
  const Value unit = TRY(arithmetic(rt, BinaryOp::power, Value::integer(10), Value::integer(n)));
  const Value scaled = TRY(arithmetic(rt, BinaryOp::multiply, self, unit));
  const double v = scaled.as_number();
  if (!std::isfinite(v)) return fault("cannot convert float {} to integer", real_to_text(v));
  const Value whole = scaled.is_integral() ? scaled : TRY(truncated(how == "ceil" ? std::ceil(v) : std::floor(v)));
  return arithmetic(rt, BinaryOp::divide, whole, unit);
}

Result<Value> filesizeformat(Runtime& rt, const Value& self, const Args& args) {
  const auto [binary] = TRY(bind<1>(args, "filesizeformat", {"binary"}));
  const bool is_binary = binary != nullptr && is_true(*binary);
  double bytes = 0;
  if (self.is_number()) {
    bytes = self.as_number();
  } else {
    if (!self.is(Kind::string))
      return fault("float() argument must be a string or a real number, not '{}'", type_name(self));
    const auto parsed = parse_real(self.text());
    if (!parsed) return fault("could not convert string to float: '{}'", self.text());
    bytes = *parsed;
  }
  const double base = is_binary ? 1024 : 1000;
  if (bytes == 1) return Value::string("1 Byte");
  if (!std::isfinite(bytes)) return fault("cannot convert float {} to integer", real_to_text(bytes));
  if (bytes < base) return Value::string(TRY(to_str(rt, TRY(truncated(bytes)))) + " Bytes");
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (size_t i = 0;; i++) {
    unit *= base;
    if (bytes < unit || i + 1 == kPrefixes.size()) {
      std::string prefix(1, is_binary && i == 0 ? 'K' : kPrefixes[i]);
      return Value::string(TRY(format_c_real(rt, base * bytes / unit, 'f', 1, false)) + " " + prefix +
                           (is_binary ? "iB" : "B"));
    }
  }
}

Result<Value> length(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "length"));
  return Value::integer(static_cast<int64_t>(TRY(length_of(self))));
}

Result<Value> list(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "list"));
  return Value::list(TRY(to_vector(rt, self)));
}

constexpr auto kFilters = std::to_array<NamedCallable>({
    {"length", length},
    {"count", length},
    {"default", default_value},
    {"d", default_value},
    {"list", list},
    {"int", to_integer},
    {"float", to_real},
    {"abs", absolute},
    {"round", round},
    {"attr", attr},
    {"filesizeformat", filesizeformat},
});

}  // namespace

std::span<const NamedCallable> value_filters() {
  return kFilters;
}

}  // namespace rocmforge::jinja
