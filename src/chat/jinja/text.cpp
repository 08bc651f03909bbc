#include "chat/jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <bitset>
#include <cstring>

#include "base/utf8.h"

namespace rocmforge::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

template <class F>
void for_each_character(std::string_view text, F f) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    f(step.code_point);
    at += step.n_bytes;
  }
}

char32_t lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

struct Expansion {
  char32_t from;
  std::string_view upper, title;
};
constexpr Expansion kExpansions[] = {
    {0xDF, "SS", "Ss"},     {0x149, "\u02bcN", "\u02bcN"}, {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"},   {0xFB02, "FL", "Fl"},          {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"}, {0xFB05, "ST", "St"},          {0xFB06, "ST", "St"},
};

void append_upper(std::string& out, char32_t c, bool title) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
    return;
  }
  for (const Expansion& e : kExpansions) {
    if (e.from == c) {
      out += title ? e.title : e.upper;
      return;
    }
  }
  const auto code = static_cast<utf8proc_int32_t>(c);
  append_utf8(out, static_cast<char32_t>(title ? utf8proc_totitle(code) : utf8proc_toupper(code)));
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else {
    append_utf8(out, lower(c));
  }
}

bool is_cased(char32_t c) {
  return is_lower(c) || is_upper(c) || is_title(c);
}

// Membership in a set of characters, in constant or logarithmic time.
class CharacterSet {
 public:
  explicit CharacterSet(std::string_view characters) {
    for_each_character(characters, [&](char32_t c) {
      if (c < 128) {
        ascii_.set(c);
      } else {
        others_.push_back(c);
      }
    });
    std::sort(others_.begin(), others_.end());
  }
  bool operator()(char32_t c) const {
    return c < 128 ? ascii_[c] : std::binary_search(others_.begin(), others_.end(), c);
  }

 private:
  std::bitset<128> ascii_;
  std::vector<char32_t> others_;
};

template <class InSet>
std::string_view strip_set(std::string_view text, Side side, const InSet& in_set) {
  while (side != Side::right && !text.empty()) {
    const Utf8Step step = decode_utf8(text, 0);
    if (!in_set(step.code_point)) break;
    text.remove_prefix(step.n_bytes);
  }
  while (side != Side::left && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) at--;
    if (!in_set(decode_utf8(text, at).code_point)) break;
    text = text.substr(0, at);
  }
  return text;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_alpha(char32_t c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  const utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit_like(char32_t c) {
  if (is_decimal(c)) return true;
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return is_decimal(c);
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_lower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}
bool is_upper(char32_t c) {
  return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_title(char32_t c) {
  return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 32 && c < 127;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_word_character(char32_t c) {
  return c == '_' || is_alpha(c) || is_numeric(c);
}

size_t count_characters(std::string_view text) {
  size_t n = 0;
  for (const char c : text) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return n;
}

size_t byte_of_character(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); index--) {
    at++;
    while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) at++;
  }
  return at;
}

std::string_view strip(std::string_view text, Side side) {
  return strip_set(text, side, is_space);
}
std::string_view strip(std::string_view text, Side side, std::string_view set) {
  return strip_set(text, side, CharacterSet(set));
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](char32_t c) { append_lower(out, c); });
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](char32_t c) { append_upper(out, c, false); });
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  for_each_character(text, [&](char32_t c) {
    if (out.empty()) {
      append_upper(out, c, true);
    } else {
      append_lower(out, c);
    }
  });
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool inside = false;  // a word
  for_each_character(text, [&](char32_t c) {
    if (inside) {
      append_lower(out, c);
    } else {
      append_upper(out, c, true);
    }
    inside = is_cased(c);
  });
  return out;
}

std::string to_swapped_case(std::string_view text) {
  std::string out;
  for_each_character(text, [&](char32_t c) {
    if (is_upper(c)) {
      append_lower(out, c);
    } else if (is_lower(c)) {
      append_upper(out, c, false);
    } else {
      append_utf8(out, c);
    }
  });
  return out;
}

std::string to_folded(std::string_view text) {
  std::string out;
  for_each_character(text, [&](char32_t c) {
    for (const Expansion& e : kExpansions) {
      if (e.from == c) {
        out += to_lower(e.upper);
        return;
      }
    }
    append_lower(out, c == 0x3C2 ? 0x3C3 : c == 0xB5 ? 0x3BC : c);
  });
  return out;
}

size_t find_text(std::string_view text, std::string_view what, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (what.empty()) return from;
  // memmem searches in linear time; std::string_view::find does not.
  const void* found = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_text(std::string_view text, std::string_view what) {
  if (what.empty()) return text.size();
  const auto found = find_all(text, what, 1, true);
  return found.empty() ? std::string_view::npos : found[0];
}

std::vector<size_t> find_all(std::string_view text, std::string_view what, size_t max, bool from_right) {
  std::vector<size_t> found;
  if (from_right) {  // mirrored, so that one linear search serves both ways
    const std::string mirrored_text(text.rbegin(), text.rend());
    const std::string mirrored_what(what.rbegin(), what.rend());
    found = find_all(mirrored_text, mirrored_what, max);
    for (size_t& at : found) at = text.size() - at - what.size();
    std::reverse(found.begin(), found.end());
    return found;
  }
  for (size_t at = 0; found.size() < max; at += what.size()) {
    at = find_text(text, what, at);
    if (at == std::string_view::npos) break;
    found.push_back(at);
  }
  return found;
}

size_t count_text(std::string_view text, std::string_view what) {
  if (what.empty()) return count_characters(text) + 1;
  size_t n = 0;
  for (size_t at = find_text(text, what); at != std::string_view::npos; at = find_text(text, what, at + what.size()))
    n++;
  return n;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    const char32_t c = step.code_point;
    size_t next = at + step.n_bytes;
    if ((c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029) {
      if (c == '\r' && next < text.size() && text[next] == '\n') next++;
      lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

}  // namespace rocmforge::jinja
