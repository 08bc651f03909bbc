#include "chat/call_reader.h"

#include "base/json.h"
#include "base/utf8.h"

namespace rocmforge::chat {
namespace {

using Scan = LiteralScanner::Step;

// The text of a JSON string.
std::string text_of(const std::string& json) {
  const auto value = parse_json(to_valid_utf8(json));
  const auto* text = value.ok() ? value->as<std::string>() : nullptr;
  return text ? *text : std::string();
}

void append_escaped(std::string& out, char byte) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(byte);
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (code >= 0x20) {
    out += byte;
    return;
  }
  out += "\\u00";
  out += kHex[code >> 4];
  out += kHex[code & 15];
}

// What attributes spell with entities.
std::string unescaped(std::string text) {
  const std::pair<std::string_view, char> kEntities[] = {{"&quot;", '"'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}};
  for (const auto& [entity, character] : kEntities) {
    for (size_t at = text.find(entity); at != std::string::npos; at = text.find(entity, at + 1)) {
      text.replace(at, entity.size(), 1, character);
    }
  }
  return text;
}

// What the tag itself says of its value's type; nothing: ask the schema.
std::optional<uint8_t> types_of_word(const std::string& word, uint8_t by_schema) {
  if (word == "true" || word == "string") return kString;
  if (word == "false") return static_cast<uint8_t>(by_schema & ~kString);
  if (word == "number" || word == "integer") return kNumber;
  if (word == "boolean") return kBoolean;
  if (word == "null") return kNull;
  if (word == "array") return kArray;
  if (word == "object") return kObject;
  return std::nullopt;
}

Match match_any(const FormatPatterns::Patterns& patterns, UnitView text, bool is_end) {
  size_t length = 0;
  for (const Pattern& pattern : patterns) {
    const Match found = pattern.match(text, is_end, length);
    if (found != Match::no) return found;
  }
  return Match::no;
}

}  // namespace

CallReader::CallReader(const ToolFormat& format, const FormatPatterns& patterns, const ToolSet& tools, Captures header,
                       bool needs_known_name)
    : format_(&format),
      patterns_(&patterns),
      tools_(&tools),
      name_(std::move(header.name)),
      id_(std::move(header.id)),
      needs_known_name_(needs_known_name),
      scanner_(patterns.quote) {
  if (format.id_form != IdForm::name_and_index) return;
  name_ = id_.starts_with("functions.") ? id_.substr(10) : id_;
  const size_t colon = name_.rfind(':');
  if (colon != std::string::npos && name_.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
    name_.resize(colon);
  }
}

CallReader::Step CallReader::step(UnitView text, bool is_end, size_t& n_taken) {
  n_taken = 0;
  if (format_->body == Body::tagged) return step_tagged(text, is_end, n_taken);
  if (format_->body == Body::json || format_->body == Body::literal) return step_json(text, is_end, n_taken);
  if (text.empty()) return is_end ? Step::failed : Step::more;
  for (;;) {
    bool taken = true;
    const Step step = format_->body == Body::python ? step_python(text[0], taken) : step_object(text[0], taken);
    n_taken = taken ? 1 : 0;
    if (taken || step != Step::more) return step;
  }
}

CallReader::Step CallReader::done() {
  if (name_.empty() || (needs_known_name_ && !tools_->contains(name_))) return Step::failed;
  is_ready_ = true;
  return Step::done;
}

bool CallReader::set_name(std::string name) {
  if (name.empty() || name.size() > Pattern::kMaxName || (needs_known_name_ && !tools_->contains(name))) return false;
  name_ = std::move(name);
  is_ready_ = has_arguments_ && !format_->id_follows;
  return true;
}

bool CallReader::set_arguments_from(const std::string& json) {
  if (json == "null") {
    arguments_ = "{}";
    return true;
  }
  const std::string text = text_of(json);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    arguments_ = "{}";
    return json.starts_with('"');
  }
  arguments_.clear();
  return to_json(text, arguments_) && arguments_[arguments_.find_first_not_of(" \t\r\n")] == '{';
}

