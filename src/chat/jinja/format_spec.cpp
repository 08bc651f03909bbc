// format(value, spec): [[fill]align][sign][#][0][width][grouping][.precision][type]

#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/utf8.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/print.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char grouping = '\0';
  int64_t precision = -1;
  char type = '\0';
};

bool is_align(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

// Digits at the front of `text`, taken off; -1 when there are none.
Result<int64_t> take_number(std::string_view& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return -1;
  int64_t n = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    n = n * 10 + (text[0] - '0');
    if (n > INT32_MAX) return fault("Too many decimal digits in format string");
    text.remove_prefix(1);
  }
  return n;
}

Result<Spec> parse_spec(std::string_view text, const Value& value) {
  const std::string_view whole = text;
  Spec spec;
  const size_t first = text.empty() ? 0 : decode_utf8(text, 0).n_bytes;
  if (text.size() > first && is_align(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&](std::string_view set) {
    if (text.empty() || set.find(text[0]) == std::string_view::npos) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0') {
    spec.zero = true;
    if (spec.align == '\0') {
      spec.fill = "0";
      if (!value.is(Kind::string)) spec.align = '=';
    }
  }
  spec.width = std::max<int64_t>(TRY(take_number(text)), 0);
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    spec.precision = TRY(take_number(text));
    if (spec.precision < 0) return fault("Format specifier missing precision");
  }
  if (text.size() > 1) return fault("Invalid format specifier '{}'", whole);
  if (!text.empty()) spec.type = text[0];
  return spec;
}

Error unknown_type(char type, const Value& value) {
  return fault("Unknown format code '{}' for object of type '{}'", type, type_name(value));
}

// `head` is the sign and base prefix, `body` the rest.
Result<std::string> pad(Runtime& rt, const Spec& spec, char default_align, std::string_view head,
                        std::string_view body) {
  const auto have = static_cast<int64_t>(head.size() + count_characters(body));
  const auto missing = static_cast<uint64_t>(std::max<int64_t>(spec.width - have, 0));
  const char align = spec.align != '\0' ? spec.align : default_align;
  const uint64_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  Builder out(rt);
  TRY(out.repeat(spec.fill, before));
  TRY(out.add(head));
  if (align == '=') TRY(out.repeat(spec.fill, missing));
  TRY(out.add(body));
  if (align != '=') TRY(out.repeat(spec.fill, missing - before));
  return out.take();
}

// Separators into the digits before the point; zeros in front to reach the width where the spec pads with them.
std::string group_digits(const Spec& spec, std::string number, size_t head_size, int group) {
  if (spec.grouping == '\0') return number;
  const size_t point = number.find_first_not_of("0123456789abcdefABCDEF");
  const std::string tail = point == std::string::npos ? "" : number.substr(point);
  std::string digits = number.substr(0, point);
  const bool zero_fill = spec.align == '=' && spec.fill == "0";
  const auto grouped_size = [&](size_t n) { return n + (n - 1) / static_cast<size_t>(group); };
  size_t n = digits.size();
  while (zero_fill && head_size + grouped_size(n) + tail.size() < static_cast<size_t>(spec.width)) n++;
  digits.insert(0, n - digits.size(), '0');
  std::string out;
  for (size_t i = 0; i < digits.size(); i++) {
    if (i > 0 && (digits.size() - i) % static_cast<size_t>(group) == 0) out.push_back(spec.grouping);
    out.push_back(digits[i]);
  }
  return out + tail;
}

