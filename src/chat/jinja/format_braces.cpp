// str.format: {{ }} {} {0} {name} {0.attribute[key]!r:spec}, with fields inside the spec.

#include "chat/jinja/formatting.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A whole number that is a position in a list; a number too large is a position beyond every end.
int64_t to_position(std::string_view digits) {
  return parse_integer(digits, 10).value_or(INT64_MAX);
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& rt, bool markup, const Args& args) : rt_(rt), markup_(markup), args_(args) {}

  Result<std::string> format(std::string_view pattern, int n_levels) {
    if (n_levels == 0) return fault("Max string recursion exceeded");
    Builder out(rt_);
    for (size_t at = 0; at < pattern.size();) {
      const size_t brace = std::min(pattern.find_first_of("{}", at), pattern.size());
      TRY(out.add(pattern.substr(at, brace - at)));
      if (brace == pattern.size()) break;
      if (pattern.substr(brace + 1).starts_with(pattern[brace])) {
        TRY(out.add(pattern.substr(brace, 1)));
        at = brace + 2;
        continue;
      }
      if (pattern[brace] == '}') return fault("Single '}}' encountered in format string");
      const size_t end = TRY(end_of_field(pattern, brace + 1));
      TRY(out.add(TRY(field(pattern.substr(brace + 1, end - brace - 1), n_levels))));
      at = end + 1;
    }
    return out.take();
  }

 private:
  static Result<size_t> end_of_field(std::string_view pattern, size_t at) {
    if (at == pattern.size()) return fault("Single '{{' encountered in format string");
    int depth = 1;
    for (bool in_brackets = false; at < pattern.size(); at++) {
      const char c = pattern[at];
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (in_brackets) continue;
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (depth == 0) return at;
    }
    return fault("expected '}}' before end of string");
  }

  Result<std::string> field(std::string_view text, int n_levels) {
    size_t end = 0;  // of the name
    for (bool in_brackets = false; end < text.size(); end++) {
      if (text[end] == '[') in_brackets = true;
      if (text[end] == ']') in_brackets = false;
      if (!in_brackets && (text[end] == ':' || text[end] == '!')) break;
      if (!in_brackets && text[end] == '{') return fault("unexpected '{{' in field name");
    }
    const std::string_view name = text.substr(0, end);
    char conversion = '\0';
    if (end < text.size() && text[end] == '!') {
      if (end + 1 >= text.size()) return fault("end of string while looking for conversion specifier");
      conversion = text[end + 1];
      end += 2;
      if (end < text.size() && text[end] != ':') return fault("expected ':' after conversion specifier");
    }
    const std::string_view spec = end < text.size() ? text.substr(end + 1) : std::string_view();
    Value value = TRY(find_field(name));
    switch (conversion) {
      case '\0':
        break;
      case 's':
        value = Value::string(TRY(to_str(rt_, value)));
        break;
      case 'r':
      case 'a':
        value = Value::string(TRY(to_repr(rt_, value)));
        break;
      default:
        return fault("Unknown conversion specifier {}", conversion);
    }
    const std::string full_spec = TRY(format(spec, n_levels - 1));
    if (!markup_) return format_value(rt_, value, full_spec);
    if (is_markup(value)) {
      if (!full_spec.empty()) return fault("Unsupported format specification for Markup.");
      return value.text();
    }
    return TRY(to_escaped(rt_, Value::string(TRY(format_value(rt_, value, full_spec))))).text();
  }

  Result<Value> find_field(std::string_view name) {
    std::string automatic;
    if (name.empty()) {
      if (is_manual_) return fault("cannot switch from manual field specification to automatic field numbering");
      automatic = std::to_string(n_automatic_++);
      name = automatic;
    } else if (all_digits(name)) {
      if (n_automatic_ > 0) return fault("cannot switch from automatic field numbering to manual field specification");
      is_manual_ = true;
    }
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = TRY(find_argument(name.substr(0, first_end)));
    for (size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) return fault("Empty attribute in format string");
        value = TRY(get_attribute(rt_, value, name.substr(at + 1, end - at - 1)));
        at = end;
      } else if (name[at] == '[') {
        const size_t end = name.find(']', at);
        if (end == std::string_view::npos) return fault("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        if (key.empty()) return fault("Empty attribute in format string");
        value = TRY(
            get_item(rt_, value, all_digits(key) ? Value::integer(to_position(key)) : Value::string(std::string(key))));
        at = end + 1;
      } else {
        return fault("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Result<Value> find_argument(std::string_view name) {
    if (all_digits(name)) {
      const auto at = static_cast<uint64_t>(to_position(name));
      if (at < args_.positional.size()) return args_.positional[at];
      return fault("Replacement index {} out of range for positional args tuple", at);
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    return fault("'{}'", name);
  }

  Runtime& rt_;
  bool markup_;
  const Args& args_;
  size_t n_automatic_ = 0;
  bool is_manual_ = false;
};

}  // namespace

Result<Value> format_braces(Runtime& rt, const Value& pattern, const Args& args) {
  std::string text = TRY(BraceFormatter(rt, is_markup(pattern), args).format(pattern.text(), 3));
  return is_markup(pattern) ? Value::markup(std::move(text)) : Value::string(std::move(text));
}

}  // namespace rocmforge::jinja
