// A grammar, a zero byte, and a text: reading it byte by byte, in pieces and after a rollback is the same, and the mask
// over all bytes is what can follow.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "grammar/compile.h"
#include "grammar/matcher.h"

namespace {

using namespace rocmforge;
using namespace rocmforge::grammar;

std::shared_ptr<const TokenTrie> all_bytes() {
  static std::vector<std::string> texts;
  for (int b = 0; texts.size() < 256; b++) texts.emplace_back(1, static_cast<char>(b));
  static const auto kTrie = std::make_shared<const TokenTrie>(
      256, [](int32_t id) -> std::string_view { return texts[static_cast<size_t>(id)]; }, std::vector<int32_t>{});
  return kTrie;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1024) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  if (zero == std::string_view::npos) return 0;
  const auto made = compile({.notation = Notation::gbnf, .text = std::string(input.substr(0, zero))});
  if (!made.ok()) return 0;
  const std::string_view text = input.substr(zero + 1, 64);
  Matcher whole(*made), single(*made, all_bytes());
  const auto n = whole.accept(text);
  if (!n.ok()) return 0;
  for (size_t i = 0; i < text.size(); i++) {
    const auto mask = single.mask();
    if (!mask.ok()) return 0;
    const auto token = static_cast<int32_t>(static_cast<uint8_t>(text[i]));
    const bool is_next = (*mask)->contains(token);
    CHECK(is_next == (i < *n));
    const auto allowed = single.allows(token);
    CHECK(allowed.ok() && *allowed == is_next);
    if (!is_next) return 0;
    const size_t before = single.snapshot();
    CHECK(single.accept(token).ok());
    single.rollback(before);
    CHECK(single.accept(token).ok());
  }
  CHECK(single.is_end() == whole.is_end());
  return 0;
}
