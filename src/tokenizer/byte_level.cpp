#include "tokenizer/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace rocmforge::tokenizer {
namespace {

struct Spelling {
  std::array<uint16_t, 256> of_byte{};
  std::array<int16_t, 0x144> byte_of{};  // -1: no byte is spelled so
};

constexpr bool prints(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr Spelling make_spelling() {
  Spelling s;
  for (auto& byte : s.byte_of) byte = -1;
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; byte++) {
    const uint16_t code_point = prints(byte) ? static_cast<uint16_t>(byte) : next++;
    s.of_byte[byte] = code_point;
    s.byte_of[code_point] = static_cast<int16_t>(byte);
  }
  return s;
}

constexpr Spelling kSpelling = make_spelling();

}  // namespace

char32_t spelled_byte(uint8_t byte) {
  return kSpelling.of_byte[byte];
}

void spell_bytes(std::string& out, std::string_view bytes) {
  for (const unsigned char byte : bytes) append_utf8(out, kSpelling.of_byte[byte]);
}

std::optional<std::string> unspell_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    if (!step.valid || step.code_point >= kSpelling.byte_of.size()) return std::nullopt;
    const int16_t byte = kSpelling.byte_of[step.code_point];
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    at += step.n_bytes;
  }
  return out;
}

}  // namespace rocmforge::tokenizer
