#pragma once
// The bytes around a control token in a text that shows it. They never occur in UTF-8.

#include <string_view>

namespace rocmforge::tokenizer {

inline constexpr char kControlBegin = '\xFF', kControlEnd = '\xFE';
inline constexpr std::string_view kControlMarks = "\xFF\xFE";

}  // namespace rocmforge::tokenizer
