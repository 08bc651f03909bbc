// The methods of str that give strings.

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/compare.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

// Text that is escaped or not as `self` is.
Value like(const Value& self, std::string text) {
  return is_markup(self) ? Value::markup(std::move(text)) : Value::string(std::move(text));
}
// An argument put into a string like `self`.
Result<std::string> inserted(Runtime& rt, const Value& self, const Value& argument, std::string_view function) {
  const std::string text(TRY(to_text_argument(argument, function)));
  return is_markup(self) ? TRY(to_escaped(rt, argument)).text() : text;
}

template <std::string (*kTransform)(std::string_view)>
Result<Value> transform(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "this method"));
  TRY(rt.charge_text(self.text().size()));
  return like(self, kTransform(self.text()));
}

template <Side kSide>
Result<Value> strip_method(Runtime& rt, const Value& self, const Args& args) {
  const auto [chars] = TRY(bind<1>(args, "strip", {"chars"}, 0, 1));
  TRY(rt.charge_text(self.text().size()));
  if (chars == nullptr || chars->is(Kind::none)) return like(self, std::string(strip(self.text(), kSide)));
  return like(self, std::string(strip(self.text(), kSide, TRY(to_text_argument(*chars, "strip")))));
}

enum class Justify { left, right, center };
template <Justify kJustify>
Result<Value> justify(Runtime& rt, const Value& self, const Args& args) {
  const auto [width, fill] = TRY(bind<2>(args, "justify", {"width", "fillchar"}, 1, 2));
  std::string filler = " ";
  if (fill != nullptr) {
    filler = TRY(inserted(rt, self, *fill, "justify"));
    if (count_characters(filler) != 1) return fault("The fill character must be exactly one character long");
  }
  const auto have = static_cast<int64_t>(self.as<StringObject>()->n_characters());
  const int64_t wanted = TRY(to_index(*width));
  if (wanted <= have) return self;
  const auto missing = static_cast<uint64_t>(wanted - have);
  uint64_t before = kJustify == Justify::right ? missing : 0;
  // CPython puts the odd blank to the left when the width is odd.
  if (kJustify == Justify::center) before = missing / 2 + (missing & static_cast<uint64_t>(wanted) & 1);
  Builder out(rt);
  TRY(out.repeat(filler, before));
  TRY(out.add(self.text()));
  TRY(out.repeat(filler, missing - before));
  return like(self, out.take());
}

Result<Value> zfill(Runtime& rt, const Value& self, const Args& args) {
  const auto [width] = TRY(bind<1>(args, "zfill", {"width"}, 1, 1));
  const std::string& text = self.text();
  const auto have = static_cast<int64_t>(self.as<StringObject>()->n_characters());
  const int64_t wanted = TRY(to_index(*width));
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  Builder out(rt);
  TRY(out.add(text.substr(0, sign)));
  TRY(out.repeat("0", static_cast<uint64_t>(std::max<int64_t>(wanted, have) - have)));
  TRY(out.add(text.substr(sign)));
  return like(self, out.take());
}

