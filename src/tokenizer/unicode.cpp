#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include "base/utf8.h"

namespace rocmforge::tokenizer {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_between(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t is = category(c);
  return is >= first && is <= last;
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x85 || is_between(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool is_punctuation(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}
bool is_symbol(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_SM, UTF8PROC_CATEGORY_SO);
}
bool is_mark(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}
bool is_digit(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_word(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_ND) || category(c) == UTF8PROC_CATEGORY_PC;
}

bool is_control(char32_t c) {
  return is_between(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

char32_t lowercase(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_lowercase(std::string& out, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    append_utf8(out, lowercase(step.code_point));
    at += step.n_bytes;
  }
}

}  // namespace rocmforge::tokenizer
