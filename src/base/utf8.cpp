#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace rocmforge {
namespace {

struct Lead {
  uint8_t n_bytes;       // 0: not a lead byte
  uint8_t second_first;  // the allowed range of the second byte excludes overlong forms,
  uint8_t second_last;   // surrogates and values above U+10FFFF (Unicode table 3-7)
};

Lead classify(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many of the code point's bytes stand at text[at], beginning with `lead`, before one is wrong or missing.
size_t well_formed_bytes(std::string_view text, size_t at, Lead lead) {
  size_t n = 1;
  while (n < lead.n_bytes && at + n < text.size()) {
    const auto byte = static_cast<uint8_t>(text[at + n]);
    const uint8_t first = n == 1 ? lead.second_first : 0x80;
    const uint8_t last = n == 1 ? lead.second_last : 0xBF;
    if (byte < first || byte > last) break;
    n++;
  }
  return n;
}

}  // namespace

Utf8Step decode_utf8(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = classify(first);
  if (lead.n_bytes == 0) return {kReplacementCharacter, 1, false};
  const size_t n = well_formed_bytes(text, at, lead);
  if (n < lead.n_bytes) return {kReplacementCharacter, static_cast<uint8_t>(n), false};
  char32_t code_point = first & (0xFFu >> (lead.n_bytes + 1));
  for (size_t i = 1; i < n; i++) code_point = code_point << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3Fu);
  return {code_point, lead.n_bytes, true};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    // Most text is ASCII: eight bytes at a time.
    if (at + 8 <= text.size()) {
      uint64_t bytes;
      std::memcpy(&bytes, text.data() + at, 8);
      if ((bytes & 0x8080'8080'8080'8080u) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Step step = decode_utf8(text, at);
    if (!step.valid) return false;
    at += step.n_bytes;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    if (step.valid) {
      out.append(text.substr(at, step.n_bytes));
    } else {
      append_utf8(out, kReplacementCharacter);
    }
    at += step.n_bytes;
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  const size_t most = std::min<size_t>(3, text.size());
  for (size_t n = 1; n <= most; n++) {
    const size_t at = text.size() - n;
    const Lead lead = classify(static_cast<uint8_t>(text[at]));
    if (lead.n_bytes > n && well_formed_bytes(text, at, lead) == n) return n;
  }
  return 0;
}

}  // namespace rocmforge
