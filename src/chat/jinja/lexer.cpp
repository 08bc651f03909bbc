#include "chat/jinja/lexer.h"

#include <fmt/core.h>

#include <array>
#include <optional>

#include "base/utf8.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

struct Operator {
  std::string_view text;
  TokenType type;
};
// Longer ones first.
constexpr auto kOperators = std::to_array<Operator>({
    {"//", TokenType::floor_divide}, {"**", TokenType::power},         {"==", TokenType::equal},
    {"!=", TokenType::not_equal},    {">=", TokenType::greater_equal}, {"<=", TokenType::less_equal},
    {"+", TokenType::add},           {"-", TokenType::subtract},       {"/", TokenType::divide},
    {"*", TokenType::multiply},      {"%", TokenType::modulo},         {"~", TokenType::tilde},
    {"[", TokenType::left_bracket},  {"]", TokenType::right_bracket},  {"(", TokenType::left_paren},
    {")", TokenType::right_paren},   {"{", TokenType::left_brace},     {"}", TokenType::right_brace},
    {">", TokenType::greater},       {"<", TokenType::less},           {"=", TokenType::assign},
    {".", TokenType::dot},           {":", TokenType::colon},          {"|", TokenType::pipe},
    {",", TokenType::comma},         {";", TokenType::semicolon},
});

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_digit_of(char c, int base) {
  if (base == 16) return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  return c >= '0' && c < '0' + base;
}

class Lexer {
 public:
  Lexer(std::string_view source, Offset& failed_at) : source_(source), failed_at_(failed_at) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TRY(root());
    add(TokenType::end, source_.size(), 0);
    return std::move(tokens_);
  }

 private:
  bool starts_with(std::string_view what) const { return source_.substr(at_).starts_with(what); }
  void add(TokenType type, size_t at, size_t n) {
    tokens_.push_back({type, static_cast<Offset>(at), source_.substr(at, n)});
  }
  Error fail(size_t at, std::string message) {
    failed_at_ = static_cast<Offset>(at);
    return Error{ErrorCode::template_syntax, std::move(message)};
  }
  size_t after_spaces(size_t at) const { return source_.size() - strip(source_.substr(at), Side::left).size(); }

  // The text before a tag that begins at `tag`, less what the tag's sign or the rules take away.
  void add_data(size_t tag, char sign, bool is_variable) {
    std::string_view data = source_.substr(at_, tag - at_);
    if (sign == '-') {
      data = strip(data, Side::right);
    } else if (sign != '+' && !is_variable) {
      const size_t line = data.rfind('\n') + 1;  // 0 when there is none
      if ((line > 0 || at_line_start_) && strip(data.substr(line), Side::left).empty()) data = data.substr(0, line);
    }
    if (!data.empty()) add(TokenType::data, at_, data.size());
  }

  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // Where a tag that begins with `open` and a word ends, or nothing: "{%- raw -%}". Sets the sign before the word.
  struct WordTag {
    size_t begin, end;
    char sign;
  };
  std::optional<WordTag> word_tag(size_t begin, std::string_view word, bool is_end) const {
    const char sign = sign_at(begin + 2);
    size_t at = after_spaces(begin + 2 + (sign != '\0'));
    if (!source_.substr(at).starts_with(word)) return std::nullopt;
    at = after_spaces(at + word.size());
    const std::string_view rest = source_.substr(at);
    if (rest.starts_with("-%}")) return WordTag{begin, after_spaces(at + 3), sign};
    if (is_end && rest.starts_with("+%}")) return WordTag{begin, at + 3, sign};
    if (rest.starts_with("%}\n") && is_end) return WordTag{begin, at + 3, sign};
    if (rest.starts_with("%}")) return WordTag{begin, at + 2, sign};
    return std::nullopt;
  }

  void advance_to(size_t end) {
    at_line_start_ = end > at_ && source_[end - 1] == '\n';
    at_ = end;
  }

  Result<void> root() {
    size_t tag = source_.find('{', at_);
    while (tag != std::string_view::npos &&
           (tag + 1 >= source_.size() || std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos)) {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string_view::npos) {
      add(TokenType::data, at_, source_.size() - at_);
      at_ = source_.size();
      return {};
    }
    if (source_[tag + 1] == '%') {
      if (const auto raw = word_tag(tag, "raw", false)) return raw_block(*raw);
    }
    const char sign = sign_at(tag + 2);
    const bool is_variable = source_[tag + 1] == '{';
    add_data(tag, sign, is_variable);
    advance_to(tag + 2 + (sign != '\0'));
    if (source_[tag + 1] == '#') return comment(tag);
    add(is_variable ? TokenType::variable_begin : TokenType::block_begin, tag, 2);
    return expression(is_variable);
  }

  Result<void> comment(size_t tag) {
    const size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos) return fail(tag, "this comment has no end");
    const char sign = close > at_ ? source_[close - 1] : '\0';
    size_t end = close + 2;
    if (sign == '-') {
      end = after_spaces(end);
    } else if (sign != '+' && end < source_.size() && source_[end] == '\n') {
      end++;
    }
    advance_to(end);
    return {};
  }

  Result<void> raw_block(const WordTag& open) {
    add_data(open.begin, open.sign, false);
    advance_to(open.end);
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
      if (const auto close = word_tag(tag, "endraw", true)) {
        add_data(tag, close->sign, false);
        advance_to(close->end);
        return {};
      }
    }
    return fail(open.begin, "this raw block has no end");
  }

  // The end of a tag at the present position: its length, or 0.
  size_t tag_end(bool is_variable) const {
    const std::string_view close = is_variable ? "}}" : "%}";
    if (starts_with(close)) return 2 + (!is_variable && source_.substr(at_ + 2).starts_with('\n'));
    if (source_.substr(at_ + 1).starts_with(close)) {
      if (source_[at_] == '-') return after_spaces(at_ + 3) - at_;
      if (source_[at_] == '+' && !is_variable) return 3;
    }
    return 0;
  }

  Result<void> expression(bool is_variable) {
    std::vector<char> open;  // the brackets still to be closed, as the characters that close them
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const size_t n = tag_end(is_variable)) {
          add(is_variable ? TokenType::variable_end : TokenType::block_end, at_, n);
          advance_to(at_ + n);
          return {};
        }
      }
      if (const size_t next = after_spaces(at_); next > at_) {
        at_ = next;
        continue;
      }
      TRY(token(open));
    }
    return {};  // the parser meets the end where it expects more
  }

  Result<void> token(std::vector<char>& open) {
    const char c = source_[at_];
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return string(c);
    if (const size_t n = identifier_length()) {
      add(TokenType::name, at_, n);
      at_ += n;
      return {};
    }
    for (const Operator& op : kOperators) {
      if (!starts_with(op.text)) continue;
      TRY(balance(c, open));
      add(op.type, at_, op.text.size());
      at_ += op.text.size();
      return {};
    }
    return fail(at_, fmt::format("unexpected character '{}'", source_.substr(at_, decode_utf8(source_, at_).n_bytes)));
  }

  Result<void> balance(char c, std::vector<char>& open) {
    if (c == '(') open.push_back(')');
    if (c == '[') open.push_back(']');
    if (c == '{') open.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) return fail(at_, fmt::format("unexpected '{}'", c));
      if (open.back() != c) return fail(at_, fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    return {};
  }

  size_t identifier_length() const {
    size_t end = at_;
    while (end < source_.size()) {
      const Utf8Step step = decode_utf8(source_, end);
      if (!is_word_character(step.code_point) || (end == at_ && is_decimal(step.code_point))) break;
      end += step.n_bytes;
    }
    return end - at_;
  }

  // Digits with single underscores between them, from `at`; the position after them.
  size_t after_digits(size_t at, int base) const {
    while (at < source_.size()) {
      const bool joined = source_[at] == '_' && at + 1 < source_.size() && is_digit_of(source_[at + 1], base);
      if (!joined && !is_digit_of(source_[at], base)) break;
      at += joined ? 2 : 1;
    }
    return at;
  }
  bool digit_at(size_t at) const { return at < source_.size() && is_digit(source_[at]); }

  Result<void> number() {
    size_t end = after_digits(at_, 10);
    bool is_real = false;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      size_t more = end;
      if (more < source_.size() && source_[more] == '.' && digit_at(more + 1)) {
        more = after_digits(more + 1, 10);
        is_real = true;
      }
      if (more < source_.size() && (source_[more] | 0x20) == 'e') {
        const size_t digits = more + 1 + (more + 1 < source_.size() && sign_at(more + 1) != '\0');
        if (digit_at(digits)) {
          more = after_digits(digits, 10);
          is_real = true;
        }
      }
      if (is_real) end = more;
    }
    if (!is_real && source_[at_] == '0') {
      end = at_ + 1;
      while (end < source_.size() &&
             (source_[end] == '0' || (source_[end] == '_' && source_.substr(end + 1).starts_with('0')))) {
        end++;
      }
      const char kind = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
      const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
      if (base != 0) {
        const size_t digits = after_digits(at_ + 2, base);
        if (digits > at_ + 2) end = digits;
      }
    }
    add(is_real ? TokenType::real : TokenType::integer, at_, end - at_);
    at_ = end;
    return {};
  }

  Result<void> string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return fail(at_, "this string has no end");
    add(TokenType::string, at_, end + 1 - at_);
    at_ = end + 1;
    return {};
  }

  std::string_view source_;
  Offset& failed_at_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool at_line_start_ = true;
};

