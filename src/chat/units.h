#pragma once
// Text as the parser of messages sees it: bytes with a mark on those of control tokens. The mark distinguishes a
// control token from the same letters in ordinary text.
//
// In a std::string a control token stands between kControlBegin and kControlEnd, bytes that never occur in UTF-8.

#include <string>
#include <string_view>

#include "tokenizer/control_marks.h"

namespace rocmforge::chat {

using tokenizer::kControlBegin, tokenizer::kControlEnd;

using Unit = char16_t;  // a byte, or a byte of a control token
using Units = std::u16string;
using UnitView = std::u16string_view;

inline constexpr Unit kControl = 0x100;

constexpr char byte_of(Unit unit) {
  return static_cast<char>(unit & 0xFF);
}
constexpr bool is_control(Unit unit) {
  return (unit & kControl) != 0;
}
constexpr bool is_space(Unit unit) {
  return unit == ' ' || unit == '\t' || unit == '\r' || unit == '\n';
}
constexpr Unit unit_of(char c, bool control = false) {
  return static_cast<Unit>(static_cast<unsigned char>(c) | (control ? kControl : 0));
}

inline void append_bytes(std::string& out, UnitView units) {
  for (const Unit unit : units) out += byte_of(unit);
}

}  // namespace rocmforge::chat
