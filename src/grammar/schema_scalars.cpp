#include <fmt/core.h>

#include <algorithm>

#include "grammar/schema_shape.h"

namespace rocmforge::grammar {
namespace {

constexpr uint64_t kMaxDivisor = 1'000'000'000'000;
constexpr size_t kMaxScale = 15;
// Zeros at the end of a fraction: some models would write them for ever.
constexpr uint32_t kMaxZeros = 16;

struct Decimal {
  bool is_negative = false;
  std::string whole, fraction;
};

Decimal split(std::string_view text) {
  Decimal out;
  if (text.starts_with('-')) out.is_negative = true, text.remove_prefix(1);
  const size_t point = text.find('.');
  out.whole = text.substr(0, point);
  if (point != std::string_view::npos) out.fraction = text.substr(point + 1);
  return out;
}

}  // namespace

std::string decimal_text(const JsonValue& number) {
  std::string text;
  if (const auto* i = number.as<int64_t>()) text = std::to_string(*i);
  if (const auto* u = number.as<uint64_t>()) text = std::to_string(*u);
  if (const auto* d = number.as<double>()) text = fmt::format("{}", *d);
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.erase(0, 1);
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  size_t point = text.find('.');
  if (point == std::string::npos)
    point = text.size();
  else
    text.erase(point, 1);
  int64_t place = static_cast<int64_t>(point) + exponent;
  if (place <= 0) text.insert(0, static_cast<size_t>(1 - place), '0'), place = 1;
  if (place > static_cast<int64_t>(text.size())) text.append(static_cast<size_t>(place) - text.size(), '0');
  std::string whole = text.substr(0, static_cast<size_t>(place)), fraction = text.substr(static_cast<size_t>(place));
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  while (fraction.ends_with('0')) fraction.pop_back();
  std::string out = fraction.empty() ? whole : whole + "." + fraction;
  return is_negative && out != "0" ? "-" + out : out;
}

Regex Scalars::plain_decimal() {
  const Regex digit = pool_->bytes(byte_range('0', '9'));
  const Regex whole =
      pool_->either(pool_->byte('0'), pool_->concat(pool_->bytes(byte_range('1', '9')), pool_->star(digit)));
  const Regex fraction = pool_->concat(pool_->byte('.'), pool_->repeat(digit, 1, kUnbounded));
  return pool_->concat({pool_->optional(pool_->byte('-')), whole, pool_->optional(fraction)});
}

Regex Scalars::plain_integer() {
  const Regex digit = pool_->bytes(byte_range('0', '9'));
  const Regex whole =
      pool_->either(pool_->byte('0'), pool_->concat(pool_->bytes(byte_range('1', '9')), pool_->star(digit)));
  const Regex zeros = pool_->concat(pool_->byte('.'), pool_->repeat(pool_->byte('0'), 1, kMaxZeros));
  return pool_->concat({pool_->optional(pool_->byte('-')), whole, pool_->optional(zeros)});
}

// Exponents have at most two digits: what is read back as a double is none beyond its range.
Regex Scalars::any_number() {
  const Regex digits = pool_->repeat(pool_->bytes(byte_range('0', '9')), 1, 2);
  const Regex sign = pool_->optional(pool_->either(pool_->byte('+'), pool_->byte('-')));
  const Regex e = pool_->either(pool_->byte('e'), pool_->byte('E'));
  return pool_->concat(plain_decimal(), pool_->optional(pool_->concat({e, sign, digits})));
}

Regex Scalars::any_integer() {
  const Regex digit = pool_->bytes(byte_range('0', '9'));
  const Regex e = pool_->either(pool_->byte('e'), pool_->byte('E'));
  const Regex power =
      pool_->concat({pool_->optional(pool_->byte('-')), pool_->bytes(byte_range('1', '9')), pool_->star(digit), e,
                     pool_->optional(pool_->byte('+')), pool_->repeat(digit, 1, 2)});
  return pool_->either(plain_integer(), power);
}

Regex Scalars::equal_to(const std::string& decimal) {
  const Decimal d = split(decimal);
  const Regex zeros = pool_->repeat(pool_->byte('0'), 0, kMaxZeros);
  const Regex fraction = d.fraction.empty()
                             ? pool_->optional(pool_->concat({pool_->byte('.'), pool_->byte('0'), zeros}))
                             : pool_->concat({pool_->byte('.'), pool_->literal(d.fraction), zeros});
  const Regex sign = decimal == "0" ? pool_->optional(pool_->byte('-')) : d.is_negative ? pool_->byte('-') : kEmptyText;
  return pool_->concat({sign, pool_->literal(d.whole), fraction});
}

Regex Scalars::signed_number(Regex positive, Regex negative) {
  return pool_->both(plain_decimal(), pool_->either(positive, pool_->concat(pool_->byte('-'), negative)));
}

Regex Scalars::magnitude(NumberRelation relation, const std::string& bound) {
  const Decimal d = split(bound);
  return pool_->number({.relation = relation, .whole = d.whole, .fraction = d.fraction});
}

Regex Scalars::compared(NumberRelation relation, const std::string& bound) {
  using enum NumberRelation;
  const bool is_negative = bound.starts_with('-');
  const bool is_above = relation == greater || relation == greater_or_equal;
  const bool is_strict = relation == greater || relation == less;
  // On one side of zero all or none are in, on the other the magnitude decides.
  const NumberRelation toward_zero = is_strict ? less : less_or_equal, away = is_strict ? greater : greater_or_equal;
  Regex positive = kNothing, negative = kNothing;
  if (is_above) {
    positive = is_negative ? pool_->concat(pool_->bytes(byte_range('0', '9')), kAnyBytes) : magnitude(away, bound);
    if (is_negative || (bound == "0" && !is_strict)) negative = magnitude(toward_zero, bound);
  } else {
    negative = is_negative || bound == "0" ? magnitude(away, bound) : kAnyBytes;
    if (bound == "0" && !is_strict) negative = kAnyBytes;
    if (!is_negative && !(bound == "0" && is_strict)) positive = magnitude(toward_zero, bound);
  }
  return signed_number(positive, negative);
}

bool Scalars::fits_divisor(const std::string& divisor) {
  const Decimal d = split(divisor);
  const std::string digits = d.whole + d.fraction;
  return d.fraction.size() <= kMaxScale && digits.size() <= 18 && std::stoull(digits) <= kMaxDivisor &&
         std::stoull(digits) > 0;
}

Regex Scalars::multiple_of(const std::string& divisor) {
  const Decimal d = split(divisor);
  const Regex r = pool_->number({.relation = NumberRelation::multiple,
                                 .whole = {},
                                 .fraction = {},
                                 .divisor = std::stoull(d.whole + d.fraction),
                                 .scale = static_cast<uint32_t>(d.fraction.size())});
  return signed_number(r, r);
}

}  // namespace rocmforge::grammar