std::string sign_of(const Spec& spec, bool negative) {
  return negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

Result<std::string> format_real(Runtime& rt, const Spec& spec, double v) {
  const bool negative = std::signbit(v) && !std::isnan(v);
  const double magnitude = std::fabs(v);
  std::string body;
  switch (spec.type) {
    case '\0':
      if (spec.precision < 0) {
        body = std::isfinite(v) ? real_to_text(magnitude) : std::isnan(v) ? "nan" : "inf";
      } else {
        // As g, but with a digit after the point, and exponents one digit earlier.
        const int64_t precision = std::max<int64_t>(spec.precision, 1);
        const std::string scientific = TRY(format_c_real(rt, magnitude, 'e', precision - 1, false));
        const size_t e = scientific.find('e');
        const int exponent = e == std::string::npos ? 0 : std::atoi(scientific.c_str() + e + 1);
        if (std::isfinite(v) && exponent == precision - 1) {
          std::string mantissa = scientific.substr(0, e);
          if (mantissa.find('.') != std::string::npos) {
            mantissa.erase(mantissa.find_last_not_of('0') + 1);
            if (mantissa.ends_with('.')) mantissa.pop_back();
          }
          body = mantissa + scientific.substr(e);
        } else {
          body = TRY(format_c_real(rt, magnitude, 'g', precision, spec.alternate));
          if (std::isfinite(v) && body.find_first_of(".e") == std::string::npos) body += ".0";
        }
      }
      break;
    case '%':
      body =
          TRY(format_c_real(rt, magnitude * 100, 'f', spec.precision < 0 ? 6 : spec.precision, spec.alternate)) + "%";
      break;
    case 'n':
      body = TRY(format_c_real(rt, magnitude, 'g', spec.precision, spec.alternate));
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      body = TRY(format_c_real(rt, magnitude, spec.type, spec.precision, spec.alternate));
      break;
    default:
      return unknown_type(spec.type, Value::real(v));
  }
  const std::string head = sign_of(spec, negative);
  return pad(rt, spec, '>', head, std::isfinite(v) ? group_digits(spec, body, head.size(), 3) : body);
}

Result<std::string> format_integer(Runtime& rt, const Spec& spec, const Value& value) {
  const int64_t v = value.as_integral();
  if (spec.type != '\0' && std::strchr("eEfFgG%", spec.type) != nullptr)
    return format_real(rt, spec, static_cast<double>(v));
  if (spec.precision >= 0) return fault("Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    if (v < 0 || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) return fault("%c arg not in range(0x110000)");
    std::string character;
    append_utf8(character, static_cast<char32_t>(v));
    return pad(rt, spec, '<', "", character);
  }
  int base = 10;
  std::string prefix;
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2, prefix = "0b";
      break;
    case 'o':
      base = 8, prefix = "0o";
      break;
    case 'x':
      base = 16, prefix = "0x";
      break;
    case 'X':
      base = 16, prefix = "0X";
      break;
    default:
      return unknown_type(spec.type, value);
  }
  if (spec.grouping == ',' && base != 10) return fault("Cannot specify ',' with '{}'.", spec.type);
  const std::string head = sign_of(spec, v < 0) + (spec.alternate ? prefix : "");
  const std::string digits = format_magnitude(v, base, spec.type == 'X');
  return pad(rt, spec, '>', head, group_digits(spec, digits, head.size(), base == 10 ? 3 : 4));
}

Result<std::string> format_string(Runtime& rt, const Spec& spec, const Value& value) {
  if (spec.type != '\0' && spec.type != 's') return unknown_type(spec.type, value);
  if (spec.sign != '-') return fault("Sign not allowed in string format specifier");
  if (spec.alternate) return fault("Alternate form (#) not allowed in string format specifier");
  if (spec.align == '=') return fault("'=' alignment not allowed in string format specifier");
  if (spec.grouping != '\0') return fault("Cannot specify '{}' with 's'.", spec.grouping);
  std::string_view text = value.text();
  if (spec.precision >= 0) text = text.substr(0, byte_of_character(text, static_cast<size_t>(spec.precision)));
  return pad(rt, spec, '<', "", text);
}

}  // namespace

Result<std::string> format_c_real(Runtime& rt, double value, char type, int64_t precision, bool alternate) {
  if (!std::isfinite(value)) {
    std::string text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    return type >= 'A' && type <= 'Z' ? to_upper(text) : text;
  }
  if (precision < 0) precision = 6;
  TRY(rt.check_text(static_cast<size_t>(precision) + 512));
  TRY(rt.charge_text(static_cast<size_t>(precision)));
  const char pattern[] = {
      '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0', '\0'};
  std::string out(static_cast<size_t>(precision) + 512, '\0');  // 309 digits, sign, point and exponent at most
  out.resize(static_cast<size_t>(std::snprintf(out.data(), out.size(), pattern, static_cast<int>(precision), value)));
  return out;
}

std::string format_magnitude(int64_t value, int base, bool upper) {
  uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits;
  do {
    digits.insert(digits.begin(),
                  (upper ? "0123456789ABCDEF" : "0123456789abcdef")[magnitude % static_cast<uint64_t>(base)]);
    magnitude /= static_cast<uint64_t>(base);
  } while (magnitude > 0);
  return digits;
}

Result<std::string> format_value(Runtime& rt, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return to_str(rt, value);
  if (!value.is(Kind::string) && !value.is_number()) {
    return fault("unsupported format string passed to {}.__format__", type_name(value));
  }
  const Spec spec = TRY(parse_spec(spec_text, value));
  TRY(rt.check_text(static_cast<size_t>(spec.width)));
  if (value.is(Kind::string)) return format_string(rt, spec, value);
  if (value.is(Kind::real)) return format_real(rt, spec, value.as_number());
  return format_integer(rt, spec, value);
}

}  // namespace rocmforge::jinja
