#include "chat/literal.h"

#include <algorithm>

namespace rocmforge::chat {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// The text of a number as JSON spells it; empty: it is none. Python may leave digits out beside the point.
std::string number_of(std::string_view word) {
  std::string out;
  size_t at = 0;
  const auto digits = [&] {
    const size_t from = at;
    while (at < word.size() && is_digit(word[at])) out += word[at++];
    return at - from;
  };
  if (at < word.size() && (word[at] == '-' || word[at] == '+')) {
    if (word[at++] == '-') out += '-';
  }
  const size_t first = at;
  size_t n = digits();
  if (n > 1 && word[first] == '0') return {};
  if (n == 0) out += '0';
  if (at < word.size() && word[at] == '.') {
    out += word[at++];
    const size_t n_after = digits();
    if (n_after == 0) out += '0';
    n += n_after;
  }
  if (n == 0) return {};
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    out += word[at++];
    if (at < word.size() && (word[at] == '-' || word[at] == '+')) out += word[at++];
    if (digits() == 0) return {};
  }
  return at == word.size() ? out : std::string();
}

}  // namespace

void LiteralScanner::flush(std::string& out) {
  out += held_;
  held_.clear();
}

void LiteralScanner::put(char byte, std::string& out) const {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(byte);
  if (byte == '"') {
    out += "\\\"";
  } else if (byte == '\\') {
    out += "\\\\";
  } else if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte == '\r') {
    out += "\\r";
  } else if (code < 0x20) {
    out += "\\u00";
    out += kHex[code >> 4];
    out += kHex[code & 15];
  } else {
    out += byte;
  }
}

LiteralScanner::Step LiteralScanner::push(Unit unit, std::string& out) {
  switch (state_) {
    case State::value:
      return begin_value(unit, out);
    case State::key:
    case State::bare_key:
      return push_key(unit, out);
    case State::colon:
      if (is_space(unit)) {
        out += byte_of(unit);
        return Step::more;
      }
      if (unit != ':') return Step::failed;
      out += ':';
      state_ = State::value;
      may_close_ = false;
      return Step::more;
    case State::after:
      return push_after(unit, out);
    case State::string:
      return push_string(unit, out);
    case State::escape:
      return push_escape(unit, out);
    case State::hex:
      return push_hex(unit, out);
    case State::raw:
      return push_raw(unit, out);
    case State::quote:
      if (unit != quote_[n_matched_]) return Step::failed;
      if (++n_matched_ == quote_.size()) {
        n_matched_ = 0;
        state_ = State::raw;
        flush(out);
        out += '"';
      }
      return Step::more;
    case State::word:
      return push_word(unit, out);
    case State::done:
      return Step::before;
  }
  return Step::failed;
}

LiteralScanner::Step LiteralScanner::begin_value(Unit unit, std::string& out) {
  if (is_space(unit)) {
    (held_.empty() ? out : held_) += byte_of(unit);
    return held_.size() > kMaxWord ? Step::failed : Step::more;
  }
  if (!quote_.empty() && unit == quote_[0]) {
    is_key_ = false;
    n_matched_ = 1;
    state_ = State::quote;
    return Step::more;
  }
  if (is_control(unit)) return Step::failed;
  const char c = byte_of(unit);
  if (c == '{' || c == '[' || c == '(') {
    if (open_.size() == kMaxDepth) return Step::failed;
    flush(out);
    open_.push_back(c);
    out += c == '(' ? '[' : c;
    may_close_ = true;
    state_ = c == '{' ? State::key : State::value;
    return Step::more;
  }
  if (c == '}' || c == ']' || c == ')') return may_close_ ? close(c, out) : Step::failed;
  if (c == '"' || c == '\'') {
    is_key_ = false;
    return begin_string(c, out);
  }
  if (c == ',' || c == ':') return Step::failed;
  flush(out);
  state_ = State::word;
  held_ = c;
  return Step::more;
}

LiteralScanner::Step LiteralScanner::begin_string(char quote, std::string& out) {
  flush(out);
  string_quote_ = quote;
  out += '"';
  state_ = State::string;
  return Step::more;
}

LiteralScanner::Step LiteralScanner::push_key(Unit unit, std::string& out) {
  if (state_ == State::bare_key) {
    if (unit == ':') {
      out += "\":";
      state_ = State::value;
      may_close_ = false;
      return Step::more;
    }
    if (is_space(unit)) {
      out += "\" ";
      state_ = State::colon;
      return Step::more;
    }
    if (is_control(unit) || UnitView(u"{}[](),'\"\\").find(unit) != UnitView::npos || unit < 0x20) return Step::failed;
    out += byte_of(unit);
    return Step::more;
  }
  if (is_space(unit)) {
    (held_.empty() ? out : held_) += byte_of(unit);
    return held_.size() > kMaxWord ? Step::failed : Step::more;
  }
  if (!quote_.empty() && unit == quote_[0]) {
    is_key_ = true;
    n_matched_ = 1;
    state_ = State::quote;
    return Step::more;
  }
  if (is_control(unit)) return Step::failed;
  const char c = byte_of(unit);
  if (c == '}') return may_close_ ? close(c, out) : Step::failed;
  is_key_ = true;
  if (c == '"' || c == '\'') return begin_string(c, out);
  if (UnitView(u"{[(]),:\\").find(unit) != UnitView::npos) return Step::failed;
  flush(out);
  out += '"';
  out += c;
  state_ = State::bare_key;
  return Step::more;
}