// The whole call as an object.

CallReader::Role CallReader::role_of(const std::string& key) const {
  if (key == "name" || key == "tool_name") return Role::name;
  if (key == "arguments" || key == "parameters") return Role::arguments;
  if (key == "id" || key == "tool_call_id") return Role::id;
  return key == "function" && !is_nested_ ? Role::nested : Role::none;
}

CallReader::Step CallReader::step_object(Unit unit, bool& taken) {
  if (place_ == Place::value || place_ == Place::value_start) return step_object_value(unit, taken);
  if (place_ == Place::key_text) {
    const Scan scan = scanner_.push(unit, scratch_);
    if (scan == Scan::failed || scratch_.size() > Pattern::kMaxName) return Step::failed;
    if (scan != Scan::done) return Step::more;
    const std::string key = text_of(scratch_);
    if (format_->name_is_key) {
      role_ = Role::arguments;
      if (has_arguments_ || !set_name(key)) return Step::failed;
    } else {
      role_ = role_of(key);
      if (role_ == Role::none && key != "type" && format_->is_bare) return Step::failed;
      if (role_ == Role::arguments && has_arguments_) return Step::failed;
    }
    place_ = Place::colon;
    return Step::more;
  }
  if (is_space(unit)) return Step::more;
  switch (place_) {
    case Place::start:
      place_ = Place::key;
      return unit == '{' ? Step::more : Step::failed;
    case Place::key:
      if (unit == '}') return end_object();
      if (unit != '"' && unit != '\'') return Step::failed;
      scratch_.clear();
      scanner_ = LiteralScanner();
      place_ = Place::key_text;
      taken = false;
      return Step::more;
    case Place::colon:
      place_ = Place::value_start;
      return unit == ':' ? Step::more : Step::failed;
    case Place::after:
      if (unit == '}') return end_object();
      place_ = Place::key;
      return unit == ',' ? Step::more : Step::failed;
    default:
      return Step::failed;
  }
}

CallReader::Step CallReader::step_object_value(Unit unit, bool& taken) {
  if (place_ == Place::value_start) {
    if (is_space(unit)) return Step::more;
    if (role_ == Role::nested) {
      if (unit == '{') {
        is_nested_ = true;
        place_ = Place::key;
        return Step::more;
      }
      role_ = Role::name;
    }
    if (role_ == Role::name && unit != '"' && unit != '\'') return Step::failed;
    scratch_.clear();
    scanner_ = LiteralScanner(patterns_->quote);
    is_text_ = role_ == Role::arguments && unit != '{';
    if (role_ == Role::arguments) {
      has_arguments_ = true;
      is_ready_ = !is_text_ && !name_.empty() && !format_->id_follows;
    }
    place_ = Place::value;
  }
  std::string& out = role_ == Role::arguments && !is_text_ ? arguments_ : scratch_;
  const Scan scan = scanner_.push(unit, out);
  taken = scan != Scan::before;
  if (scan == Scan::failed || out.size() > kMaxHeld) return Step::failed;
  return scan == Scan::more ? Step::more : end_object_value();
}

CallReader::Step CallReader::end_object_value() {
  place_ = Place::after;
  if (role_ == Role::name && !set_name(text_of(scratch_))) return Step::failed;
  if (role_ == Role::id) id_ = scratch_.starts_with('"') ? text_of(scratch_) : scratch_;
  if (role_ == Role::arguments && is_text_) {
    if (!set_arguments_from(scratch_)) return Step::failed;
    is_ready_ = !name_.empty() && !format_->id_follows;
  }
  return Step::more;
}

CallReader::Step CallReader::end_object() {
  if (is_nested_) {
    is_nested_ = false;
    place_ = Place::after;
    return Step::more;
  }
  if (!has_arguments_) {
    if (format_->is_bare) return Step::failed;
    arguments_ = "{}";
  }
  return done();
}

// An object behind the name.

