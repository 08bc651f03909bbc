// Filters on text.

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/compare.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

Result<Value> call_string_method(Runtime& rt, const Value& self, std::string_view method, const Args& args) {
  const Value text = TRY(to_soft_str(rt, self));
  return find_string_method(method)(rt, text, args);
}

Result<Value> upper(Runtime& rt, const Value& self, const Args& args) {
  return call_string_method(rt, self, "upper", args);
}
Result<Value> lower(Runtime& rt, const Value& self, const Args& args) {
  return call_string_method(rt, self, "lower", args);
}
Result<Value> capitalize(Runtime& rt, const Value& self, const Args& args) {
  return call_string_method(rt, self, "capitalize", args);
}

Result<Value> trim(Runtime& rt, const Value& self, const Args& args) {
  const auto [chars] = TRY(bind<1>(args, "trim", {"chars"}));
  return call_string_method(rt, self, "strip", chars != nullptr ? Args{{*chars}, {}} : Args{});
}

Result<Value> center(Runtime& rt, const Value& self, const Args& args) {
  const auto [width] = TRY(bind<1>(args, "center", {"width"}));
  return call_string_method(rt, self, "center", Args{{width != nullptr ? *width : Value::integer(80)}, {}});
}

Result<Value> replace(Runtime& rt, const Value& self, const Args& args) {
  const auto [old_text, new_text, count] = TRY(bind<3>(args, "replace", {"old", "new", "count"}, 2));
  Args plain;
  plain.positional.push_back(Value::string(TRY(to_str(rt, *old_text))));
  plain.positional.push_back(Value::string(TRY(to_str(rt, *new_text))));
  if (count != nullptr && !count->is(Kind::none)) plain.positional.push_back(*count);
  return find_string_method("replace")(rt, Value::string(TRY(to_str(rt, self))), plain);
}

Result<Value> string(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "string"));
  return to_soft_str(rt, self);
}

Result<Value> safe(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "safe"));
  return Value::markup(TRY(to_str(rt, self)));
}

Result<Value> escape(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "escape"));
  return to_escaped(rt, self);
}

Result<Value> forceescape(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "forceescape"));
  return to_escaped(rt, Value::string(TRY(to_str(rt, self))));
}

Result<Value> format(Runtime& rt, const Value& self, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return fault("can't handle positional and keyword arguments at the same time");
  }
  const Value pattern = TRY(to_soft_str(rt, self));
  if (args.named.empty()) return format_percent(rt, pattern, Value::tuple(args.positional));
  Dict named;
  for (const auto& [key, value] : args.named) named.set(key, value);
  return format_percent(rt, pattern, make_dict(std::move(named)));
}

Result<Value> title(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "title"));
  const Value text = TRY(to_soft_str(rt, self));
  TRY(rt.charge_text(text.text().size()));
  // Words begin after white space and - ( { [ <; unlike str.title, not after other punctuation.
  std::string out;
  bool at_start = true;
  const std::string_view all = text.text();
  for (size_t at = 0; at < all.size();) {
    const Utf8Step step = decode_utf8(all, at);
    const bool is_break = is_space(step.code_point) ||
                          (step.code_point < 128 && std::string_view("-({[<").find(
                                                        static_cast<char>(step.code_point)) != std::string_view::npos);
    out += at_start ? to_upper(all.substr(at, step.n_bytes)) : to_lower(all.substr(at, step.n_bytes));
    at_start = is_break;
    at += step.n_bytes;
  }
  return Value::string(std::move(out));
}

Result<Value> indent(Runtime& rt, const Value& self, const Args& args) {
  const auto [width, first, blank] = TRY(bind<3>(args, "indent", {"width", "first", "blank"}));
  if (self.is(Kind::undefined)) return undefined_fault(self);
  if (!self.is(Kind::string)) return fault("indent needs a string, not {}", type_name(self));
  Builder indention(rt);
  if (width != nullptr && width->is(Kind::string)) {
    TRY(indention.add(width->text()));
  } else {
    const int64_t n = width != nullptr ? TRY(to_index(*width)) : 4;
    TRY(indention.repeat(" ", static_cast<uint64_t>(std::max<int64_t>(n, 0))));
  }
  const std::string step = indention.take();
  const std::string text = self.text() + "\n";
  const std::vector<std::string_view> lines = split_lines(text);
  Builder out(rt);
  for (size_t i = 0; i < lines.size(); i++) {
    if (i > 0) TRY(out.add("\n"));
    const bool indented =
        i == 0 ? first != nullptr && is_true(*first) : !lines[i].empty() || (blank != nullptr && is_true(*blank));
    if (indented) TRY(out.add(step));
    TRY(out.add(lines[i]));
  }
  return is_markup(self) ? Value::markup(out.take()) : Value::string(out.take());
}

Result<Value> truncate(Runtime& rt, const Value& self, const Args& args) {
  const auto [length, killwords, end, leeway] =
      TRY(bind<4>(args, "truncate", {"length", "killwords", "end", "leeway"}));
  const Value tail = end != nullptr ? *end : Value::string("...");
  const int64_t limit = length != nullptr ? TRY(to_index(*length)) : 255;
  const int64_t slack = leeway != nullptr && !leeway->is(Kind::none) ? TRY(to_index(*leeway)) : 5;
  const auto n_tail = static_cast<int64_t>(TRY(length_of(tail)));
  if (limit < n_tail) return fault("expected length >= {}, got {}", n_tail, limit);
  if (slack < 0) return fault("expected leeway >= 0, got {}", slack);
  const auto n = TRY(length_of(self));
  if (static_cast<__int128>(n) <= static_cast<__int128>(limit) + slack) return self;
  if (!self.is(Kind::string)) return fault("truncate needs a string, not {}", type_name(self));
  Value kept = TRY(slice(rt, self, Value(), Value::integer(limit - n_tail), Value()));
  if (killwords == nullptr || !is_true(*killwords)) {
    const size_t blank = kept.text().rfind(' ');
    if (blank != std::string::npos) {
      std::string words = kept.text().substr(0, blank);
      kept = is_markup(self) ? Value::markup(std::move(words)) : Value::string(std::move(words));
    }
  }
  return arithmetic(rt, BinaryOp::add, kept, tail);
}

