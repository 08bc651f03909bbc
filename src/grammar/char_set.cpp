#include "grammar/char_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>

namespace rocmforge::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// By utf8proc's number of a category.
constexpr std::array<const char*, 30> kCategories = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                     "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                     "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kLongNames = {{{"Letter", "L"},
                                                                                       {"Mark", "M"},
                                                                                       {"Number", "N"},
                                                                                       {"Punctuation", "P"},
                                                                                       {"Symbol", "S"},
                                                                                       {"Separator", "Z"},
                                                                                       {"Other", "C"},
                                                                                       {"Uppercase_Letter", "Lu"},
                                                                                       {"Lowercase_Letter", "Ll"},
                                                                                       {"Decimal_Number", "Nd"},
                                                                                       {"digit", "Nd"},
                                                                                       {"Space_Separator", "Zs"},
                                                                                       {"Alphabetic", "L"},
                                                                                       {"Control", "Cc"}}};

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) : ranges_(ranges) {
  normalise();
}

void CharSet::normalise() {
  std::vector<CharRange> cut;
  for (const CharRange& r : ranges_) {
    if (r.first < kFirstSurrogate) cut.push_back({r.first, std::min<char32_t>(r.last, kFirstSurrogate - 1)});
    if (r.last > kLastSurrogate) {
      cut.push_back({std::max<char32_t>(r.first, kLastSurrogate + 1), std::min(r.last, kMaxChar)});
    }
  }
  std::erase_if(cut, [](const CharRange& r) { return r.first > r.last; });
  std::ranges::sort(cut, {}, &CharRange::first);
  ranges_.clear();
  for (const CharRange& r : cut) {
    // Ranges on both sides of the surrogates stay apart.
    if (!ranges_.empty() && r.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, r.last);
    } else {
      ranges_.push_back(r);
    }
  }
}

void CharSet::add(char32_t first, char32_t last) {
  ranges_.push_back({first, last});
  normalise();
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalise();
}

CharSet CharSet::complement() const {
  CharSet out;
  char32_t next = 0;
  for (const CharRange& r : ranges_) {
    if (r.first > next) out.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kMaxChar) out.ranges_.push_back({next, kMaxChar});
  out.normalise();
  return out;
}

CharSet CharSet::intersect(const CharSet& other) const {
  CharSet out;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const CharRange &a = ranges_[i], &b = other.ranges_[j];
    const CharRange both{std::max(a.first, b.first), std::min(a.last, b.last)};
    if (both.first <= both.last) out.ranges_.push_back(both);
    a.last < b.last ? i++ : j++;
  }
  out.normalise();
  return out;
}

bool CharSet::contains(char32_t c) const {
  const auto after = std::ranges::upper_bound(ranges_, c, {}, &CharRange::first);
  return after != ranges_.begin() && c <= std::prev(after)->last;
}

CharSet digit_chars() {
  return {{'0', '9'}};
}
CharSet word_chars() {
  return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
}
CharSet space_chars() {
  return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CharSet line_ends() {
  return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
}
CharSet hex_digits() {
  return {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
}

CharSet with_both_cases(const CharSet& set) {
  constexpr char32_t kMaxFolded = 0x24FF;  // beyond it, cases are rare
  std::vector<CharRange> more;
  for (const CharRange& r : set.ranges()) {
    for (char32_t c = r.first; c <= std::min(r.last, kMaxFolded); c++) {
      const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
      const auto upper = static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
      if (lower != c) more.push_back({lower, lower});
      if (upper != c) more.push_back({upper, upper});
    }
  }
  CharSet out = set;
  out.add(CharSet::of_ranges(std::move(more)));
  return out;
}

CharSet chars_of_category(std::string_view name) {
  for (const auto& [longer, shorter] : kLongNames) {
    if (name == longer) name = shorter;
  }
  if (name.empty() || name.size() > 2) return {};
  static std::mutex mutex;
  static std::map<std::string, CharSet, std::less<>> found;
  const std::lock_guard lock(mutex);
  if (const auto at = found.find(name); at != found.end()) return at->second;
  std::array<bool, kCategories.size()> wanted{};
  bool any = false;
  for (size_t i = 0; i < kCategories.size(); i++) any |= wanted[i] = std::string_view(kCategories[i]).starts_with(name);
  if (!any) return {};
  std::vector<CharRange> ranges;
  for (char32_t c = 0; c <= kMaxChar; c++) {
    const auto category = static_cast<size_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    if (category >= wanted.size() || !wanted[category]) continue;
    if (!ranges.empty() && ranges.back().last + 1 == c) {
      ranges.back().last = c;
    } else {
      ranges.push_back({c, c});
    }
  }
  return found.emplace(std::string(name), CharSet::of_ranges(std::move(ranges))).first->second;
}

CharSet CharSet::of_ranges(std::vector<CharRange> ranges) {
  CharSet out;
  out.ranges_ = std::move(ranges);
  out.normalise();
  return out;
}

}  // namespace rocmforge::grammar
