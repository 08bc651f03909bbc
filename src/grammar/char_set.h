#pragma once
// Sets of Unicode scalar values, as sorted ranges. Surrogates are in no set.

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace rocmforge::grammar {

inline constexpr char32_t kMaxChar = 0x10FFFF;

struct CharRange {
  char32_t first = 0, last = 0;
  friend bool operator==(const CharRange&, const CharRange&) = default;
};

class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  static CharSet all() { return CharSet{{0, kMaxChar}}; }
  static CharSet of_ranges(std::vector<CharRange> ranges);
  static CharSet of(char32_t c) { return CharSet{{c, c}}; }

  // Takes O(ranges): build large sets from sorted ranges.
  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet intersect(const CharSet& other) const;
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CharRange>& ranges() const { return ranges_; }
  friend bool operator==(const CharSet&, const CharSet&) = default;

 private:
  void normalise();
  std::vector<CharRange> ranges_;
};

CharSet digit_chars();  // 0-9
CharSet word_chars();   // [A-Za-z0-9_]
CharSet space_chars();  // \s of ECMA-262
CharSet line_ends();    // the characters that . does not match
CharSet hex_digits();   // [0-9A-Fa-f]
CharSet with_both_cases(const CharSet& set);

// The general category or the group of that name ("L", "Lu", "Letter", ...); empty for an unknown name.
CharSet chars_of_category(std::string_view name);

}  // namespace rocmforge::grammar
