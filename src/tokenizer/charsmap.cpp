#include "tokenizer/charsmap.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"

namespace rocmforge::tokenizer {
namespace {

constexpr uint32_t base_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200u) >> 6);
}
constexpr bool ends_text(uint32_t unit) {
  return (unit >> 8) & 1;
}
constexpr uint32_t label_of(uint32_t unit) {
  return unit & 0x8000'00FFu;
}

Error bad_charsmap(std::string_view fact) {
  return {ErrorCode::tokenizer_vocabulary,
          fmt::format("tokenizer: key 'tokenizer.ggml.precompiled_charsmap': {}", fact)};
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Charsmap();
  if (bytes.size() > kMaxBytes) {
    return bad_charsmap(fmt::format("{} bytes, {} are allowed", bytes.size(), kMaxBytes));
  }
  if (bytes.size() < sizeof(uint32_t)) return bad_charsmap(fmt::format("{} bytes", bytes.size()));
  const uint32_t n = load_le<uint32_t>(bytes.data());
  const auto behind = bytes.subspan(sizeof n);
  if (n > behind.size() || n % sizeof(uint32_t) != 0) {
    return bad_charsmap(fmt::format("a table of {} bytes in {}", n, behind.size()));
  }
  Charsmap map;
  map.units_.resize(n / sizeof(uint32_t));
  for (size_t i = 0; i < map.units_.size(); i++) {
    map.units_[i] = load_le<uint32_t>(behind.data() + i * sizeof(uint32_t));
  }
  map.replacements_ = as_text(behind.subspan(n));
  // Every place in the replacements lies at most so far before a zero.
  for (size_t at = 0; at < map.replacements_.size();) {
    const size_t end = map.replacements_.find('\0', at);
    if (end == std::string::npos) return bad_charsmap("the last replacement does not end");
    if (end - at > kMaxReplacementBytes) {
      return bad_charsmap(fmt::format("a replacement of {} bytes, {} are allowed", end - at, kMaxReplacementBytes));
    }
    at = end + 1;
  }
  return map;
}

std::optional<Charsmap::Match> Charsmap::longest(std::string_view text, size_t at) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Match> best;
  const size_t end = std::min(text.size(), at + kMaxTextBytes);
  uint32_t node = base_of(units_[0]);
  for (size_t i = at; i < end; i++) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= base_of(unit);
    if (!ends_text(unit)) continue;
    if (node >= units_.size()) break;
    const uint32_t begin = units_[node] & 0x7FFF'FFFFu;
    if (begin >= replacements_.size()) break;
    best = Match{i - at + 1, std::string_view(replacements_.data() + begin)};
  }
  return best;
}

}  // namespace rocmforge::tokenizer
