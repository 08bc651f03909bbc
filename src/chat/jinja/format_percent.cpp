// pattern % argument: %[(key)][flags][width][.precision]type

#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, const Value& pattern, const Value& argument)
      : rt_(rt), out_(rt), pattern_(pattern.text()), markup_(is_markup(pattern)), argument_(argument) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const size_t percent = std::min(pattern_.find('%', at_), pattern_.size());
      TRY(out_.add(pattern_.substr(at_, percent - at_)));
      at_ = percent + 1;
      if (percent < pattern_.size()) TRY(directive());
    }
    const bool all_used = argument_.is(Kind::tuple) ? n_used_ == argument_.items().size() : n_used_ > 0;
    const bool is_mapping = argument_.is(Kind::dict) || argument_.is(Kind::list) || argument_.is(Kind::range);
    if (!all_used && !is_mapping) return fault("not all arguments converted during string formatting");
    return out_.take();
  }

 private:
  struct Directive {
    bool left = false, zero = false, space = false, plus = false, alternate = false;
    int64_t width = 0;
    int64_t precision = -1;
    char type = '\0';
  };

  Result<char> take() {
    if (at_ >= pattern_.size()) return fault("incomplete format");
    return pattern_[at_++];
  }

  Result<Value> next_argument() {
    if (argument_.is(Kind::tuple)) {
      if (n_used_ < argument_.items().size()) return argument_.items()[n_used_++];
    } else if (n_used_++ == 0) {
      return argument_;
    }
    return fault("not enough arguments for format string");
  }

  Result<Value> keyed_argument() {
    int depth = 1;
    const size_t start = at_;
    while (depth > 0) {
      const char c = TRY(take());
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    if (!argument_.is(Kind::dict)) return fault("format requires a mapping");
    const std::string_view key = pattern_.substr(start, at_ - 1 - start);
    const Value* found = dict_of(argument_).find(key);
    if (found == nullptr) return fault("'{}'", key);
    return *found;
  }

  // A number, or * for one taken from the arguments.
  Result<int64_t> take_size() {
    if (at_ < pattern_.size() && pattern_[at_] == '*') {
      at_++;
      const Value size = TRY(next_argument());
      if (!size.is_integral()) return fault("* wants int");
      return size.as_integral();
    }
    int64_t n = 0;
    while (at_ < pattern_.size() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
      n = n * 10 + (pattern_[at_++] - '0');
      if (n > INT32_MAX) return fault("width too big");
    }
    return n;
  }

  Result<void> directive() {
    Directive d;
    std::optional<Value> keyed;
    if (at_ < pattern_.size() && pattern_[at_] == '(') {
      at_++;
      keyed = TRY(keyed_argument());
      n_used_ = 1;
    }
    for (bool more = true; more && at_ < pattern_.size(); at_ += more) {
      switch (pattern_[at_]) {
        case '-':
          d.left = true;
          break;
        case '0':
          d.zero = true;
          break;
        case ' ':
          d.space = true;
          break;
        case '+':
          d.plus = true;
          break;
        case '#':
          d.alternate = true;
          break;
        default:
          more = false;
      }
    }
    d.width = TRY(take_size());
    if (d.width < 0) {
      d.left = true;
      d.width = d.width == INT64_MIN ? INT64_MAX : -d.width;
    }
    if (at_ < pattern_.size() && pattern_[at_] == '.') {
      at_++;
      d.precision = std::max<int64_t>(TRY(take_size()), 0);
      if (d.precision > INT32_MAX) return fault("precision too big");
    }
    d.type = TRY(take());
    if (d.type == 'h' || d.type == 'l' || d.type == 'L') d.type = TRY(take());
    if (d.type == '%') return out_.add("%");
    return convert(d, keyed ? *keyed : TRY(next_argument()));
  }

  Result<void> convert(const Directive& d, const Value& value) {
    switch (d.type) {
      case 's':
      case 'r':
      case 'a':
        return convert_text(d, value);
      case 'c':
        return convert_character(d, value);
      case 'd':
      case 'i':
      case 'u':
        return convert_integer(d, value, 10);
      case 'o':
        return convert_integer(d, value, 8);
      case 'x':
      case 'X':
        return convert_integer(d, value, 16);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return convert_real(d, value);
      default:
        return fault("unsupported format character '{}' at index {}", d.type, at_ - 1);
    }
  }

  Result<void> pad(const Directive& d, std::string_view head, std::string_view body, bool zero) {
    const auto have = static_cast<int64_t>(head.size() + count_characters(body));
    const auto missing = static_cast<uint64_t>(std::max<int64_t>(d.width - have, 0));
    const bool zeros = zero && !d.left;
    if (!d.left && !zeros) TRY(out_.repeat(" ", missing));
    TRY(out_.add(head));
    if (zeros) TRY(out_.repeat("0", missing));
    TRY(out_.add(body));
    return d.left ? out_.repeat(" ", missing) : Result<void>();
  }

  Result<void> convert_text(const Directive& d, const Value& value) {
    std::string text = d.type == 's' && !markup_ ? TRY(to_str(rt_, value)) : "";
    if (d.type != 's') text = TRY(to_repr(rt_, value));
    if (markup_) text = TRY(to_escaped(rt_, d.type == 's' ? value : Value::string(text))).text();
    std::string_view shown = text;
    if (d.precision >= 0) shown = shown.substr(0, byte_of_character(shown, static_cast<size_t>(d.precision)));
    return pad(d, "", shown, false);
  }

  Result<void> convert_character(const Directive& d, const Value& value) {
    if (value.is(Kind::string) && value.as<StringObject>()->n_characters() == 1) return pad(d, "", value.text(), false);
    if (!value.is_integral()) return fault("%c requires int or char");
    const int64_t code = value.as_integral();
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return fault("%c arg not in range(0x110000)");
    std::string character;
    append_utf8(character, static_cast<char32_t>(code));
    return pad(d, "", character, false);
  }

  std::string sign_of(const Directive& d, bool negative) const {
    return negative ? "-" : d.plus ? "+" : d.space ? " " : "";
  }

  Result<void> convert_integer(const Directive& d, const Value& value, int base) {
    int64_t v = 0;
    if (value.is_integral()) {
      v = value.as_integral();
    } else if (value.is(Kind::real) && base == 10) {
      const double whole = std::trunc(value.as_number());
      if (!(std::fabs(whole) < 9.2e18))
        return fault("cannot convert float {} to a 64-bit integer", real_to_text(whole));
      v = static_cast<int64_t>(whole);
    } else if (value.is(Kind::undefined)) {
      return undefined_fault(value);
    } else {
      return fault("%{} format: {} is required, not {}", d.type, base == 10 ? "a real number" : "an integer",
                   type_name(value));
    }
    std::string digits = format_magnitude(v, base, d.type == 'X');
    if (d.precision > static_cast<int64_t>(digits.size())) {
      TRY(rt_.check_text(static_cast<size_t>(d.precision)));
      digits.insert(0, static_cast<size_t>(d.precision) - digits.size(), '0');
    }
    std::string head = sign_of(d, v < 0);
    if (d.alternate && base != 10) head += base == 8 ? "0o" : d.type == 'x' ? "0x" : "0X";
    return pad(d, head, digits, d.zero);
  }

  Result<void> convert_real(const Directive& d, const Value& value) {
    if (value.is(Kind::undefined)) return undefined_fault(value);
    if (!value.is_number()) return fault("must be real number, not {}", type_name(value));
    const double v = value.as_number();
    const std::string body = TRY(format_c_real(rt_, std::fabs(v), d.type, d.precision, d.alternate));
    return pad(d, sign_of(d, std::signbit(v) && !std::isnan(v)), body, d.zero);
  }

  Runtime& rt_;
  Builder out_;
  std::string_view pattern_;
  bool markup_;
  const Value& argument_;
  size_t at_ = 0;
  size_t n_used_ = 0;
};

}  // namespace

Result<Value> format_percent(Runtime& rt, const Value& pattern, const Value& argument) {
  std::string text = TRY(PercentFormatter(rt, pattern, argument).run());
  return is_markup(pattern) ? Value::markup(std::move(text)) : Value::string(std::move(text));
}

}  // namespace rocmforge::jinja
