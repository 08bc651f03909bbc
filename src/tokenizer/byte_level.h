#pragma once
// GPT-2's spelling of bytes: each of the 256 bytes is one printable character, so that a vocabulary file can hold any
// text. Printable bytes are the code points of the same value; the other 68 are, in order, U+0100 and up.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocmforge::tokenizer {

char32_t spelled_byte(uint8_t byte);

// Appends `bytes` in that spelling.
void spell_bytes(std::string& out, std::string_view bytes);

// The bytes that `text` spells; nullopt if it has a character outside the 256.
std::optional<std::string> unspell_bytes(std::string_view text);

}  // namespace rocmforge::tokenizer
