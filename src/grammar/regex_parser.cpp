#include "grammar/regex_parser.h"

#include <fmt/core.h>

#include <memory>
#include <optional>

#include "base/utf8.h"
#include "grammar/regex_lowering.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxNesting = 200;
constexpr uint32_t kMaxCount = 100'000;

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

int hex_value(char32_t c) {
  if (is_digit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
  return -1;
}

class Parser {
 public:
  Parser(std::string_view source, const RegexOptions& options) : source_(source), options_(options) {}

  Result<RegexTree> parse() {
    RegexTree tree = TRY(alternatives());
    if (at_ < source_.size()) return wrong("a ')' without its '('");
    return tree;
  }

 private:
  using Kind = RegexTree::Kind;

  bool done() const { return at_ >= source_.size(); }
  char32_t peek() const { return decode_utf8(source_, at_).code_point; }
  char32_t take() {
    const Utf8Step step = decode_utf8(source_, at_);
    at_ += step.n_bytes;
    return step.code_point;
  }
  bool take(std::string_view text) {
    if (!source_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  Error wrong(std::string_view what) const {
    return {ErrorCode::invalid_argument, fmt::format("regex: byte {}: {}", at_, what)};
  }
  Error refused(std::string_view what) const {
    return {ErrorCode::unsupported, fmt::format("regex: byte {}: {} are not supported", at_, what)};
  }

  Result<RegexTree> alternatives() {
    if (++nesting_ > kMaxNesting) {
      return Error{ErrorCode::limit_exceeded, fmt::format("regex: groups are nested more than {} deep", kMaxNesting)};
    }
    RegexTree out{.kind = Kind::either};
    do out.parts.push_back(TRY(sequence()));
    while (take("|"));
    nesting_--;
    if (out.parts.size() > 1) return out;
    RegexTree only = std::move(out.parts[0]);
    return only;
  }

  Result<RegexTree> sequence() {
    RegexTree out{.kind = Kind::sequence};
    while (!done() && peek() != '|' && peek() != ')') {
      RegexTree one = TRY(atom());
      const bool is_assertion = one.kind == Kind::begin || one.kind == Kind::end || one.kind == Kind::look;
      if (auto counts = TRY(quantifier())) {
        if (is_assertion) return wrong("nothing to repeat");
        RegexTree repeated{.kind = Kind::repeat, .least = counts->first, .most = counts->second};
        repeated.parts.push_back(std::move(one));
        one = std::move(repeated);
      }
      out.parts.push_back(std::move(one));
    }
    return out;
  }

  Result<std::optional<std::pair<uint32_t, uint32_t>>> quantifier() {
    using Counts = std::optional<std::pair<uint32_t, uint32_t>>;
    Counts out;
    if (take("*")) {
      out = {0, kUnbounded};
    } else if (take("+")) {
      out = {1, kUnbounded};
    } else if (take("?")) {
      out = {0, 1};
    } else if (!done() && peek() == '{') {
      const size_t start = at_++;
      const auto least = number();
      std::optional<uint32_t> most = least;
      bool is_well = least.has_value();
      if (is_well && take(",")) most = !done() && peek() == '}' ? kUnbounded : number();
      if (!is_well || !most || !take("}")) {
        at_ = start;  // a brace like any other character
        return Counts{};
      }
      if (*least > *most) return wrong("a count from more to less");
      if (*least > kMaxCount || (*most > kMaxCount && *most != kUnbounded)) {
        return Error{ErrorCode::limit_exceeded, fmt::format("regex: byte {}: a count above {}", at_, kMaxCount)};
      }
      out = {*least, *most};
    }
    if (out) {
      take("?");  // lazy: the same texts
      if (!done() && (peek() == '*' || peek() == '+' || peek() == '?')) return wrong("nothing to repeat");
    }
    return out;
  }

  std::optional<uint32_t> number() {
    if (done() || !is_digit(peek())) return {};
    uint64_t n = 0;
    while (!done() && is_digit(peek())) n = std::min<uint64_t>(n * 10 + (take() - '0'), kUnbounded - 1);
    return static_cast<uint32_t>(n);
  }

  RegexTree chars(CharSet set) const {
    return {.kind = Kind::chars, .set = options_.ignores_case ? with_both_cases(set) : std::move(set)};
  }

  Result<RegexTree> atom() {
    const char32_t c = take();
    switch (c) {
      case '^':
        return RegexTree{.kind = Kind::begin};
      case '$':
        return RegexTree{.kind = Kind::end};
      case '.':
        return RegexTree{.kind = Kind::chars, .set = options_.dot_is_all ? CharSet::all() : line_ends().complement()};
      case '(':
        return group();
      case '[':
        return bracket();
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        return wrong("nothing to repeat");
      case '{': {
        at_--;
        const size_t start = at_;
        const bool is_quantifier = TRY(quantifier()).has_value();
        at_ = start + 1;
        if (is_quantifier) return wrong("nothing to repeat");
        return chars(CharSet::of('{'));
      }
      default:
        return chars(CharSet::of(c));
    }
  }

  Result<RegexTree> group() {
    RegexTree out;
    bool is_look = false, is_negative = false;
    if (take("?=")) {
      is_look = true;
    } else if (take("?!")) {
      is_look = is_negative = true;
    } else if (source_.substr(at_).starts_with("?<=") || source_.substr(at_).starts_with("?<!")) {
      return refused("look-behinds");
    } else if (take("?<") || take("?P<")) {
      while (!done() && peek() != '>') take();
      if (!take(">")) return wrong("a group's name without its '>'");
    } else if (take("?") && !take(":")) {
      return refused("groups of this kind");
    }
    RegexTree inner = TRY(alternatives());
    if (!take(")")) return wrong("a '(' without its ')'");
    if (!is_look) return inner;
    out = {.kind = Kind::look, .is_negative = is_negative};
    out.parts.push_back(std::move(inner));
    return out;
  }

  // A set for \d and its like; nothing for other letters.
  Result<std::optional<CharSet>> class_escape(char32_t c) {
    switch (c) {
      case 'd':
        return std::optional(digit_chars());
      case 'D':
        return std::optional(digit_chars().complement());
      case 'w':
        return std::optional(word_chars());
      case 'W':
        return std::optional(word_chars().complement());
      case 's':
        return std::optional(space_chars());
      case 'S':
        return std::optional(space_chars().complement());
      case 'p':
      case 'P': {
        if (!take("{")) return wrong("\\p without its '{'");
        const size_t start = at_;
        const size_t end = source_.find('}', at_);
        if (end == std::string_view::npos) return wrong("\\p without its '}'");
        std::string_view name = source_.substr(start, end - start);
        at_ = end + 1;
        for (const std::string_view prefix : {"General_Category=", "gc="}) {
          if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
        }
        CharSet set = name == "Any" ? CharSet::all() : name == "ASCII" ? CharSet{{0, 0x7F}} : chars_of_category(name);
        if (set.empty()) return refused("properties such as this one");
        return std::optional(c == 'p' ? std::move(set) : set.complement());
      }
      default:
        return std::optional<CharSet>();
    }
  }

  Result<char32_t> hex(uint32_t n_digits) {
    char32_t out = 0;
    for (uint32_t i = 0; i < n_digits; i++) {
      const int digit = done() ? -1 : hex_value(peek());
      if (digit < 0) return wrong("a hexadecimal digit is missing");
      out = out * 16 + static_cast<char32_t>(digit);
      at_++;
    }
    return out;
  }

  Result<char32_t> unicode_escape() {
    char32_t out = 0;
    if (take("{")) {
      while (!done() && peek() != '}') {
        const int digit = hex_value(take());
        if (digit < 0 || (out = out * 16 + static_cast<char32_t>(digit)) > kMaxChar) return wrong("no code point");
      }
      if (!take("}")) return wrong("\\u{ without its '}'");
      return out;
    }
    out = TRY(hex(4));
    if (out >= 0xD800 && out < 0xDC00 && take("\\u")) {
      const char32_t low = TRY(hex(4));
      if (low < 0xDC00 || low > 0xDFFF) return wrong("half a pair of surrogates");
      out = 0x10000 + ((out - 0xD800) << 10) + (low - 0xDC00);
    }
    return out;
  }

  // Of the character after a backslash.
  Result<char32_t> character(char32_t c) {
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'v':
        return U'\v';
      case 'f':
        return U'\f';
      case 'x':
        return hex(2);
      case 'u':
        return unicode_escape();
      case 'c': {
        const char32_t letter = done() ? 0 : take();
        if ((letter | 32) < 'a' || (letter | 32) > 'z') return wrong("\\c without a letter");
        return letter % 32;
      }
      case '0':
        if (!done() && is_digit(peek())) return refused("octal escapes");
        return U'\0';
      default:
        if (c >= '1' && c <= '9') return refused("back references");
        if ((c | 32) >= 'a' && (c | 32) <= 'z') return wrong("a letter with a backslash that means nothing");
        return c;
    }
  }

  Result<RegexTree> escape() {
    if (done()) return wrong("a backslash at the end");
    const char32_t c = take();
    if (c == 'b' || c == 'B') return refused("word boundaries");
    if (c == 'k') return refused("back references");
    if (auto set = TRY(class_escape(c))) return chars(std::move(*set));
    return chars(CharSet::of(TRY(character(c))));
  }

  // One item of a class: a set, or a character.
  Result<std::pair<CharSet, std::optional<char32_t>>> class_item() {
    char32_t c = take();
    if (c == '\\') {
      if (done()) return wrong("a backslash at the end");
      c = take();
      if (auto set = TRY(class_escape(c))) return std::pair(std::move(*set), std::optional<char32_t>());
      c = c == 'b' ? U'\b' : c == '-' ? U'-' : TRY(character(c));
    }
    return std::pair(CharSet::of(c), std::optional(c));
  }

  Result<RegexTree> bracket() {
    const bool is_negative = take("^");
    std::vector<CharRange> ranges;
    while (true) {
      if (done()) return wrong("a '[' without its ']'");
      if (take("]")) break;
      const auto [set, first] = TRY(class_item());
      if (first && source_.substr(at_).starts_with("-") && !source_.substr(at_).starts_with("-]")) {
        at_++;
        if (done()) return wrong("a '[' without its ']'");
        const auto [other, last] = TRY(class_item());
        if (!last) return wrong("a range without an end");
        if (*first > *last) return wrong("a range from more to less");
        ranges.push_back({*first, *last});
      } else {
        ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
      }
    }
    CharSet out = CharSet::of_ranges(std::move(ranges));
    if (options_.ignores_case) out = with_both_cases(out);
    return RegexTree{.kind = Kind::chars, .set = is_negative ? out.complement() : std::move(out)};
  }

  std::string_view source_;
  const RegexOptions& options_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
};

}  // namespace

Result<Regex> parse_regex(std::string_view source, Spelling& spelling, const RegexOptions& options) {
  if (source.size() > kMaxRegexBytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("regex: {} bytes; at most {} are read", source.size(), kMaxRegexBytes)};
  }
  if (!is_valid_utf8(source)) return Error{ErrorCode::invalid_argument, "regex: not UTF-8"};
  const RegexTree tree = TRY(Parser(source, options).parse());
  const Regex out = TRY(lower_regex(tree, spelling, options.is_search));
  if (spelling.pool().is_exhausted()) return Error{ErrorCode::limit_exceeded, "regex: it needs too many states"};
  return out;
}

}  // namespace rocmforge::grammar
