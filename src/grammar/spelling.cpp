#include "grammar/spelling.h"

#include <span>

#include "base/json.h"
#include "base/utf8.h"

namespace rocmforge::grammar {
namespace {

// Numbers of n digits from `low` to `high`, written by `write(place, first, last)` digit by digit.
template <class Write>
Regex digits_between(RegexPool& pool, std::span<const uint32_t> low, std::span<const uint32_t> high,
                     std::span<const uint32_t> least, std::span<const uint32_t> most, size_t place,
                     const Write& write) {
  if (place + 1 == low.size()) return write(place, low[place], high[place]);
  const auto rest = [&](std::span<const uint32_t> from, std::span<const uint32_t> to) {
    return digits_between(pool, from, to, least, most, place + 1, write);
  };
  const auto is_rest = [&](std::span<const uint32_t> digits, std::span<const uint32_t> of) {
    return std::equal(digits.begin() + static_cast<ptrdiff_t>(place) + 1, digits.end(),
                      of.begin() + static_cast<ptrdiff_t>(place) + 1);
  };
  uint32_t first = low[place], last = high[place];
  if (first == last) return pool.concat(write(place, first, last), rest(low, high));
  std::vector<Regex> parts;
  if (!is_rest(low, least)) parts.push_back(pool.concat(write(place, first++, low[place]), rest(low, most)));
  bool has_end = false;
  if (!is_rest(high, most)) has_end = true, last--;
  if (first <= last) parts.push_back(pool.concat(write(place, first, last), rest(least, most)));
  if (has_end) parts.push_back(pool.concat(write(place, high[place], high[place]), rest(least, high)));
  return pool.either(std::move(parts));
}

Regex utf8_between(RegexPool& pool, char32_t first, char32_t last) {
  constexpr char32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, kMaxChar};
  std::vector<Regex> parts;
  for (const char32_t end : kLast) {
    if (first > end) continue;
    std::string low, high;
    append_utf8(low, first);
    append_utf8(high, std::min(last, end));
    std::vector<uint32_t> a, b, least(low.size(), 0x80), most(low.size(), 0xBF);
    for (const char c : low) a.push_back(static_cast<uint8_t>(c));
    for (const char c : high) b.push_back(static_cast<uint8_t>(c));
    parts.push_back(digits_between(pool, a, b, least, most, 0, [&](size_t, uint32_t from, uint32_t to) {
      return pool.bytes(byte_range(static_cast<uint8_t>(from), static_cast<uint8_t>(to)));
    }));
    if (last <= end) break;
    first = end + 1;
  }
  return pool.either(std::move(parts));
}

Regex hex_digit(RegexPool& pool, uint32_t first, uint32_t last) {
  ByteSet set{};
  for (uint32_t d = first; d <= last; d++) {
    for (const char c : {"0123456789abcdef"[d], "0123456789ABCDEF"[d]}) {
      set[static_cast<uint8_t>(c) >> 6] |= uint64_t{1} << (static_cast<uint8_t>(c) & 63);
    }
  }
  return pool.bytes(set);
}

// \uXXXX
Regex unit_between(RegexPool& pool, uint32_t first, uint32_t last) {
  std::vector<uint32_t> a, b;
  for (int shift = 12; shift >= 0; shift -= 4) {
    a.push_back(first >> shift & 15);
    b.push_back(last >> shift & 15);
  }
  const std::vector<uint32_t> least(4, 0), most(4, 15);
  const Regex digits = digits_between(pool, a, b, least, most, 0,
                                      [&](size_t, uint32_t from, uint32_t to) { return hex_digit(pool, from, to); });
  return pool.concat(pool.literal("\\u"), digits);
}

Regex pair_between(RegexPool& pool, char32_t first, char32_t last) {
  const std::vector<uint32_t> a = {static_cast<uint32_t>(first - 0x10000) >> 10, (first - 0x10000) & 0x3FF};
  const std::vector<uint32_t> b = {static_cast<uint32_t>(last - 0x10000) >> 10, (last - 0x10000) & 0x3FF};
  const std::vector<uint32_t> least = {0, 0}, most = {0x3FF, 0x3FF};
  return digits_between(pool, a, b, least, most, 0, [&](size_t place, uint32_t from, uint32_t to) {
    const uint32_t base = place == 0 ? 0xD800 : 0xDC00;
    return unit_between(pool, base + from, base + to);
  });
}

}  // namespace

Regex Spelling::one_of(const CharSet& set) {
  std::vector<std::pair<char32_t, char32_t>> key;
  for (const CharRange& r : set.ranges()) key.emplace_back(r.first, r.last);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const Regex out = form_ == Form::utf8 ? utf8(set) : json(set);
  known_.emplace(std::move(key), out);
  return out;
}

Regex Spelling::utf8(const CharSet& set) {
  std::vector<Regex> parts;
  for (const CharRange& r : set.ranges()) parts.push_back(utf8_between(*pool_, r.first, r.last));
  return pool_->either(std::move(parts));
}

Regex Spelling::json(const CharSet& set) {
  static const CharSet kRaw = CharSet{{0x20, '!'}, {'#', '['}, {']', kMaxChar}};
  constexpr std::pair<char, char> kShort[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'\b', 'b'},
                                              {'\f', 'f'}, {'\n', 'n'},  {'\r', 'r'}, {'\t', 't'}};
  std::vector<Regex> parts = {utf8(set.intersect(kRaw))};
  std::vector<Regex> letters;
  for (const auto& [c, letter] : kShort) {
    if (set.contains(static_cast<char32_t>(c))) letters.push_back(pool_->byte(static_cast<uint8_t>(letter)));
  }
  if (!letters.empty()) parts.push_back(pool_->concat(pool_->byte('\\'), pool_->either(std::move(letters))));
  for (const CharRange& r : set.ranges()) {
    if (r.first <= 0xFFFF) parts.push_back(unit_between(*pool_, r.first, std::min<char32_t>(r.last, 0xFFFF)));
    if (r.last > 0xFFFF) parts.push_back(pair_between(*pool_, std::max<char32_t>(r.first, 0x10000), r.last));
  }
  return pool_->either(std::move(parts));
}

Regex Spelling::literal(std::string_view text) {
  std::vector<Regex> chars;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    chars.push_back(one_of(CharSet::of(step.code_point)));
    at += step.n_bytes;
  }
  Regex out = kEmptyText;
  for (size_t i = chars.size(); i-- > 0;) out = pool_->concat(chars[i], out);
  return out;
}

bool Spelling::matches(Regex r, std::string_view text) const {
  if (form_ == Form::utf8) return pool_->matches(r, text);
  std::string spelled;
  append_json_string(spelled, text);
  return pool_->matches(r, std::string_view(spelled).substr(1, spelled.size() - 2));
}

}  // namespace rocmforge::grammar