CallReader::Step CallReader::step_json(UnitView text, bool is_end, size_t& n_taken) {
  if (text.empty()) return is_end ? Step::failed : Step::more;
  const Unit unit = text[0];
  if (place_ == Place::start) {
    size_t length = 0;
    if (is_space(unit)) {
      n_taken = 1;
      return Step::more;
    }
    const Match fence = patterns_->fence.match(text, is_end, length);
    if (fence == Match::maybe) return Step::more;
    if (fence == Match::yes) {
      n_taken = length;
      return Step::more;
    }
    if (unit != '{' && (unit != '"' || format_->body == Body::literal)) {
      const Match close = match_any(patterns_->call_close, text, is_end);
      if (close != Match::yes) return close == Match::maybe ? Step::more : Step::failed;
      arguments_ = "{}";
      return done();
    }
    if (needs_known_name_ && !tools_->contains(name_)) return Step::failed;
    is_text_ = unit == '"';
    is_ready_ = !is_text_;
    place_ = Place::value;
  }
  std::string& out = is_text_ ? scratch_ : arguments_;
  const Scan scan = scanner_.push(unit, out);
  n_taken = 1;
  if (scan == Scan::failed || scan == Scan::before || out.size() > kMaxHeld) return Step::failed;
  if (scan == Scan::more) return Step::more;
  return is_text_ && !set_arguments_from(scratch_) ? Step::failed : done();
}

// k=v, ... )

CallReader::Step CallReader::step_python(Unit unit, bool& taken) {
  if (place_ == Place::value) {
    const Scan scan = scanner_.push(unit, arguments_);
    taken = scan != Scan::before;
    if (scan == Scan::failed || arguments_.size() > kMaxHeld) return Step::failed;
    if (scan != Scan::more) place_ = Place::after;
    return Step::more;
  }
  if (place_ == Place::start) {
    if (needs_known_name_ && !tools_->contains(name_)) return Step::failed;
    place_ = Place::key;
  }
  if (place_ == Place::key_text) {
    const bool is_word =
        !is_control(unit) && (unit >= 0x80 || unit == '_' || unit == '-' || unit == '.' ||
                              (unit >= '0' && unit <= '9') || ((unit | 32) >= 'a' && (unit | 32) <= 'z'));
    if (is_word) {
      scratch_ += byte_of(unit);
      return scratch_.size() > Pattern::kMaxName ? Step::failed : Step::more;
    }
    place_ = Place::colon;
  }
  if (is_space(unit)) return Step::more;
  switch (place_) {
    case Place::key:
      if (unit == ')') {
        arguments_ += n_parameters_ == 0 ? "{}" : "}";
        return done();
      }
      scratch_.clear();
      place_ = Place::key_text;
      taken = false;
      return unit == '=' || unit == ',' || unit < '-' ? Step::failed : Step::more;
    case Place::colon:
      if (unit != '=' || scratch_.empty()) return Step::failed;
      arguments_ += n_parameters_++ == 0 ? "{" : ", ";
      append_json_string(arguments_, scratch_);
      arguments_ += ": ";
      scanner_ = LiteralScanner();
      is_ready_ = true;
      place_ = Place::value;
      return Step::more;
    case Place::after:
      place_ = Place::key;
      if (unit == ')') taken = false;
      return unit == ',' || unit == ')' ? Step::more : Step::failed;
    default:
      return Step::failed;
  }
}

// One pair of tags per parameter.

CallReader::Step CallReader::step_tagged(UnitView text, bool is_end, size_t& n_taken) {
  if (in_value_) return step_value(text, is_end, n_taken);
  const auto finish = [&] {
    arguments_ += n_parameters_ == 0 ? "{}" : "}";
    return done();
  };
  if (text.empty()) return is_end ? finish() : Step::more;
  if (is_space(text[0])) {
    n_taken = 1;
    return Step::more;
  }
  Captures captures;
  const Match open = patterns_->parameter_open->match(text, is_end, n_taken, &captures);
  if (open == Match::yes) return begin_parameter(captures);
  n_taken = 0;
  if (open == Match::maybe) return Step::more;
  const Match again = patterns_->parameter_close->match(text, is_end, n_taken);
  if (again == Match::yes) return n_parameters_ > 0 ? Step::more : Step::failed;
  n_taken = 0;
  const Match end = match_follower(text, is_end);
  if (again == Match::maybe || end == Match::maybe) return Step::more;
  return end == Match::yes ? finish() : Step::failed;
}

