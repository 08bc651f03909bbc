#include "chat/jinja/print.h"

#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/compare.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

Result<void> repr_string(Builder& out, std::string_view text) {
  const bool double_quoted = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quoted ? '"' : '\'';
  std::string literal(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    const char32_t c = step.code_point;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      literal.push_back('\\');
      literal.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      literal += "\\n";
    } else if (c == '\r') {
      literal += "\\r";
    } else if (c == '\t') {
      literal += "\\t";
    } else if (is_printable(c)) {
      literal += text.substr(at, step.n_bytes);
    } else if (c < 0x100) {
      literal += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      literal += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      literal += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
    at += step.n_bytes;
  }
  literal.push_back(quote);
  return out.add(literal);
}

Result<void> repr_at(Builder& out, const Value& value, size_t depth);

Result<void> repr_items(Builder& out, const std::vector<Value>& items, size_t depth) {
  for (size_t i = 0; i < items.size(); i++) {
    if (i > 0) TRY(out.add(", "));
    TRY(repr_at(out, items[i], depth));
  }
  return {};
}

Result<void> repr_dict(Builder& out, const Dict& dict, size_t depth) {
  TRY(out.add("{"));
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) TRY(out.add(", "));
    first = false;
    TRY(repr_at(out, entry.key, depth));
    TRY(out.add(": "));
    TRY(repr_at(out, entry.value, depth));
  }
  return out.add("}");
}

Result<void> repr_at(Builder& out, const Value& value, size_t depth) {
  if (depth > kMaxValueDepth) return value_too_deep();
  TRY(out.runtime().charge(1));
  switch (value.kind()) {
    case Kind::none:
      return out.add("None");
    case Kind::boolean:
      return out.add(value.as_boolean() ? "True" : "False");
    case Kind::integer:
      return out.add(fmt::format("{}", value.as_integral()));
    case Kind::real:
      return out.add(real_to_text(value.as_number()));
    case Kind::undefined:
      return out.add("Undefined");
    case Kind::string:
      if (!is_markup(value)) return repr_string(out, value.text());
      TRY(out.add("Markup("));
      TRY(repr_string(out, value.text()));
      return out.add(")");
    case Kind::list:
      TRY(out.add("["));
      TRY(repr_items(out, value.items(), depth + 1));
      return out.add("]");
    case Kind::tuple:
      TRY(out.add("("));
      TRY(repr_items(out, value.items(), depth + 1));
      return out.add(value.items().size() == 1 ? ",)" : ")");
    case Kind::dict:
      return repr_dict(out, dict_of(value), depth + 1);
    case Kind::name_space:
      TRY(out.add("<Namespace "));
      TRY(repr_dict(out, dict_of(value), depth + 1));
      return out.add(">");
    case Kind::range: {
      const auto* range = value.as<RangeObject>();
      return out.add(range->step == 1 ? fmt::format("range({}, {})", range->start, range->stop)
                                      : fmt::format("range({}, {}, {})", range->start, range->stop, range->step));
    }
    case Kind::dict_view: {
      TRY(out.add(type_name(value)));
      TRY(out.add("(["));
      TRY(repr_items(out, TRY(to_vector(out.runtime(), value)), depth + 1));
      return out.add("])");
    }
    case Kind::macro: {
      const std::string& name = value.as<MacroObject>()->macro->name;
      return out.add(name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name));
    }
    case Kind::function:
      return out.add(fmt::format("<function {}>", value.as<FunctionObject>()->name));
    // Python prints an address here; there is nothing to be equal to.
    case Kind::iterator:
    case Kind::loop:
    case Kind::cycler:
    case Kind::joiner:
      return out.add(fmt::format("<{} object>", type_name(value)));
  }
  RF_UNREACHABLE("a Kind outside its enum");
}

Result<void> json_string(Builder& out, std::string_view text, bool ensure_ascii) {
  std::string literal = "\"";
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    const auto c = static_cast<uint32_t>(step.code_point);
    switch (c) {
      case '"':
        literal += "\\\"";
        break;
      case '\\':
        literal += "\\\\";
        break;
      case '\n':
        literal += "\\n";
        break;
      case '\r':
        literal += "\\r";
        break;
      case '\t':
        literal += "\\t";
        break;
      case '\b':
        literal += "\\b";
        break;
      case '\f':
        literal += "\\f";
        break;
      default:
        if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
          literal += fmt::format("\\u{:04x}", c);
        } else if (ensure_ascii && c >= 0x10000) {
          literal +=
              fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
          literal += text.substr(at, step.n_bytes);
        }
    }
    at += step.n_bytes;
  }
  literal.push_back('"');
  return out.add(literal);
}

std::string json_real(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "-Infinity" : "Infinity";
  return real_to_text(v);
}

class JsonPrinter {
 public:
  JsonPrinter(Builder& out, const JsonStyle& style) : out_(out), style_(style) {}

