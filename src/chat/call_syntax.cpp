#include "chat/call_syntax.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "chat/pattern.h"
#include "chat/relaxed_schema.h"
#include "grammar/json_schema.h"

namespace rocmforge::chat {
namespace {

using grammar::JsonType;
using grammar::kAnyBytes;
using grammar::kEmptyText;
using grammar::kJsonTypes;
using grammar::kNothing;
using grammar::Regex;
using grammar::RegexPool;
using grammar::RuleId;
using grammar::StateId;
using grammar::StringReading;

constexpr uint32_t kMaxIndent = 8, kMaxKeyChars = 64, kMaxIdChars = 24;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool has_letter(std::string_view text) {
  return std::ranges::any_of(text, is_letter);
}

std::string_view alternative(const ToolFormat::Markers& markers, size_t i) {
  return markers.empty() ? std::string_view() : markers[std::min(i, markers.size() - 1)];
}

// The part of a marker before its first place or white space.
std::string_view literal_prefix(std::string_view marker) {
  return marker.substr(0, marker.find_first_of("~%"));
}

Regex letters_and_digits(RegexPool& pool) {
  return pool.either({pool.bytes(grammar::byte_range('a', 'z')), pool.bytes(grammar::byte_range('A', 'Z')),
                      pool.bytes(grammar::byte_range('0', '9'))});
}

Regex id_text(RegexPool& pool, IdForm form) {
  switch (form) {
    case IdForm::nine:
      return pool.repeat(letters_and_digits(pool), 9, 9);
    case IdForm::name_and_index:
      return pool.repeat(pool.bytes(grammar::byte_range('0', '9')), 1, 3);
    case IdForm::any:
      return pool.repeat(letters_and_digits(pool), 1, kMaxIdChars);
  }
  return kNothing;
}

std::string_view word_of(TypeWord form, JsonType type) {
  static constexpr std::array<std::string_view, kJsonTypes> kNames = {"null",   "boolean", "number",
                                                                      "string", "array",   "object"};
  if (form == TypeWord::is_string) return type == JsonType::string ? "true" : "false";
  return kNames[static_cast<size_t>(type)];
}

std::string with_word(std::string_view marker, std::string_view word) {
  std::string out(marker);
  if (const size_t at = out.find("%T"); at != std::string::npos) out.replace(at, 2, word);
  return out;
}

constexpr size_t kMaxRelaxations = 16;

const JsonValue& any_object() {
  static const JsonValue schema = JsonObject{{"type", JsonValue("object")}};
  return schema;
}

}  // namespace

CallSyntax::CallSyntax(grammar::Grammar& grammar, const ToolFormat& format, const MarkerTokens& tokens)
    : grammar_(grammar), format_(format), tokens_(tokens) {}

Regex CallSyntax::space() {
  RegexPool& pool = grammar_.pool;
  const Regex line = pool.concat(pool.optional(pool.byte('\r')), pool.byte('\n'));
  return pool.either(
      {kEmptyText, pool.byte(' '), pool.concat(pool.repeat(line, 1, 2), pool.repeat(pool.byte(' '), 0, kMaxIndent))});
}

std::string CallSyntax::marked(std::string_view text) const {
  return mark_controls(text, tokens_.control);
}

Regex CallSyntax::literal(std::string_view text) {
  if (std::ranges::find(tokens_.end_of_text, text) != tokens_.end_of_text.end()) return kEmptyText;
  return grammar_.pool.literal(marked(text));
}

Regex CallSyntax::marker(std::string_view marker, std::string_view tool) {
  RegexPool& pool = grammar_.pool;
  Regex out = kEmptyText;
  for (size_t at = 0; at < marker.size();) {
    if (marker[at] == '~') {
      // Between two words white space is needed.
      const bool is_needed = at > 0 && marker[at - 1] != '>' && at + 1 < marker.size() && is_letter(marker[at + 1]);
      out = pool.concat(out, is_needed ? pool.byte(' ') : space());
      at++;
    } else if (marker[at] == '%' && at + 1 < marker.size()) {
      out = pool.concat(out, marker[at + 1] == 'N' ? pool.literal(tool) : id_text(pool, format_.id_form));
      at += 2;
    } else {
      const size_t end = std::min(marker.find_first_of("~%", at), marker.size());
      out = pool.concat(out, literal(marker.substr(at, end - at)));
      at = end;
    }
  }
  return out;
}

Regex CallSyntax::text_without(std::span<const std::string_view> markers) {
  std::vector<Regex> all;
  for (const std::string_view one : markers) {
    if (const std::string_view text = literal_prefix(one); !text.empty()) all.push_back(literal(text));
  }
  std::erase(all, kEmptyText);
  return grammar::texts_without(grammar_.pool, grammar_.pool.either(std::move(all)));
}

// The markers around a call's arguments, by alternative of call_open.
std::vector<CallSyntax::Frame> CallSyntax::frames() const {
  std::vector<Frame> out;
  for (size_t i = 0; i < format_.call_open.size(); i++) {
    std::string opening(format_.call_open[i]);
    const std::string close(format_.written_close.empty() ? alternative(format_.call_close, 0)
                                                          : alternative(format_.written_close, i));
    std::string closing = close.starts_with('~') ? close : "~" + close;
    if (close.empty()) closing.clear();
    if (format_.body == Body::call_object) {
      const std::string id = fmt::format("\"{}\"~:~\"%I\"", format_.id_key);
      const bool has_id = !format_.id_key.empty();
      opening += "{~";
      if (has_id && !format_.id_follows) opening += id + "~,~";
      opening += format_.name_is_key
                     ? "\"%N\"~:~"
                     : fmt::format("\"{}\"~:~\"%N\"~,~\"{}\"~:~", format_.name_key, format_.arguments_key);
      closing = (has_id && format_.id_follows ? "~,~" + id : "") + "~}" + closing;
    }
    if (format_.id_form == IdForm::name_and_index) opening.replace(opening.find("%I"), 2, "functions.%N:%I");
    out.push_back({std::move(opening), std::move(closing)});
  }
  return out;
}

// As much of an opening as tells a call from text: a marker, or a known name where the marker is only punctuation.
std::string CallSyntax::trigger_of(const std::string& opening) const {
  const std::string_view prefix = literal_prefix(opening);
  if (has_letter(prefix)) return std::string(prefix);
  const size_t name = opening.find("%N");
  return opening.substr(0, std::min(opening.find_first_of("~%", name + 2), opening.size()));
}

Regex CallSyntax::triggers() {
  RegexPool& pool = grammar_.pool;
  std::vector<Regex> all;
  for (const std::string_view section : format_.section_open) all.push_back(marker(literal_prefix(section)));
  if (!format_.needs_section) {
    for (const Frame& frame : frames()) {
      const std::string trigger = trigger_of((format_.is_array ? "[~" : "") + frame.opening);
      if (trigger.find("%N") == std::string::npos) {
        all.push_back(marker(trigger));
        continue;
      }
      for (const Tool& tool : tools_) all.push_back(marker(trigger, tool.name));
    }
  }
  return pool.either(std::move(all));
}

bool CallSyntax::can_write(std::string_view name) const {
  size_t length = 0;
  Captures captures;
  const std::string text = std::string(name) + "(";
  Units units;
  for (const char c : text) units += unit_of(c);
  return Pattern("%N(", {}).match(units, true, length, &captures) == Match::yes && captures.name == name;
}

grammar::ValueSyntax CallSyntax::value_syntax() const {
  using grammar::Spelling;
  switch (format_.body) {
    case Body::python:
      return {.has_python_words = true};
    case Body::literal:
      return {.chars = Spelling::Form::utf8,
              .quote = marked(format_.quote),
              .has_bare_keys = true,
              .has_python_words = true};
    case Body::tagged:
      return {.excluded = marked(format_.parameter_close)};
    case Body::call_object:
    case Body::json:
      return {};
  }
  return {};
}

grammar::MemberSyntax CallSyntax::member_syntax(std::string_view tool, const ToolSet& types) {
  RegexPool& pool = grammar_.pool;
  grammar::MemberSyntax out;
  if (format_.body == Body::python) {
    const Regex letter = pool.either(
        {pool.bytes(grammar::byte_range('a', 'z')), pool.bytes(grammar::byte_range('A', 'Z')), pool.byte('_')});
    const Regex more = pool.either(letter, pool.bytes(grammar::byte_range('0', '9')));
    out.close = pool.byte(')');
    out.separator = marker(",~");
    out.key = pool.concat(letter, pool.repeat(more, 0, kMaxKeyChars));
    out.key_close.fill(pool.byte('='));
    return out;
  }
  const std::string_view open = format_.parameter_open, close = format_.parameter_close;
  const size_t key = open.find("%K");
  const Regex line = format_.has_value_lines ? pool.byte('\n') : kEmptyText;
  out.key_open = pool.concat(space(), marker(open.substr(0, key)));
  // What tags can hold, and neither they spell with entities nor JSON with escapes.
  grammar::Spelling chars(pool, grammar::Spelling::Form::utf8);
  const Regex key_char =
      chars.one_of({{'!', '!'}, {'#', '%'}, {'(', ';'}, {'=', '='}, {'?', '['}, {']', grammar::kMaxChar}});
  out.key = pool.repeat(key_char, 1, kMaxKeyChars);
  for (size_t t = 0; t < kJsonTypes; t++) {
    const std::string word(word_of(format_.type_word, static_cast<JsonType>(t)));
    out.key_close[t] = pool.concat(marker(with_word(open.substr(key + 2), word)), line);
  }
  out.value_close = pool.concat(line, marker(close));
  out.raw_text = grammar::texts_without(pool, pool.concat(line, marker(close)));
  if (format_.has_value_lines) {
    out.raw_text = pool.both(out.raw_text, pool.negate(pool.concat(marker(close), kAnyBytes)));
  }
  out.other_raw_text = pool.both(grammar::texts_without(pool, marker(close)), grammar::texts_unlike_json(pool));
  out.reading = [this, tool = std::string(tool), &types](std::string_view name) {
    const uint8_t known = types.types(tool, name);
    if (format_.type_word != TypeWord::none || known == kString) return StringReading::always;
    return known == kUnknown ? StringReading::or_quoted : StringReading::unlike_json;
  };
  return out;
}

Result<RuleId> CallSyntax::add_arguments(const JsonValue& schema, std::string_view tool, const ToolSet& types) {
  grammar::SchemaOptions options{.syntax = value_syntax()};
  options.has_white_space = format_.body != Body::literal;
  if (format_.body != Body::python && format_.body != Body::tagged)
    return grammar::add_object(grammar_, schema, options);
  return grammar::add_members(grammar_, schema, options, member_syntax(tool, types));
}

Result<void> CallSyntax::add_tool(const JsonValue& tool, const ToolSet& types) {
  const JsonValue* function = tool.find("function");
  if (!function) function = &tool;
  const JsonValue* name_value = function->find("name");
  const auto* name = name_value ? name_value->as<std::string>() : nullptr;
  if (!name) return {};
  if (!can_write(*name)) {
    unenforced_.push_back({*name, fmt::format("never called: the format {} cannot write the name", format_.name)});
    return {};
  }
  const JsonValue* schema = function->find("parameters");
  static const JsonValue none = JsonObject{{"type", JsonValue("object")}, {"additionalProperties", JsonValue(false)}};
  auto arguments = add_arguments(schema && !schema->is_null() ? *schema : none, *name, types);
  // What can be enforced of a schema is, keyword by keyword.
  JsonValue relaxed = schema && !schema->is_null() ? *schema : none;
  for (size_t i = 0; i < kMaxRelaxations && !arguments.ok() && !grammar_.is_too_large(); i++) {
    auto next = relax_schema(relaxed, arguments.error());
    if (!next) break;
    unenforced_.push_back({*name, fmt::format("'{}' is not enforced: {}", next->pointer, arguments.error().message)});
    relaxed = std::move(next->schema);
    arguments = add_arguments(relaxed, *name, types);
  }
  if (grammar_.is_too_large()) return Error{ErrorCode::limit_exceeded, fmt::format("tool '{}': too large", *name)};
  if (!arguments.ok()) {
    unenforced_.push_back({*name, "its arguments are any object: " + arguments.error().message});
    arguments = add_arguments(any_object(), *name, types);
  }
  tools_.push_back({*name, TRY(arguments)});
  return {};
}

void CallSyntax::add_call(RuleId rule, StateId from, StateId to, const std::string& opening, std::string_view closing) {
  const size_t name = opening.find("%N");
  const StateId named = grammar_.add_state(rule), end = grammar_.add_state(rule);
  grammar_.add_text(from, marker(std::string_view(opening).substr(0, name)), named);
  for (const Tool& tool : tools_) {
    const StateId arguments = grammar_.add_state(rule);
    grammar_.add_text(named, marker(std::string_view(opening).substr(name), tool.name), arguments);
    grammar_.add_call(arguments, tool.arguments, end);
  }
  grammar_.add_text(end, marker(closing), to);
}

RuleId CallSyntax::add_call_rule(bool is_first) {
  const RuleId rule = grammar_.add_rule();
  const StateId end = grammar_.add_state(rule);
  grammar_.set_final(end);
  for (const Frame& frame : frames()) {
    const size_t n_prefix = is_first ? format_.start_prefix.size() : 0;
    add_call(rule, grammar_.start_of(rule), end, frame.opening.substr(n_prefix), frame.closing);
  }
  return rule;
}

void CallSyntax::add_calls(RuleId rule, StateId from, StateId to, bool is_parallel, bool is_first) {
  const RuleId call = add_call_rule(false);
  const RuleId first_call = is_first ? add_call_rule(true) : call;
  const std::string separator = format_.is_array               ? "~,~"
                                : !format_.separator.empty()   ? "~" + std::string(format_.separator) + "~"
                                : format_.body == Body::python ? "\n"
                                                               : "~";
  const auto add = [&](std::string_view open, std::string_view close) {
    const StateId before = grammar_.add_state(rule), after = grammar_.add_state(rule);
    const std::string opening = std::string(open) + (open.empty() ? "" : "~") + (format_.is_array ? "[~" : "");
    grammar_.add_text(from, marker(opening), before);
    grammar_.add_call(before, first_call, after);
    const std::string closing =
        std::string(format_.is_array ? "~]" : "") + (close.empty() ? "" : "~") + std::string(close);
    grammar_.add_text(after, marker(closing), to);
    if (!is_parallel) return;
    const StateId again = grammar_.add_state(rule);
    grammar_.add_text(after, marker(separator), again);
    grammar_.add_call(again, call, after);
  };
  const ToolFormat& f = format_;
  for (size_t i = 0; i < f.section_open.size(); i++) {
    add(f.section_open[i],
        f.written_section_close.empty() ? alternative(f.section_close, 0) : alternative(f.written_section_close, i));
  }
  if (!f.needs_section) add("", "");
}

}  // namespace rocmforge::chat