LiteralScanner::Step LiteralScanner::push_after(Unit unit, std::string& out) {
  if (is_space(unit)) {
    out += byte_of(unit);
    return Step::more;
  }
  if (is_control(unit)) return Step::failed;
  const char c = byte_of(unit);
  if (c != ',') return close(c, out);
  held_ = ",";
  may_close_ = true;
  state_ = open_.back() == '{' ? State::key : State::value;
  return Step::more;
}

LiteralScanner::Step LiteralScanner::close(char bracket, std::string& out) {
  if (open_.empty()) return Step::failed;
  const char opener = open_.back();
  if (bracket != (opener == '{' ? '}' : opener == '[' ? ']' : ')')) return Step::failed;
  if (!held_.empty()) held_.erase(0, 1);  // the comma
  flush(out);
  out += opener == '{' ? '}' : ']';
  open_.pop_back();
  return end_value();
}

LiteralScanner::Step LiteralScanner::end_value() {
  state_ = open_.empty() ? State::done : State::after;
  return open_.empty() ? Step::done : Step::more;
}

LiteralScanner::Step LiteralScanner::end_string(std::string& out) {
  out += '"';
  if (!is_key_) return end_value();
  state_ = State::colon;
  return Step::more;
}

LiteralScanner::Step LiteralScanner::push_string(Unit unit, std::string& out) {
  const char c = byte_of(unit);
  if (c == string_quote_) return end_string(out);
  if (c == '\\') {
    state_ = State::escape;
  } else {
    put(c, out);
  }
  return Step::more;
}

LiteralScanner::Step LiteralScanner::push_escape(Unit unit, std::string& out) {
  const char c = byte_of(unit);
  state_ = State::string;
  if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos) {
    out += '\\';
    out += c;
  } else if (c == '\'') {
    out += c;
  } else if (c == 'u' || c == 'x') {
    held_ = c;
    n_hex_ = c == 'u' ? 4 : 2;
    state_ = State::hex;
  } else {
    out += "\\\\";  // no escape: a backslash
    put(c, out);
  }
  return Step::more;
}

LiteralScanner::Step LiteralScanner::push_hex(Unit unit, std::string& out) {
  const char c = byte_of(unit);
  if (!is_hex(c)) {
    out += "\\\\";
    flush(out);
    state_ = State::string;
    return push_string(unit, out);
  }
  held_ += c;
  if (--n_hex_ > 0) return Step::more;
  out += held_[0] == 'u' ? "\\u" : "\\u00";
  out.append(held_, 1);
  held_.clear();
  state_ = State::string;
  return Step::more;
}

LiteralScanner::Step LiteralScanner::push_raw(Unit unit, std::string& out) {
  if (unit == quote_[n_matched_]) {
    if (++n_matched_ < quote_.size()) return Step::more;
    n_matched_ = 0;
    return end_string(out);
  }
  for (const Unit one : quote_.substr(0, n_matched_)) put(byte_of(one), out);
  n_matched_ = unit == quote_[0] ? 1 : 0;
  if (n_matched_ == 0) put(byte_of(unit), out);
  return Step::more;
}

bool LiteralScanner::write_word(std::string& out) const {
  if (held_ == "true" || held_ == "True") {
    out += "true";
  } else if (held_ == "false" || held_ == "False") {
    out += "false";
  } else if (held_ == "null" || held_ == "None") {
    out += "null";
  } else {
    const std::string number = number_of(held_);
    out += number;
    return !number.empty();
  }
  return true;
}

LiteralScanner::Step LiteralScanner::push_word(Unit unit, std::string& out) {
  const bool ends = is_space(unit) || is_control(unit) || UnitView(u",]}):;<").find(unit) != UnitView::npos;
  if (!ends) {
    held_ += byte_of(unit);
    return held_.size() > kMaxWord ? Step::failed : Step::more;
  }
  if (!write_word(out)) return Step::failed;
  held_.clear();
  if (end_value() == Step::done) return Step::before;
  return push_after(unit, out);
}

bool LiteralScanner::finish(std::string& out) {
  if (state_ == State::word && open_.empty() && write_word(out)) state_ = State::done;
  return state_ == State::done;
}

bool to_json(std::string_view text, std::string& out) {
  LiteralScanner scanner;
  bool is_done = false;
  for (const char c : text) {
    const Unit unit = unit_of(c);
    if (is_done) {
      if (!is_space(unit)) return false;
      continue;
    }
    const LiteralScanner::Step step = scanner.push(unit, out);
    if (step == LiteralScanner::Step::failed) return false;
    if (step == LiteralScanner::Step::before && !is_space(unit)) return false;
    is_done = step == LiteralScanner::Step::done || step == LiteralScanner::Step::before;
  }
  return is_done || scanner.finish(out);
}

}  // namespace rocmforge::chat