std::optional<uint32_t> read_digits(std::string_view text, size_t at, size_t n, int base) {
  if (at + n > text.size()) return std::nullopt;
  uint32_t value = 0;
  for (const char c : text.substr(at, n)) {
    if (!is_digit_of(c, base)) return std::nullopt;
    value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

}  // namespace

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); i++) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') i++;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

Result<std::vector<Token>> tokenize(std::string_view source, Offset& failed_at) {
  return Lexer(source, failed_at).run();
}

Result<std::string> unescape(std::string_view quoted) {
  const std::string_view text = quoted.substr(1, quoted.size() - 2);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '\\') {
      out.push_back(text[i]);
      continue;
    }
    const char c = text[++i];  // the lexer saw to it that there is one
    static constexpr std::string_view kLetters = "abfnrtv\\'\"";
    static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      out.push_back(kMeanings[known]);
    } else if (c == '\n') {
      // a continued line
    } else if (c >= '0' && c <= '7') {
      size_t n = 1;
      while (n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7') n++;
      append_utf8(out, *read_digits(text, i, n, 8));
      i += n - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const auto code = read_digits(text, i + 1, n, 16);
      if (!code) return Error{ErrorCode::template_syntax, fmt::format("'\\{}' needs {} hexadecimal digits", c, n)};
      if (*code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
        return Error{ErrorCode::template_syntax, fmt::format("'\\{}{}' is no character", c, text.substr(i + 1, n))};
      }
      append_utf8(out, *code);
      i += n;
    } else if (c == 'N') {
      return Error{ErrorCode::template_syntax, "characters by name ('\\N{...}') are not supported"};
    } else {
      out.push_back('\\');
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace rocmforge::jinja
