#pragma once
// Text as a parser of messages sees it: bytes, of which those of a control token carry a mark. So what a model writes
// as a token of its own can be told from the same letters in ordinary text.
//
// In a std::string a control token stands between kControlBegin and kControlEnd, bytes that UTF-8 never has.

#include <string>
#include <string_view>

namespace rocmforge::chat {

inline constexpr char kControlBegin = '\xFF', kControlEnd = '\xFE';

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