  Result<void> print(const Value& value, size_t depth) {
    if (depth > kMaxValueDepth) return value_too_deep();
    TRY(out_.runtime().charge(1));
    switch (value.kind()) {
      case Kind::none:
        return out_.add("null");
      case Kind::boolean:
        return out_.add(value.as_boolean() ? "true" : "false");
      case Kind::integer:
        return out_.add(fmt::format("{}", value.as_integral()));
      case Kind::real:
        return out_.add(json_real(value.as_number()));
      case Kind::string:
        return json_string(out_, value.text(), style_.ensure_ascii);
      case Kind::list:
      case Kind::tuple:
        return print_items(value.items(), depth);
      case Kind::dict:
        return print_dict(dict_of(value), depth);
      case Kind::undefined:
      case Kind::name_space:
      case Kind::range:
      case Kind::dict_view:
      case Kind::iterator:
      case Kind::function:
      case Kind::macro:
      case Kind::loop:
      case Kind::cycler:
      case Kind::joiner:
        return fault("Object of type {} is not JSON serializable", type_name(value));
    }
    RF_UNREACHABLE("a Kind outside its enum");
  }

 private:
  Result<void> newline(size_t depth) {
    if (!style_.multiline) return {};
    TRY(out_.add("\n"));
    return out_.repeat(style_.indent, depth);
  }

  Result<void> print_items(const std::vector<Value>& items, size_t depth) {
    if (items.empty()) return out_.add("[]");
    TRY(out_.add("["));
    for (size_t i = 0; i < items.size(); i++) {
      if (i > 0) TRY(out_.add(style_.item_separator));
      TRY(newline(depth + 1));
      TRY(print(items[i], depth + 1));
    }
    TRY(newline(depth));
    return out_.add("]");
  }

  Result<void> print_dict(const Dict& dict, size_t depth) {
    if (dict.size() == 0) return out_.add("{}");
    std::vector<Value> order;
    order.reserve(dict.size());
    for (size_t i = 0; i < dict.size(); i++) order.push_back(Value::integer(static_cast<int64_t>(i)));
    if (style_.sort_keys) {
      std::vector<Value> keys;
      keys.reserve(dict.size());
      for (const Dict::Entry& entry : dict.entries()) keys.push_back(entry.key);
      order = TRY(sort_by(out_.runtime(), std::move(order), keys, false));
    }
    TRY(out_.add("{"));
    for (size_t i = 0; i < order.size(); i++) {
      const Dict::Entry& entry = dict.entries()[static_cast<size_t>(order[i].as_integral())];
      if (i > 0) TRY(out_.add(style_.item_separator));
      TRY(newline(depth + 1));
      TRY(print_key(entry.key));
      TRY(out_.add(style_.key_separator));
      TRY(print(entry.value, depth + 1));
    }
    TRY(newline(depth));
    return out_.add("}");
  }

  Result<void> print_key(const Value& key) {
    if (key.is(Kind::string)) return json_string(out_, key.text(), style_.ensure_ascii);
    if (key.is(Kind::none)) return out_.add("\"null\"");
    if (key.is(Kind::boolean)) return out_.add(key.as_boolean() ? "\"true\"" : "\"false\"");
    if (key.is(Kind::integer)) return out_.add(fmt::format("\"{}\"", key.as_integral()));
    if (key.is(Kind::real)) return out_.add("\"" + json_real(key.as_number()) + "\"");
    return fault("keys must be str, int, float, bool or None, not {}", type_name(key));
  }

  Builder& out_;
  const JsonStyle& style_;
};

}  // namespace

Result<void> print_str(Builder& out, const Value& value) {
  if (value.is(Kind::string)) return out.add(value.text());
  if (value.is(Kind::undefined)) return {};
  return repr_at(out, value, 0);
}

Result<void> print_repr(Builder& out, const Value& value) {
  return repr_at(out, value, 0);
}

Result<std::string> to_str(Runtime& rt, const Value& value) {
  Builder out(rt);
  TRY(print_str(out, value));
  return out.take();
}

Result<std::string> to_repr(Runtime& rt, const Value& value) {
  Builder out(rt);
  TRY(print_repr(out, value));
  return out.take();
}

Result<Value> to_soft_str(Runtime& rt, const Value& value) {
  if (value.is(Kind::string)) return value;
  return Value::string(TRY(to_str(rt, value)));
}

Result<Value> to_escaped(Runtime& rt, const Value& value) {
  if (is_markup(value)) return value;
  const std::string text = TRY(to_str(rt, value));
  Builder out(rt);
  TRY(out.add(escape_html(text)));
  return Value::markup(out.take());
}

Result<std::string> to_json(Runtime& rt, const Value& value, const JsonStyle& style) {
  Builder out(rt);
  TRY(JsonPrinter(out, style).print(value, 0));
  return out.take();
}

}  // namespace rocmforge::jinja
