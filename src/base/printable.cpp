#include "base/printable.h"

#include <fmt/core.h>

#include <utility>

#include "base/utf8.h"

namespace rocmforge {
namespace {

bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0x2028 || c == 0x2029;
}

// What stands for the character at text[at]; empty: the character itself.
std::string shown(std::string_view text, size_t at, const Utf8Step& step) {
  if (step.valid && !is_control(step.code_point)) return "";
  if (step.valid && step.code_point >= 0x80) return fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(step.code_point));
  std::string out;
  for (size_t i = 0; i < step.n_bytes; i++) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[at + i]));
  return out;
}

}  // namespace

std::string printable(std::string_view text, size_t max_columns) {
  std::string out;
  size_t n_columns = 0;
  for (size_t at = 0; at < text.size();) {
    if (n_columns >= max_columns) return out + "…";
    const Utf8Step step = decode_utf8(text, at);
    const std::string instead = text[at] == '\n' ? "\\n" : text[at] == '\t' ? "\\t" : shown(text, at, step);
    out += instead.empty() ? text.substr(at, step.n_bytes) : std::string_view(instead);
    n_columns += instead.empty() ? 1 : instead.size();
    at += step.n_bytes;
  }
  return out;
}

std::string PrintableStream::push(std::string_view piece) {
  std::string text = std::exchange(held_, {});
  text += piece;
  held_ = text.substr(text.size() - incomplete_utf8_suffix(text));
  text.resize(text.size() - held_.size());
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    const bool passes = text[at] == '\n' || text[at] == '\t';
    const std::string instead = passes ? "" : shown(text, at, step);
    out += instead.empty() ? std::string_view(text).substr(at, step.n_bytes) : std::string_view(instead);
    at += step.n_bytes;
  }
  return out;
}

std::string PrintableStream::finish() {
  return printable(std::exchange(held_, {}));
}

}  // namespace rocmforge
