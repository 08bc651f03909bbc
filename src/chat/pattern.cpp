#include "chat/pattern.h"

namespace rocmforge::chat {
namespace {

bool is_name_unit(Unit unit) {
  return !is_control(unit) && unit > ' ' && UnitView(u"<>{}[]()\"'`,;=|\\").find(unit) == UnitView::npos;
}

Match match_text(UnitView wanted, UnitView text) {
  if (text.starts_with(wanted)) return Match::yes;
  return wanted.starts_with(text) ? Match::maybe : Match::no;
}

}  // namespace

std::string_view control_at(std::string_view text, std::span<const std::string> control) {
  std::string_view out;
  for (const std::string& one : control) {
    if (one.size() > out.size() && text.starts_with(one)) out = one;
  }
  return out;
}

std::string mark_controls(std::string_view text, std::span<const std::string> control) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view token = control_at(text.substr(at), control);
    if (token.empty()) {
      out += text[at++];
      continue;
    }
    out += kControlBegin;
    out += token;
    out += kControlEnd;
    at += token.size();
  }
  return out;
}

Pattern::Pattern(std::string_view marker, std::span<const std::string> control) {
  const auto add = [&](Unit unit) {
    if (elements_.empty() || elements_.back().kind != '=') elements_.push_back({'=', {}});
    elements_.back().text += unit;
  };
  for (size_t at = 0; at < marker.size();) {
    const std::string_view token = control_at(marker.substr(at), control);
    if (!token.empty()) {
      for (const char c : token) add(unit_of(c, true));
      at += token.size();
    } else if (marker[at] == '~') {
      if (elements_.empty() || elements_.back().kind != '~') elements_.push_back({'~', {}});
      at++;
    } else if (marker[at] == '%' && at + 1 < marker.size()) {
      elements_.push_back({marker[at + 1], {}});
      at += 2;
    } else {
      add(unit_of(marker[at++]));
    }
  }
}

Unit Pattern::first() const {
  return elements_.empty() || elements_[0].kind != '=' ? Unit{0} : elements_[0].text[0];
}

Match Pattern::match_capture(size_t index, UnitView text, bool is_end, size_t& length, std::string& out) const {
  const bool is_key = elements_[index].kind == 'K';
  const Element* next = index + 1 < elements_.size() ? &elements_[index + 1] : nullptr;
  const bool until_text = next && next->kind == '=';
  for (length = 0; length < text.size(); length++) {
    if (length > kMaxName) return Match::no;
    if (until_text) {
      const Match end = match_text(next->text, text.substr(length));
      if (end == Match::yes) break;
      if (end == Match::maybe && !is_end) return Match::maybe;
    }
    const Unit unit = text[length];
    const bool fits = is_key ? !is_control(unit) && unit >= ' ' : is_name_unit(unit);
    if (fits) continue;
    if (until_text) return Match::no;
    break;
  }
  if (length == text.size() && (until_text || !is_end)) return is_end ? Match::no : Match::maybe;
  if (length == 0) return Match::no;
  out.clear();
  append_bytes(out, text.substr(0, length));
  return Match::yes;
}

Match Pattern::match(UnitView text, bool is_end, size_t& length, Captures* captures) const {
  Captures local;
  Captures& out = captures ? *captures : local;
  size_t at = 0;
  for (size_t i = 0; i < elements_.size(); i++) {
    const Element& element = elements_[i];
    if (element.kind == '=') {
      const Match found = match_text(element.text, text.substr(at));
      if (found != Match::yes) return found == Match::maybe && is_end ? Match::no : found;
      at += element.text.size();
    } else if (element.kind == '~') {
      const size_t from = at;
      while (at < text.size() && is_space(text[at])) at++;
      if (at - from > kMaxSpace) return Match::no;
      const bool is_last = i + 1 == elements_.size();
      if (at == text.size() && !is_last && !is_end) return Match::maybe;
    } else {
      size_t n = 0;
      std::string& into = element.kind == 'N'   ? out.name
                          : element.kind == 'I' ? out.id
                          : element.kind == 'K' ? out.key
                                                : out.type;
      const Match found = match_capture(i, text.substr(at), is_end, n, into);
      if (found != Match::yes) return found;
      at += n;
    }
  }
  length = at;
  return Match::yes;
}

}  // namespace rocmforge::chat
