// Numbers from text and to text, by Python's rules.

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

// Without the underscores that may stand between digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  const auto alphanumeric = [&](size_t i) { return i < text.size() && is_word_character(text[i]) && text[i] != '_'; };
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '_') {
      out.push_back(text[i]);
    } else if (i == 0 || !alphanumeric(i - 1) || !alphanumeric(i + 1)) {
      return std::nullopt;
    }
  }
  return out;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, int base) {
  text = strip(text, Side::both);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0' && (base == 0 || base == 16 || base == 8 || base == 2)) {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      base = named;
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
    }
  }
  const bool literal_rules = base == 0;
  if (base == 0) base = 10;
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  if (literal_rules && (*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos) return std::nullopt;
  int64_t value = 0;
  for (const char c : *digits) {
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
      return std::nullopt;
    }
  }
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  const auto digits = without_underscores(strip(text, Side::both));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  // from_chars takes "inf", "nan" and, unlike Python, "nan(...)"; a second sign it refuses.
  double value = 0;
  if (rest.empty() || rest.starts_with('-') || rest.ends_with(')')) return std::nullopt;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(rest).c_str(), nullptr);
  return negative ? -value : value;
}

std::string real_to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  // d.ddde[+-]xx to digits and exponent
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  std::string out = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    const std::string magnitude = std::to_string(std::abs(exponent));
    return out + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace rocmforge::jinja
