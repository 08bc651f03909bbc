// The methods of str that answer with a number or a boolean.

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

// The part of `self` that start and end select, and where it begins; nothing when start lies beyond the end.
struct Part {
  std::string_view text;
  int64_t first_character;
};
Result<std::optional<Part>> select(const Value& self, const Value* start, const Value* end) {
  const auto* string = self.as<StringObject>();
  const Span span = TRY(clamp_span(start, end, string->n_characters()));
  if (span.start > span.stop) return std::optional<Part>();
  const std::string_view text = string->text;
  if (string->is_ascii()) {
    return std::optional(
        Part{text.substr(static_cast<size_t>(span.start), static_cast<size_t>(span.stop - span.start)), span.start});
  }
  const size_t from = byte_of_character(text, static_cast<size_t>(span.start));
  const size_t n = byte_of_character(text.substr(from), static_cast<size_t>(span.stop - span.start));
  return std::optional(Part{text.substr(from, n), span.start});
}

enum class Missing { minus_one, error };
template <bool kFromRight, Missing kMissing>
Result<Value> find(Runtime& rt, const Value& self, const Args& args) {
  const auto [sub, start, end] = TRY(bind<3>(args, "find", {"sub", "start", "end"}, 1, 3));
  const std::string_view what = TRY(to_text_argument(*sub, "find"));
  TRY(rt.charge_text(self.text().size()));
  if (const auto part = TRY(select(self, start, end))) {
    const size_t at = kFromRight ? rfind_text(part->text, what) : find_text(part->text, what);
    if (at != std::string_view::npos) {
      return Value::integer(part->first_character + static_cast<int64_t>(count_characters(part->text.substr(0, at))));
    }
  }
  if (kMissing == Missing::error) return fault("substring not found");
  return Value::integer(-1);
}

Result<Value> count(Runtime& rt, const Value& self, const Args& args) {
  const auto [sub, start, end] = TRY(bind<3>(args, "count", {"sub", "start", "end"}, 1, 3));
  const std::string_view what = TRY(to_text_argument(*sub, "count"));
  TRY(rt.charge_text(self.text().size()));
  const auto part = TRY(select(self, start, end));
  return Value::integer(part ? static_cast<int64_t>(count_text(part->text, what)) : 0);
}

template <bool kEnd>
Result<Value> starts_or_ends(Runtime&, const Value& self, const Args& args) {
  constexpr std::string_view kName = kEnd ? "endswith" : "startswith";
  const auto [affix, start, end] = TRY(bind<3>(args, kName, {"prefix", "start", "end"}, 1, 3));
  const auto part = TRY(select(self, start, end));
  const auto matches = [&](const Value& candidate) -> Result<bool> {
    if (!candidate.is(Kind::string)) {
      return fault("{} first arg must be str or a tuple of str, not {}", kName, type_name(candidate));
    }
    if (!part) return false;
    return kEnd ? part->text.ends_with(candidate.text()) : part->text.starts_with(candidate.text());
  };
  if (!affix->is(Kind::tuple)) return Value::boolean(TRY(matches(*affix)));
  for (const Value& candidate : affix->items()) {
    if (TRY(matches(candidate))) return Value::boolean(true);
  }
  return Value::boolean(false);
}

// Not empty, and every character in the class.
template <bool (*kInClass)(char32_t)>
Result<Value> all_in_class(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "this method"));
  TRY(rt.charge_text(self.text().size()));
  bool all = !self.text().empty();
  for (size_t at = 0; all && at < self.text().size();) {
    const Utf8Step step = decode_utf8(self.text(), at);
    all = kInClass(step.code_point);
    at += step.n_bytes;
  }
  return Value::boolean(all);
}

bool is_alphanumeric(char32_t c) {
  return c != '_' && is_word_character(c);
}

Result<Value> isascii(Runtime&, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "isascii"));
  return Value::boolean(self.as<StringObject>()->is_ascii());
}

Result<Value> isprintable(Runtime& rt, const Value& self, const Args& args) {
  if (self.text().empty()) return Value::boolean(true);
  return all_in_class<is_printable>(rt, self, args);
}

Result<Value> isidentifier(Runtime& rt, const Value& self, const Args& args) {
  const bool digit_first = !self.text().empty() && is_decimal(decode_utf8(self.text(), 0).code_point);
  const Value word = TRY(all_in_class<is_word_character>(rt, self, args));
  return Value::boolean(word.as_boolean() && !digit_first);
}

// Some cased character, and all of them of that case.
template <bool kUpper>
Result<Value> is_case(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "this method"));
  TRY(rt.charge_text(self.text().size()));
  bool some = false;
  for (size_t at = 0; at < self.text().size();) {
    const Utf8Step step = decode_utf8(self.text(), at);
    const char32_t c = step.code_point;
    if (is_title(c) || (kUpper ? is_lower(c) : is_upper(c))) return Value::boolean(false);
    some = some || (kUpper ? is_upper(c) : is_lower(c));
    at += step.n_bytes;
  }
  return Value::boolean(some);
}

Result<Value> istitle(Runtime& rt, const Value& self, const Args& args) {
  TRY(expect_no_args(args, "istitle"));
  TRY(rt.charge_text(self.text().size()));
  bool some = false;
  bool inside = false;
  for (size_t at = 0; at < self.text().size();) {
    const Utf8Step step = decode_utf8(self.text(), at);
    const char32_t c = step.code_point;
    const bool upper = is_upper(c) || is_title(c);
    if (upper ? inside : is_lower(c) && !inside) return Value::boolean(false);
    inside = upper || is_lower(c);
    some = some || inside;
    at += step.n_bytes;
  }
  return Value::boolean(some);
}

constexpr auto kQueries = std::to_array<NamedCallable>({
    {"count", count},
    {"endswith", starts_or_ends<true>},
    {"find", find<false, Missing::minus_one>},
    {"index", find<false, Missing::error>},
    {"isalnum", all_in_class<is_alphanumeric>},
    {"isalpha", all_in_class<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", all_in_class<is_decimal>},
    {"isdigit", all_in_class<is_digit_like>},
    {"isidentifier", isidentifier},
    {"islower", is_case<false>},
    {"isnumeric", all_in_class<is_numeric>},
    {"isprintable", isprintable},
    {"isspace", all_in_class<is_space>},
    {"istitle", istitle},
    {"isupper", is_case<true>},
    {"rfind", find<true, Missing::minus_one>},
    {"rindex", find<true, Missing::error>},
    {"startswith", starts_or_ends<false>},
});

}  // namespace

Callable find_string_query(std::string_view name) {
  const auto* found = std::lower_bound(kQueries.begin(), kQueries.end(), name,
                                       [](const NamedCallable& m, std::string_view n) { return m.name < n; });
  return found != kQueries.end() && found->name == name ? found->body : nullptr;
}

}  // namespace rocmforge::jinja