Result<Value> expandtabs(Runtime& rt, const Value& self, const Args& args) {
  const auto [size] = TRY(bind<1>(args, "expandtabs", {"tabsize"}));
  const int64_t tab = size != nullptr ? TRY(to_index(*size)) : 8;
  Builder out(rt);
  int64_t column = 0;
  for (size_t at = 0; at < self.text().size();) {
    const size_t n = decode_utf8(self.text(), at).n_bytes;
    const std::string_view c = std::string_view(self.text()).substr(at, n);
    if (c == "\t") {
      const int64_t blanks = tab > 0 ? tab - column % tab : 0;
      TRY(out.repeat(" ", static_cast<uint64_t>(blanks)));
      column += blanks;
    } else {
      TRY(out.add(c));
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
    at += n;
  }
  return like(self, out.take());
}

Result<Value> replace(Runtime& rt, const Value& self, const Args& args) {
  const auto [old_text, new_text, count] = TRY(bind<3>(args, "replace", {"old", "new", "count"}, 2, 3));
  const std::string_view what = TRY(to_text_argument(*old_text, "replace"));
  const std::string with = TRY(inserted(rt, self, *new_text, "replace"));
  const int64_t limit = count != nullptr ? TRY(to_index(*count)) : -1;
  uint64_t left = limit < 0 ? UINT64_MAX : static_cast<uint64_t>(limit);
  const std::string_view text = self.text();
  TRY(rt.charge_text(text.size()));
  Builder out(rt);
  size_t at = 0;
  if (what.empty()) {  // before every character and at the end
    for (; left > 0 && at <= text.size(); left--) {
      TRY(out.add(with));
      if (at == text.size()) return like(self, out.take());
      const size_t n = decode_utf8(text, at).n_bytes;
      TRY(out.add(text.substr(at, n)));
      at += n;
    }
  } else {
    for (size_t found = find_text(text, what); found != std::string_view::npos && left > 0; left--) {
      TRY(out.add(text.substr(at, found - at)));
      TRY(out.add(with));
      TRY(rt.charge(1));
      at = found + what.size();
      found = find_text(text, what, at);
    }
  }
  TRY(out.add(text.substr(at)));
  return like(self, out.take());
}

Result<Value> join(Runtime& rt, const Value& self, const Args& args) {
  const auto [iterable] = TRY(bind<1>(args, "join", {"iterable"}, 1, 1));
  Builder out(rt);
  Walk walk = TRY(Walk::over(*iterable));
  for (size_t i = 0;; i++) {
    const auto item = TRY(walk.next());
    if (!item) break;
    TRY(rt.charge(1));
    if (i > 0) TRY(out.add(self.text()));
    if (is_markup(self)) {
      TRY(out.add(TRY(to_escaped(rt, *item)).text()));
    } else if (item->is(Kind::string)) {
      TRY(out.add(item->text()));
    } else {
      return fault("sequence item {}: expected str instance, {} found", i, type_name(*item));
    }
  }
  return like(self, out.take());
}

Result<Value> pieces(Runtime& rt, const Value& self, const std::vector<std::string_view>& parts) {
  TRY(rt.charge(parts.size()));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(like(self, std::string(part)));
  return Value::list(std::move(items));
}

// Words between white space; the text beyond `max` cuts stays whole.
std::vector<std::string_view> split_words(std::string_view text, size_t max, bool from_right) {
  std::vector<std::string_view> words;
  const Side outer = from_right ? Side::right : Side::left;
  text = strip(text, outer);
  while (!text.empty() && words.size() < max) {
    size_t cut = from_right ? text.size() : 0;
    while (from_right ? cut > 0 : cut < text.size()) {
      size_t next = from_right ? cut - 1 : cut;
      while (from_right && next > 0 && (static_cast<uint8_t>(text[next]) & 0xC0) == 0x80) next--;
      const Utf8Step step = decode_utf8(text, next);
      if (is_space(step.code_point)) break;
      cut = from_right ? next : next + step.n_bytes;
    }
    words.push_back(from_right ? text.substr(cut) : text.substr(0, cut));
    text = strip(from_right ? text.substr(0, cut) : text.substr(cut), outer);
  }
  if (!text.empty()) words.push_back(text);
  if (from_right) std::reverse(words.begin(), words.end());
  return words;
}

template <bool kFromRight>
Result<Value> split(Runtime& rt, const Value& self, const Args& args) {
  const auto [separator, maxsplit] = TRY(bind<2>(args, "split", {"sep", "maxsplit"}));
  const int64_t limit = maxsplit != nullptr ? TRY(to_index(*maxsplit)) : -1;
  const size_t max = limit < 0 ? rt.limits().max_steps + 1 : static_cast<size_t>(limit);
  const std::string_view text = self.text();
  TRY(rt.charge_text(text.size()));
  if (separator == nullptr || separator->is(Kind::none)) return pieces(rt, self, split_words(text, max, kFromRight));
  const std::string_view what = TRY(to_text_argument(*separator, "split"));
  if (what.empty()) return fault("empty separator");
  const std::vector<size_t> cuts = find_all(text, what, max, kFromRight);
  std::vector<std::string_view> parts;
  size_t at = 0;
  for (const size_t cut : cuts) {
    parts.push_back(text.substr(at, cut - at));
    at = cut + what.size();
  }
  parts.push_back(text.substr(at));
  return pieces(rt, self, parts);
}

Result<Value> splitlines(Runtime& rt, const Value& self, const Args& args) {
  const auto [keep] = TRY(bind<1>(args, "splitlines", {"keepends"}));
  TRY(rt.charge_text(self.text().size()));
  return pieces(rt, self, split_lines(self.text(), keep != nullptr && is_true(*keep)));
}

template <bool kFromRight>
Result<Value> partition(Runtime& rt, const Value& self, const Args& args) {
  const auto [separator] = TRY(bind<1>(args, "partition", {"sep"}, 1, 1));
  const std::string_view what = TRY(to_text_argument(*separator, "partition"));
  if (what.empty()) return fault("empty separator");
  const std::string_view text = self.text();
  TRY(rt.charge_text(text.size()));
  const size_t at = kFromRight ? rfind_text(text, what) : find_text(text, what);
  const bool found = at != std::string_view::npos;
  const auto part = [&](std::string_view t) { return like(self, std::string(t)); };
  std::vector<Value> parts;
  if (!found && kFromRight) {
    parts = {part(""), part(""), part(text)};
  } else if (!found) {
    parts = {part(text), part(""), part("")};
  } else {
    parts = {part(text.substr(0, at)), part(what), part(text.substr(at + what.size()))};
  }
  return Value::tuple(std::move(parts));
}

Result<Value> removeprefix(Runtime&, const Value& self, const Args& args) {
  const auto [prefix] = TRY(bind<1>(args, "removeprefix", {"prefix"}, 1, 1));
  const std::string_view what = TRY(to_text_argument(*prefix, "removeprefix"));
  return self.text().starts_with(what) ? like(self, self.text().substr(what.size())) : self;
}

Result<Value> removesuffix(Runtime&, const Value& self, const Args& args) {
  const auto [suffix] = TRY(bind<1>(args, "removesuffix", {"suffix"}, 1, 1));
  const std::string_view what = TRY(to_text_argument(*suffix, "removesuffix"));
  return self.text().ends_with(what) ? like(self, self.text().substr(0, self.text().size() - what.size())) : self;
}

Result<Value> format_map(Runtime& rt, const Value& self, const Args& args) {
  const auto [mapping] = TRY(bind<1>(args, "format_map", {"mapping"}, 1, 1));
  if (!mapping->is(Kind::dict)) return fault("format_map() needs a mapping, not {}", type_name(*mapping));
  Args named;
  for (const Dict::Entry& entry : dict_of(*mapping).entries()) {
    if (entry.key.is(Kind::string)) named.named.emplace_back(entry.key.text(), entry.value);
  }
  return format_braces(rt, self, named);
}

constexpr auto kMethods = std::to_array<NamedCallable>({
    {"capitalize", transform<to_capitalized>},
    {"casefold", transform<to_folded>},
    {"center", justify<Justify::center>},
    {"expandtabs", expandtabs},
    {"format", format_braces},
    {"format_map", format_map},
    {"join", join},
    {"ljust", justify<Justify::left>},
    {"lower", transform<to_lower>},
    {"lstrip", strip_method<Side::left>},
    {"partition", partition<false>},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace},
    {"rjust", justify<Justify::right>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip_method<Side::right>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"strip", strip_method<Side::both>},
    {"swapcase", transform<to_swapped_case>},
    {"title", transform<to_title>},
    {"upper", transform<to_upper>},
    {"zfill", zfill},
});

}  // namespace

Callable find_string_method(std::string_view name) {
  const auto* found = std::lower_bound(kMethods.begin(), kMethods.end(), name,
                                       [](const NamedCallable& m, std::string_view n) { return m.name < n; });
  if (found != kMethods.end() && found->name == name) return found->body;
  return find_string_query(name);
}

}  // namespace rocmforge::jinja
