#include "chat/message_parser.h"

#include <algorithm>

namespace rocmforge::chat {
namespace {

FormatPatterns::Patterns compile(const ToolFormat::Markers& markers, std::span<const std::string> control) {
  FormatPatterns::Patterns out;
  for (const std::string_view marker : markers) out.emplace_back(marker, control);
  return out;
}

Units units_of(std::string_view marker, std::span<const std::string> control) {
  const bool is_one = std::ranges::find(control, marker) != control.end();
  Units out;
  for (const char c : marker) out += unit_of(c, is_one);
  return out;
}

constexpr size_t kMaxHeader = 512;  // of a message in Harmony

}  // namespace

FormatPatterns::FormatPatterns(const ToolFormat& format, std::span<const std::string> control)
    : call_close(compile(format.call_close, control)),
      section_close(compile(format.section_close, control)),
      reasoning_open(compile(format.reasoning_open, control)),
      reasoning_close(compile(format.reasoning_close, control)),
      dropped(compile(format.dropped, control)),
      quote(units_of(format.quote, control)),
      fence("```json", control),
      harmony_start(units_of("<|start|>", control)),
      harmony_channel(units_of("<|channel|>", control)),
      harmony_message(units_of("<|message|>", control)) {
  if (format.body == Body::tagged) {
    parameter_open.emplace(format.parameter_open, control);
    parameter_close.emplace(format.parameter_close, control);
  }
  if (format.body == Body::call_object) {
    for (const std::string_view close : format.call_close) call_close.emplace_back("}~" + std::string(close), control);
  }
  ToolFormat::Markers sections = format.section_open;
  if (!format.needs_section) sections.emplace_back();
  const auto add = [&](const std::string& section, std::string_view call, bool in_array) {
    const std::string marker = section + (section.empty() ? "" : "~") + (in_array ? "[~" : "") + std::string(call);
    openings.push_back({Pattern(marker, control), !section.empty(), in_array, format.is_bare && section.empty()});
    if (!format.start_prefix.empty() && marker.starts_with(format.start_prefix)) {
      starts.push_back({Pattern(marker.substr(format.start_prefix.size()), control), false, false, true});
    }
  };
  for (const std::string_view section : sections) {
    for (const std::string_view call : format.call_open) add(std::string(section), call, format.is_array);
  }
  if (format.is_array && format.body == Body::call_object) {
    for (const std::string_view section : format.section_open) add(std::string(section), "", false);
  }
  for (const std::string_view call : format.call_open) {
    const std::string before = format.is_array            ? ",~"
                               : format.separator.empty() ? ""
                                                          : std::string(format.separator) + "~";
    next.push_back({Pattern(before + std::string(call), control), false, format.is_array, format.is_bare});
  }
  for (const std::string_view one : format.dropped) {
    if (format.start_prefix.empty() || !one.starts_with(format.start_prefix)) continue;
    dropped_at_start.emplace_back(one.substr(format.start_prefix.size()), control);
  }
}

MessageParser::MessageParser(const ParserOptions& options)
    : format_(options.format ? options.format : find_tool_format("hermes")),
      tools_(options.tools ? options.tools : std::make_shared<const ToolSet>()),
      patterns_(std::make_unique<const FormatPatterns>(*format_, options.control)),
      reads_calls_(options.reads_calls && options.format != nullptr),
      reads_reasoning_(options.reads_reasoning),
      tells_early_(options.tells_early),
      max_calls_(options.max_calls),
      may_begin_(512) {
  const auto begins = [&](const Pattern& pattern) { may_begin_[pattern.first()] = true; };
  for (const auto* list : {&patterns_->dropped, &patterns_->reasoning_open, &patterns_->reasoning_close}) {
    std::ranges::for_each(*list, begins);
  }
  for (const auto& opening : patterns_->openings) begins(opening.pattern);
  if (format_->is_bare) may_begin_['{'] = true;
  if (format_->is_harmony) may_begin_[patterns_->harmony_start[0]] = may_begin_[patterns_->harmony_channel[0]] = true;

  std::string_view tail = options.prompt_tail;
  is_start_of_prompt_ = !format_->start_prefix.empty() && (tail.empty() || tail.ends_with(format_->start_prefix));
  while (!tail.empty() && is_space(unit_of(tail.back()))) tail.remove_suffix(1);
  const bool is_open =
      std::ranges::any_of(format_->reasoning_open, [&](std::string_view open) { return tail.ends_with(open); }) ||
      (format_->is_harmony && tail.ends_with("<|channel|>analysis<|message|>"));
  if (is_open && reads_reasoning_) {
    state_ = State::reasoning;
    drops_space_ = true;
  }
}

std::vector<MessageEvent> MessageParser::push(std::string_view text) {
  out_.clear();
  for (const char c : text) {
    if (c == kControlBegin || c == kControlEnd) {
      in_control_ = c == kControlBegin;
    } else {
      feed(unit_of(c, in_control_));
    }
  }
  return std::move(out_);
}

std::vector<MessageEvent> MessageParser::finish() {
  out_.clear();
  run(true);
  if (state_ == State::broken) end_call();
  if (state_ == State::text && !after_call_ && !drops_space_ && !space_.empty()) emit(Kind::content, space_);
  space_.clear();
  state_ = State::over;
  return std::move(out_);
}

void MessageParser::feed(Unit unit) {
  if (state_ == State::over) return;
  rescans_ += 3;
  input_ += unit;
  run(false);
}

void MessageParser::run(bool is_end) {
  while (advance(is_end)) {
  }
}

bool MessageParser::advance(bool is_end) {
  switch (state_) {
    case State::text:
      return advance_text(is_end);
    case State::reasoning:
      return advance_reasoning(is_end);
    case State::call:
      return advance_call(is_end);
    case State::broken:
      return advance_broken(is_end);
    case State::over:
      input_.clear();
      return false;
  }
  return false;
}

void MessageParser::emit(Kind kind, std::string_view text) {
  if (!out_.empty() && out_.back().kind == kind && kind != Kind::call && kind != Kind::call_end) {
    out_.back().text += text;
  } else {
    out_.push_back({.kind = kind, .text = std::string(text)});
  }
  out_.back().index = n_calls_;
}

// One unit that is no marker's.
void MessageParser::take_text(Kind kind) {
  const Unit unit = input_[0];
  input_.erase(0, 1);
  last_ = unit;
  is_start_ = false;
  if (is_space(unit)) {
    if (!drops_space_) space_ += byte_of(unit);
    if (space_.size() <= kMaxSpace || after_call_) return;
  }
  if (after_call_ && !has_content_) space_.clear();
  after_call_ = in_array_ = in_section_ = drops_space_ = false;
  (kind == Kind::content ? has_content_ : has_reasoning_) = true;
  if (!is_space(unit)) space_ += byte_of(unit);
  emit(kind, space_);
  space_.clear();
}

Match MessageParser::drop(const FormatPatterns::Patterns& patterns, bool is_end) {
  size_t length = 0;
  for (const Pattern& pattern : patterns) {
    const Match found = pattern.match(input_, is_end, length);
    if (found == Match::yes) input_.erase(0, length);
    if (found != Match::no) return found;
  }
  return Match::no;
}

Match MessageParser::match_openings(const std::vector<FormatPatterns::Opening>& openings, bool is_end) {
  for (const FormatPatterns::Opening& opening : openings) {
    size_t length = 0;
    Captures captures;
    if (opening.needs_known_name && !is_space(last_) && !after_call_ && !is_start_) continue;
    if (opening.pattern.empty() && input_[0] != '{') continue;
    const Match found = opening.pattern.match(input_, is_end, length, &captures);
    if (found == Match::yes) begin_call(length, std::move(captures), opening);
    if (found != Match::no) return found;
  }
  return Match::no;
}

// <|start|>assistant to=N<|channel|>C ...<|message|>, with the role or the recipient left out.
Match MessageParser::match_harmony(bool is_end) {
  const FormatPatterns& p = *patterns_;
  const Units recipient_first = u" to=";
  const auto begins = [&](UnitView marker) {
    return UnitView(input_).starts_with(marker) ? Match::yes : marker.starts_with(input_) ? Match::maybe : Match::no;
  };
  Match begun = std::max(begins(p.harmony_start), begins(p.harmony_channel));
  if (is_start_) begun = std::max(begun, begins(recipient_first));
  if (begun == Match::no || (begun == Match::maybe && is_end)) return Match::no;
  const size_t end = UnitView(input_).find(p.harmony_message);
  if (end == Units::npos) return is_end || input_.size() > kMaxHeader ? Match::no : Match::maybe;
  std::string header;
  append_bytes(header, UnitView(input_).substr(0, end));
  const auto word_behind = [&](std::string_view name) {
    const size_t at = header.rfind(name);
    if (at == std::string::npos) return std::string();
    const size_t from = at + name.size();
    return header.substr(from, header.find_first_of(" <\n", from) - from);
  };
  const std::string channel = word_behind("<|channel|>");
  std::string name = word_behind("to=");
  const size_t length = end + p.harmony_message.size();
  if (!name.empty() && reads_calls_) {
    if (name.starts_with("functions.")) name.erase(0, 10);
    begin_call(length, {.name = std::move(name)}, {Pattern("", {}), false, false, false});
    return Match::yes;
  }
  input_.erase(0, length);
  space_.clear();
  is_start_ = false;
  const bool thinks = channel == "analysis" && reads_reasoning_;
  if (thinks ? has_reasoning_ : has_content_) emit(thinks ? Kind::reasoning : Kind::content, "\n");
  state_ = thinks ? State::reasoning : State::text;
  after_call_ = false;
  drops_space_ = thinks;
  return Match::yes;
}

// Closing markers, and further calls.
Match MessageParser::match_after_call(bool is_end) {
  if (in_array_ && input_[0] == ']') {
    input_.erase(0, 1);
    in_array_ = false;
    space_.clear();
    return Match::yes;
  }
  for (const auto* closers : {&patterns_->call_close, &patterns_->section_close, &patterns_->reasoning_close}) {
    const Match found = drop(*closers, is_end);
    if (found == Match::yes) space_.clear();
    if (found == Match::yes && closers == &patterns_->section_close) in_section_ = false;
    if (found != Match::no) return found;
  }
  const bool may_follow = format_->is_array ? in_array_ : in_section_ || !format_->needs_section;
  return may_follow && !format_->is_harmony ? match_openings(patterns_->next, is_end) : Match::no;
}

Match MessageParser::match_markers(bool is_end) {
  if (is_start_ && is_start_of_prompt_) {
    Match found = drop(patterns_->dropped_at_start, is_end);
    if (found == Match::yes) is_start_ = false;
    if (found == Match::no && reads_calls_) found = match_openings(patterns_->starts, is_end);
    if (found != Match::no) return found;
  }
  if (after_call_) {
    if (const Match found = match_after_call(is_end); found != Match::no) return found;
  } else if (!may_begin_[input_[0]] && !(is_start_ && format_->is_harmony)) {
    return Match::no;
  }
  if (format_->is_harmony) {
    if (const Match found = match_harmony(is_end); found != Match::no) return found;
  }
  if (const Match found = drop(patterns_->dropped, is_end); found != Match::no) {
    if (found == Match::yes) drops_space_ = false;
    return found;
  }
  if (reads_calls_) {
    if (const Match found = match_openings(patterns_->openings, is_end); found != Match::no) return found;
  }
  // Thoughts come first, or after a call; in the middle of an answer only where nothing else can mean them.
  if (!reads_reasoning_ || (has_content_ && !after_call_ && !is_control(input_[0]))) return Match::no;
  const Match found = drop(patterns_->reasoning_open, is_end);
  if (found == Match::yes) {
    state_ = State::reasoning;
    if (!has_content_ || after_call_) space_.clear();
    after_call_ = false;
    drops_space_ = true;
  }
  return found;
}

bool MessageParser::advance_text(bool is_end) {
  if (input_.empty()) return false;
  const bool may_be_recipient = is_start_ && format_->is_harmony;
  if (!is_space(input_[0]) || may_be_recipient) {
    const Match found = match_markers(is_end);
    if (found != Match::no) return found == Match::yes;
  }
  take_text(Kind::content);
  return true;
}

bool MessageParser::advance_reasoning(bool is_end) {
  if (input_.empty()) return false;
  if (may_begin_[input_[0]]) {
    const Match closed = drop(patterns_->reasoning_close, is_end);
    if (closed == Match::yes) {
      state_ = State::text;
      space_.clear();
      drops_space_ = true;
      last_ = '\n';
      is_start_ = format_->is_harmony;
    }
    if (closed != Match::no) return closed == Match::yes;
    Match found = format_->is_harmony ? match_harmony(is_end) : Match::no;
    if (found == Match::no && reads_calls_) found = match_openings(patterns_->openings, is_end);
    if (found != Match::no) return found == Match::yes;
  }
  take_text(Kind::reasoning);
  return true;
}

void MessageParser::begin_call(size_t length, Captures captures, const FormatPatterns::Opening& opening) {
  call_ = input_.substr(0, length);
  input_.erase(0, length);
  before_call_ = state_;
  // In thoughts a call of no known tool is a thought.
  const bool needs_known = opening.needs_known_name || (state_ == State::reasoning && !tools_->empty());
  if (opening.has_section) in_section_ = true;
  in_array_ = opening.in_array;
  reader_.emplace(*format_, *patterns_, *tools_, std::move(captures), needs_known);
  is_told_ = false;
  state_ = State::call;
}

void MessageParser::tell_call() {
  space_.clear();
  call_.clear();
  emit(Kind::call, reader_->name());
  out_.back().id = reader_->id();
  is_told_ = true;
}

void MessageParser::end_call() {
  emit(Kind::call_end, {});
  n_calls_++;
  reader_.reset();
  state_ = n_calls_ < max_calls_ ? State::text : State::over;
  is_start_ = format_->is_harmony;
  after_call_ = true;
  drops_space_ = false;
  last_ = '\n';
}

// It was none: its first unit is text, and the rest is read again, but not for ever.
void MessageParser::undo_call() {
  n_failed_++;
  reader_.reset();
  state_ = before_call_;
  const Kind kind = state_ == State::reasoning ? Kind::reasoning : Kind::content;
  const bool reads_again = rescans_ >= call_.size();
  size_t n_text = reads_again ? 1 : call_.size();
  if (reads_again) {
    rescans_ -= call_.size();
    // A control token is text as a whole.
    while (n_text < call_.size() && is_control(call_[0]) && is_control(call_[n_text])) n_text++;
  }
  input_.insert(0, call_);
  call_.clear();
  for (size_t i = 0; i < n_text; i++) take_text(kind);
}

bool MessageParser::advance_call(bool is_end) {
  size_t n_taken = 0;
  const CallReader::Step step = reader_->step(input_, is_end, n_taken);
  if (!is_told_) call_ += input_.substr(0, n_taken);
  input_.erase(0, n_taken);
  const bool is_complete = step == CallReader::Step::done;
  if (step == CallReader::Step::failed && !is_told_) {
    undo_call();
    return true;
  }
  if (!is_told_ && (is_complete || (tells_early_ && reader_->is_ready()))) tell_call();
  if (!is_told_ && call_.size() > kMaxCall) {
    undo_call();
    return true;
  }
  if (is_told_) {
    if (const std::string more = reader_->take_arguments(); !more.empty()) emit(Kind::arguments, more);
  }
  if (step == CallReader::Step::failed) state_ = State::broken;
  if (is_complete) end_call();
  return n_taken > 0 || step != CallReader::Step::more;
}

// A call that was told and then left its syntax: what it says up to its end are its arguments.
bool MessageParser::advance_broken(bool is_end) {
  if (input_.empty()) return false;
  for (const auto* closers : {&patterns_->call_close, &patterns_->section_close}) {
    const Match found = drop(*closers, is_end);
    if (found == Match::yes) end_call();
    if (found != Match::no) return found == Match::yes;
  }
  std::string byte(1, byte_of(input_[0]));
  input_.erase(0, 1);
  emit(Kind::arguments, byte);
  return true;
}

}  // namespace rocmforge::chat