CallReader::Step CallReader::begin_parameter(const Captures& captures) {
  if (needs_known_name_ && !tools_->contains(name_)) return Step::failed;
  const std::string key = captures.type.empty() ? captures.key : unescaped(captures.key);
  const uint8_t by_schema = tools_->types(name_, key);
  types_ = types_of_word(captures.type, by_schema).value_or(by_schema);
  is_string_ = types_ == kString;
  arguments_ += n_parameters_++ == 0 ? "{" : ", ";
  append_json_string(arguments_, key);
  arguments_ += is_string_ ? ": \"" : ": ";
  scratch_.clear();
  in_value_ = is_value_empty_ = is_ready_ = true;
  began_on_line_ = false;
  return Step::more;
}

// Where a call goes on, or ends, behind a parameter.
Match CallReader::match_follower(UnitView text, bool is_end) const {
  size_t length = 0;
  Match out = Match::no;
  const auto check = [&](const Pattern& pattern) {
    if (out == Match::yes) return;
    const Match found = pattern.match(text, is_end, length);
    if (found != Match::no) out = found;
  };
  for (const Pattern& one : patterns_->call_close) check(one);
  for (const Pattern& one : patterns_->section_close) check(one);
  for (const auto& one : patterns_->openings) check(one.pattern);
  for (const auto& one : patterns_->next) check(one.pattern);
  return out;
}

Match CallReader::match_value_end(UnitView text, bool is_end, size_t& length) const {
  size_t n_line = 0;
  const bool is_line = format_->has_value_lines && text[0] == '\n';
  if (is_line) n_line = 1;
  if (is_line && text.size() == 1 && !is_end) return Match::maybe;
  const Match close = patterns_->parameter_close->match(text.substr(n_line), is_end, length);
  if (close != Match::yes) return close;
  length += n_line;
  if (began_on_line_ && is_string_) return is_line || is_value_empty_ ? Match::yes : Match::no;
  // The tag may stand in the value itself: what follows tells.
  size_t at = length;
  while (at < text.size() && is_space(text[at])) at++;
  if (at - length > Pattern::kMaxSpace) return Match::no;
  const UnitView rest = text.substr(at);
  if (rest.empty()) return is_end ? Match::yes : Match::maybe;
  size_t n = 0;
  const Match open = patterns_->parameter_open->match(rest, is_end, n);
  const Match again = patterns_->parameter_close->match(rest, is_end, n);
  const Match end = match_follower(rest, is_end);
  if (open == Match::yes || again == Match::yes || end == Match::yes) return Match::yes;
  return open == Match::maybe || again == Match::maybe || end == Match::maybe ? Match::maybe : Match::no;
}

CallReader::Step CallReader::step_value(UnitView text, bool is_end, size_t& n_taken) {
  if (text.empty()) return is_end ? Step::failed : Step::more;
  if (format_->has_value_lines && is_value_empty_ && !began_on_line_ && text[0] == '\n') {
    began_on_line_ = true;
    n_taken = 1;
    return Step::more;
  }
  size_t length = 0;
  const Match end = match_value_end(text, is_end, length);
  if (end == Match::maybe && !is_end) return Step::more;
  if (end == Match::yes) {
    n_taken = length;
    end_value();
    return Step::more;
  }
  n_taken = 1;
  is_value_empty_ = false;
  if (is_string_) {
    append_escaped(arguments_, byte_of(text[0]));
    return Step::more;
  }
  scratch_ += byte_of(text[0]);
  return scratch_.size() > kMaxHeld ? Step::failed : Step::more;
}

void CallReader::end_value() {
  arguments_ += is_string_ ? "\"" : tagged_json(scratch_, types_);
  scratch_.clear();
  in_value_ = false;
}

}  // namespace rocmforge::chat
