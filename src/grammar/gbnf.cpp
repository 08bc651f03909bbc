#include "grammar/gbnf.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "grammar/expression.h"
#include "grammar/spelling.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxNesting = 200;
constexpr uint32_t kMaxCount = 1'000'000;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  using Kind = Expression::Kind;

  GbnfParser(std::string_view source, Grammar& grammar, const FindToken& find_token)
      : source_(source), grammar_(grammar), chars_(grammar.pool, Spelling::Form::utf8), find_token_(find_token) {}

  Result<void> run() {
    skip_space();
    while (at_ < source_.size()) TRY(rule());
    for (const NamedRule& one : rules_) {
      if (!one.is_defined)
        return Error{ErrorCode::invalid_argument, fmt::format("gbnf: rule '{}' is not defined", one.name)};
    }
    const auto root = ids_.find("root");
    if (root == ids_.end()) return Error{ErrorCode::invalid_argument, "gbnf: there is no rule 'root'"};
    return lower_rules(grammar_, rules_, root->second);
  }

 private:
  Error wrong(std::string_view what, ErrorCode code = ErrorCode::invalid_argument) const {
    const auto line =
        1 + std::count(source_.begin(), source_.begin() + static_cast<ptrdiff_t>(std::min(at_, source_.size())), '\n');
    return {code, fmt::format("gbnf: line {}: {}", line, what)};
  }

  void skip_space() {
    while (at_ < source_.size()) {
      if (source_[at_] == '#') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (source_[at_] == ' ' || source_[at_] == '\t' || source_[at_] == '\n' || source_[at_] == '\r') {
        at_++;
      } else {
        return;
      }
    }
  }
  char peek() const { return at_ < source_.size() ? source_[at_] : '\0'; }
  bool take(std::string_view text) {
    if (!source_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  std::string_view name() {
    const size_t start = at_;
    while (at_ < source_.size() && is_name(source_[at_])) at_++;
    return source_.substr(start, at_ - start);
  }
  // Whether another rule begins here: a name and "::=".
  bool is_definition() {
    const size_t start = at_;
    const bool has_name = !name().empty();
    skip_space();
    const bool is_one = has_name && source_.substr(at_).starts_with("::=");
    at_ = start;
    return is_one;
  }

  uint32_t rule_id(std::string_view of) {
    const auto [at, is_new] = ids_.emplace(std::string(of), static_cast<uint32_t>(rules_.size()));
    if (is_new) rules_.push_back({.name = std::string(of)});
    return at->second;
  }

  Result<void> rule() {
    const std::string_view of = name();
    if (of.empty()) return wrong("expected the name of a rule");
    skip_space();
    if (!take("::=")) return wrong(fmt::format("expected '::=' after '{}'", of));
    skip_space();
    const uint32_t id = rule_id(of);
    if (rules_[id].is_defined) return wrong(fmt::format("rule '{}' is defined twice", of));
    Expression body = TRY(alternatives());
    rules_[id].body = std::move(body);
    rules_[id].is_defined = true;
    return {};
  }

  Result<Expression> alternatives() {
    if (++nesting_ > kMaxNesting) return wrong("groups are nested too deep", ErrorCode::limit_exceeded);
    Expression out{.kind = Kind::either};
    while (true) {
      out.parts.push_back(TRY(sequence()));
      if (!take("|")) break;
      skip_space();
    }
    nesting_--;
    if (out.parts.size() > 1) return out;
    Expression only = std::move(out.parts[0]);
    return only;
  }

  Result<Expression> sequence() {
    Expression out;
    while (at_ < source_.size() && peek() != '|' && peek() != ')' && !(is_name(peek()) && is_definition())) {
      Expression one = TRY(item());
      skip_space();
      while (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
        const auto [least, most] = TRY(counts());
        Expression repeated{.kind = Kind::repeat, .least = least, .most = most};
        repeated.parts.push_back(std::move(one));
        one = std::move(repeated);
        skip_space();
      }
      out.parts.push_back(std::move(one));
    }
    return out;
  }

  Result<uint32_t> number() {
    uint64_t n = 0;
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9')
      n = std::min<uint64_t>(n * 10 + static_cast<uint64_t>(source_[at_++] - '0'), kMaxCount + 1);
    if (at_ == start) return wrong("expected a number");
    if (n > kMaxCount) return wrong(fmt::format("a count above {}", kMaxCount), ErrorCode::limit_exceeded);
    return static_cast<uint32_t>(n);
  }

  Result<std::pair<uint32_t, uint32_t>> counts() {
    if (take("*")) return std::pair(0u, kUnbounded);
    if (take("+")) return std::pair(1u, kUnbounded);
    if (take("?")) return std::pair(0u, 1u);
    at_++;
    skip_space();
    const uint32_t least = peek() == ',' ? 0 : TRY(number());
    uint32_t most = least;
    skip_space();
    if (take(",")) {
      skip_space();
      most = peek() == '}' ? kUnbounded : TRY(number());
      skip_space();
    }
    if (!take("}")) return wrong("expected '}'");
    if (least > most) return wrong("a count from more to less");
    return std::pair(least, most);
  }

  Result<Expression> item() {
    if (peek() == '"') return literal();
    if (peek() == '[') return char_class();
    if (take(".")) return Expression{.kind = Kind::text, .text = chars_.any_char()};
    if (take("(")) {
      skip_space();
      Expression inner = TRY(alternatives());
      if (!take(")")) return wrong("expected ')'");
      return inner;
    }
    if (peek() == '<' || peek() == '!') return token();
    const std::string_view of = name();
    if (of.empty()) return wrong(fmt::format("unexpected '{}'", peek()));
    return Expression{.kind = Kind::rule, .symbol = rule_id(of)};
  }

  Result<char32_t> character() {
    const Utf8Step step = decode_utf8(source_, at_);
    at_ += step.n_bytes;
    if (step.code_point != '\\') return step.code_point;
    if (at_ >= source_.size()) return wrong("a backslash at the end");
    const char c = source_[at_++];
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
        return static_cast<char32_t>(c);
      default:
        return wrong(fmt::format("unknown escape '\\{}'", c));
    }
  }

  Result<char32_t> hex(uint32_t n_digits) {
    uint64_t out = 0;
    for (uint32_t i = 0; i < n_digits; i++) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (digit < 0) return wrong("a hexadecimal digit is missing");
      out = out * 16 + static_cast<uint64_t>(digit);
      at_++;
    }
    if (out > kMaxChar || (out >= 0xD800 && out <= 0xDFFF)) return wrong("no character has this number");
    return static_cast<char32_t>(out);
  }

  Result<Expression> literal() {
    at_++;
    std::string text;
    while (peek() != '"') {
      if (at_ >= source_.size() || peek() == '\n') return wrong("a literal without its end");
      append_utf8(text, TRY(character()));
    }
    at_++;
    return Expression{.kind = Kind::text, .text = chars_.literal(text)};
  }

  Result<Expression> char_class() {
    at_++;
    const bool is_negative = take("^");
    std::vector<CharRange> ranges;
    while (peek() != ']') {
      if (at_ >= source_.size()) return wrong("a class without its ']'");
      const char32_t first = TRY(character());
      char32_t last = first;
      if (peek() == '-' && at_ + 1 < source_.size() && source_[at_ + 1] != ']') {
        at_++;
        last = TRY(character());
        if (last < first) return wrong("a range from more to less");
      }
      ranges.push_back({first, last});
    }
    at_++;
    const CharSet set = CharSet::of_ranges(std::move(ranges));
    return Expression{.kind = Kind::text, .text = chars_.one_of(is_negative ? set.complement() : set)};
  }

  Result<Expression> token() {
    const bool is_negative = take("!");
    const size_t start = at_;
    if (!take("<")) return wrong("expected '<' after '!'");
    if (take("[")) {
      const uint32_t id = TRY(number());
      if (!take("]>")) return wrong("expected ']>'");
      if (!find_token_) return wrong("tokens by number need a model", ErrorCode::unsupported);
      return Expression{.kind = Kind::tokens, .symbol = grammar_.add_tokens({{static_cast<int32_t>(id)}, is_negative})};
    }
    while (at_ < source_.size() && peek() != '>' && peek() != '\n') at_++;
    if (!take(">")) return wrong("a token without its '>'");
    const std::string_view text = source_.substr(start, at_ - start);
    if (!find_token_) {
      if (is_negative) return wrong("tokens that are not this one need a model", ErrorCode::unsupported);
      return Expression{.kind = Kind::text, .text = chars_.literal(text)};
    }
    const auto id = find_token_(text);
    if (!id) return wrong(fmt::format("the model has no token '{}'", text));
    return Expression{.kind = Kind::tokens, .symbol = grammar_.add_tokens({{*id}, is_negative})};
  }

  std::string_view source_;
  Grammar& grammar_;
  Spelling chars_;
  const FindToken& find_token_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
  std::vector<NamedRule> rules_;
  std::map<std::string, uint32_t, std::less<>> ids_;
};

}  // namespace

Result<RuleId> add_gbnf(Grammar& grammar, std::string_view source, const FindToken& find_token) {
  if (source.size() > kMaxGrammarBytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("gbnf: {} bytes; at most {} are read", source.size(), kMaxGrammarBytes)};
  }
  if (!is_valid_utf8(source)) return Error{ErrorCode::invalid_argument, "gbnf: not UTF-8"};
  TRY(GbnfParser(source, grammar, find_token).run());
  return grammar.root();
}

}  // namespace rocmforge::grammar
