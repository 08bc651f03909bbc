#pragma once
// Unicode properties of characters, from utf8proc.

#include <string>
#include <string_view>

namespace rocmforge::tokenizer {

bool is_white_space(char32_t c);  // the property White_Space
bool is_punctuation(char32_t c);  // \p{P}
bool is_symbol(char32_t c);       // \p{S}
bool is_mark(char32_t c);         // \p{M}
bool is_digit(char32_t c);        // \d: a decimal digit
bool is_word(char32_t c);         // \w: letters, marks, decimal digits, connectors
bool is_control(char32_t c);      // control, format and private characters, not unassigned ones

char32_t lowercase(char32_t c);
void append_lowercase(std::string& out, std::string_view text);

}  // namespace rocmforge::tokenizer
