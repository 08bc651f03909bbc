#pragma once
// UTF-8: the one decoder every room uses. Overlong forms, surrogates and values above U+10FFFF are invalid.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rocmforge {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Step {
  char32_t code_point = 0;  // U+FFFD when !valid
  uint8_t n_bytes = 1;      // bytes consumed; for invalid input the length of the maximal subpart, at least 1
  bool valid = false;
};

// Decodes the code point at text[at]. REQUIRES: at < text.size()
Utf8Step decode_utf8(std::string_view text, size_t at);

void append_utf8(std::string& out, char32_t code_point);

bool is_valid_utf8(std::string_view text);

// Invalid parts become U+FFFD, one per maximal subpart (what browsers and Python do).
std::string to_valid_utf8(std::string_view text);

// The number of bytes at the end of `text` that begin an incomplete code point: 0 to 3.
size_t incomplete_utf8_suffix(std::string_view text);

}  // namespace rocmforge