Result<Value> wordcount(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "wordcount"));
  const Value text = TRY(to_soft_str(rt, self));
  TRY(rt.charge_text(text.text().size()));
  int64_t n = 0;
  bool inside = false;
  for (size_t at = 0; at < text.text().size();) {
    const Utf8Step step = decode_utf8(text.text(), at);
    const bool word = is_word_character(step.code_point);
    n += word && !inside ? 1 : 0;
    inside = word;
    at += step.n_bytes;
  }
  return Value::integer(n);
}

Result<void> quote_url(Builder& out, std::string_view text, bool in_query) {
  static constexpr std::string_view kPlain = "_.-~";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const bool alphanumeric = byte < 0x80 && (is_alpha(byte) || is_decimal(byte));
    if (alphanumeric || kPlain.find(c) != std::string_view::npos || (c == '/' && !in_query)) {
      TRY(out.add(std::string_view(&c, 1)));
    } else if (c == ' ' && in_query) {
      TRY(out.add("+"));
    } else {
      TRY(out.add(fmt::format("%{:02X}", byte)));
    }
  }
  return {};
}

Result<Value> urlencode(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "urlencode"));
  Builder out(rt);
  if (self.is(Kind::string) || !is_iterable(self)) {
    TRY(quote_url(out, TRY(to_str(rt, self)), false));
    return Value::string(out.take());
  }
  const Value pairs = self.is(Kind::dict) ? make<DictViewObject>(DictViewObject::Part::items, self) : self;
  Walk walk = TRY(Walk::over(pairs));
  for (size_t i = 0;; i++) {
    const auto pair = TRY(walk.next());
    if (!pair) break;
    const std::vector<Value> two = TRY(to_vector(rt, *pair));
    if (two.size() != 2) return fault("urlencode needs pairs of key and value");
    if (i > 0) TRY(out.add("&"));
    TRY(quote_url(out, TRY(to_str(rt, two[0])), true));
    TRY(out.add("="));
    TRY(quote_url(out, TRY(to_str(rt, two[1])), true));
  }
  return Value::string(out.take());
}

Result<Value> xmlattr(Runtime& rt, const Value& self, const Args& args) {
  const auto [autospace] = TRY(bind<1>(args, "xmlattr", {"autospace"}));
  if (!self.is(Kind::dict)) return fault("xmlattr needs a mapping, not {}", type_name(self));
  Builder out(rt);
  for (const Dict::Entry& entry : dict_of(self).entries()) {
    if (entry.value.is(Kind::none) || entry.value.is(Kind::undefined)) continue;
    const std::string_view key = TRY(to_text_argument(entry.key, "xmlattr"));
    if (key.find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      return fault("Invalid character in attribute name: '{}'", key);
    if (out.size() > 0 || autospace == nullptr || is_true(*autospace)) TRY(out.add(" "));
    TRY(out.add(TRY(to_escaped(rt, entry.key)).text()));
    TRY(out.add("=\""));
    TRY(out.add(TRY(to_escaped(rt, entry.value)).text()));
    TRY(out.add("\""));
  }
  return Value::string(out.take());
}

Result<Value> tojson(Runtime& rt, const Value& self, const Args& args) {
  // Hugging Face's own filter: no HTML escaping, and these parameters in this order.
  const auto [ascii, indent_by, separators, sort_keys] =
      TRY(bind<4>(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = ascii != nullptr && is_true(*ascii);
  style.sort_keys = sort_keys != nullptr && is_true(*sort_keys);
  if (indent_by != nullptr && !indent_by->is(Kind::none)) {
    style.multiline = true;
    style.item_separator = ",";
    if (indent_by->is(Kind::string)) {
      style.indent = indent_by->text();
    } else {
      Builder blanks(rt);
      TRY(blanks.repeat(" ", static_cast<uint64_t>(std::max<int64_t>(TRY(to_index(*indent_by)), 0))));
      style.indent = blanks.take();
    }
  }
  if (separators != nullptr && !separators->is(Kind::none)) {
    const std::vector<Value> two = TRY(to_vector(rt, *separators));
    if (two.size() != 2) return fault("tojson needs two separators");
    style.item_separator = std::string(TRY(to_text_argument(two[0], "tojson")));
    style.key_separator = std::string(TRY(to_text_argument(two[1], "tojson")));
  }
  return Value::string(TRY(to_json(rt, self, style)));
}

constexpr auto kFilters = std::to_array<NamedCallable>({
    {"tojson", tojson},       {"trim", trim},
    {"string", string},       {"upper", upper},
    {"lower", lower},         {"replace", replace},
    {"safe", safe},           {"capitalize", capitalize},
    {"title", title},         {"indent", indent},
    {"format", format},       {"e", escape},
    {"escape", escape},       {"forceescape", forceescape},
    {"center", center},       {"truncate", truncate},
    {"wordcount", wordcount}, {"urlencode", urlencode},
    {"xmlattr", xmlattr},
});

}  // namespace

std::span<const NamedCallable> text_filters() {
  return kFilters;
}

}  // namespace rocmforge::jinja
