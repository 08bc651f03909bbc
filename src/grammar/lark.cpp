#include "grammar/lark.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "grammar/expression.h"
#include "grammar/gbnf.h"
#include "grammar/regex_parser.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kMaxNesting = 200;
constexpr uint32_t kMaxCount = 100'000;

constexpr std::pair<std::string_view, const char*> kCommon[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9A-Fa-f]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"NUMBER", "[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_terminal_name(std::string_view name) {
  const size_t letter = name.find_first_not_of('_');
  return letter != std::string_view::npos && name[letter] >= 'A' && name[letter] <= 'Z';
}

class LarkParser {
 public:
  using Kind = Expression::Kind;

  LarkParser(std::string_view source, Spelling& chars) : source_(source), chars_(chars) {}

  // The rules; the last one is the root.
  Result<std::vector<NamedRule>> run() {
    // What is ignored is known before rules are read, which put it between terminals.
    ignored_ = rule_id("%ignore");
    rules_[ignored_].is_defined = true;
    Expression ignored{.kind = Kind::either};
    for (skip_space(); at_ < source_.size(); skip_space()) {
      if (take("%ignore")) {
        in_terminal_ = true;
        ignored.parts.push_back(TRY(alternatives()));
      } else if (take("%import")) {
        TRY(import());
      } else if (peek() == '%') {
        return wrong("only %import and %ignore are supported", ErrorCode::unsupported);
      } else {
        TRY(rule());
      }
    }
    Expression repeated{.kind = Kind::repeat, .least = 0, .most = kUnbounded};
    repeated.parts.push_back(std::move(ignored));
    rules_[ignored_].body = std::move(repeated);
    const auto start = ids_.find("start");
    if (start == ids_.end()) return Error{ErrorCode::invalid_argument, "lark: there is no rule 'start'"};
    Expression root;
    root.parts.push_back({.kind = Kind::rule, .symbol = start->second});
    root.parts.push_back({.kind = Kind::rule, .symbol = ignored_});
    rules_.push_back({.name = "%root", .body = std::move(root), .is_defined = true});
    for (const NamedRule& one : rules_) {
      if (!one.is_defined)
        return Error{ErrorCode::invalid_argument, fmt::format("lark: '{}' is not defined", one.name)};
    }
    return std::move(rules_);
  }

 private:
  Error wrong(std::string_view what, ErrorCode code = ErrorCode::invalid_argument) const {
    const auto end = source_.begin() + static_cast<ptrdiff_t>(std::min(at_, source_.size()));
    return {code, fmt::format("lark: line {}: {}", 1 + std::count(source_.begin(), end, '\n'), what)};
  }
  void skip_space() {
    while (at_ < source_.size()) {
      if (source_.substr(at_).starts_with("//")) {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (std::string_view(" \t\r\n").find(source_[at_]) != std::string_view::npos) {
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
  Result<uint32_t> number() {
    uint64_t n = 0;
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9')
      n = std::min<uint64_t>(n * 10 + static_cast<uint64_t>(source_[at_++] - '0'), kMaxCount + 1);
    if (at_ == start) return wrong("expected a number");
    if (n > kMaxCount) return wrong(fmt::format("a count above {}", kMaxCount), ErrorCode::limit_exceeded);
    return static_cast<uint32_t>(n);
  }
  uint32_t rule_id(std::string_view of) {
    const auto [at, is_new] = ids_.emplace(std::string(of), static_cast<uint32_t>(rules_.size()));
    if (is_new) rules_.push_back({.name = std::string(of)});
    return at->second;
  }
  // Whether a definition begins here: a name, perhaps a priority, and a colon.
  bool is_definition() {
    const size_t start = at_;
    if (peek() == '?' || peek() == '!') at_++;
    bool is_one = !name().empty();
    if (take(".")) {
      while ((peek() >= '0' && peek() <= '9') || peek() == '-') at_++;
    }
    while (peek() == ' ' || peek() == '\t') at_++;
    is_one = is_one && peek() == ':';
    at_ = start;
    return is_one;
  }

  Result<void> import() {
    skip_space();
    const std::string_view library = name();
    if (library != "common" || !take("."))
      return wrong("only terminals of 'common' can be imported", ErrorCode::unsupported);
    const auto add = [&](std::string_view of, std::string_view as) -> Result<void> {
      const auto known = std::ranges::find(kCommon, of, [](const auto& one) { return one.first; });
      if (known == std::end(kCommon))
        return wrong(fmt::format("'common' has no terminal '{}' here", of), ErrorCode::unsupported);
      const uint32_t id = rule_id(as);
      rules_[id].body = {.kind = Kind::text, .text = TRY(parse_regex(known->second, chars_))};
      rules_[id].is_defined = true;
      return {};
    };
    if (take("(")) {
      do {
        skip_space();
        const std::string_view of = name();
        TRY(add(of, of));
        skip_space();
      } while (take(","));
      if (!take(")")) return wrong("expected ')'");
      return {};
    }
    const std::string_view of = name();
    while (peek() == ' ' || peek() == '\t') at_++;
    std::string_view as = of;
    if (take("->")) {
      skip_space();
      as = name();
    }
    return add(of, as);
  }

  Result<void> rule() {
    if (peek() == '?' || peek() == '!') at_++;
    const std::string_view of = name();
    if (of.empty()) return wrong("expected the name of a rule");
    if (peek() == '{') return wrong("templates are not supported", ErrorCode::unsupported);
    if (take(".")) {
      take("-");
      TRY(number());
    }
    skip_space();
    if (!take(":")) return wrong(fmt::format("expected ':' after '{}'", of));
    const uint32_t id = rule_id(of);
    if (rules_[id].is_defined) return wrong(fmt::format("'{}' is defined twice", of));
    in_terminal_ = is_terminal_name(of);
    Expression body = TRY(alternatives());
    rules_[id].body = std::move(body);
    rules_[id].is_defined = true;
    return {};
  }

  Result<Expression> alternatives() {
    if (++nesting_ > kMaxNesting) return wrong("groups are nested too deep", ErrorCode::limit_exceeded);
    Expression out{.kind = Kind::either};
    skip_space();
    do {
      skip_space();
      out.parts.push_back(TRY(sequence()));
    } while (take("|"));
    nesting_--;
    if (out.parts.size() > 1) return out;
    Expression only = std::move(out.parts[0]);
    return only;
  }

  Result<Expression> sequence() {
    Expression out;
    for (skip_space(); at_ < source_.size(); skip_space()) {
      if (peek() == '|' || peek() == ')' || peek() == ']' || peek() == '%') break;
      if ((is_name(peek()) || peek() == '?' || peek() == '!') && is_definition()) break;
      if (take("->")) {  // the name of an alternative
        skip_space();
        name();
        continue;
      }
      out.parts.push_back(TRY(repeated(TRY(item()))));
    }
    return out;
  }

  Result<Expression> repeated(Expression one) {
    while (true) {
      std::optional<std::pair<uint32_t, uint32_t>> counts;
      if (take("*")) {
        counts = {0, kUnbounded};
      } else if (take("+")) {
        counts = {1, kUnbounded};
      } else if (peek() == '?' && !is_definition()) {
        at_++;
        counts = {0, 1};
      } else if (take("~")) {
        skip_space();
        const uint32_t least = TRY(number());
        counts = {least, take("..") ? TRY(number()) : least};
        if (counts->first > counts->second) return wrong("a count from more to less");
      }
      if (!counts) return one;
      Expression out{.kind = Kind::repeat, .least = counts->first, .most = counts->second};
      out.parts.push_back(std::move(one));
      one = std::move(out);
    }
  }

  // A terminal in a rule: what is ignored may stand in front of it.
  Expression terminal(Expression text) const {
    if (in_terminal_) return text;
    Expression out;
    out.parts.push_back({.kind = Kind::rule, .symbol = ignored_});
    out.parts.push_back(std::move(text));
    return out;
  }

  Result<Expression> item() {
    if (take("(")) {
      Expression inner = TRY(alternatives());
      if (!take(")")) return wrong("expected ')'");
      return inner;
    }
    if (take("[")) {
      Expression out{.kind = Kind::repeat, .least = 0, .most = 1};
      out.parts.push_back(TRY(alternatives()));
      if (!take("]")) return wrong("expected ']'");
      return out;
    }
    if (peek() == '"') return string();
    if (peek() == '/') return regex();
    const std::string_view of = name();
    if (of.empty()) return wrong(fmt::format("unexpected '{}'", peek()));
    if (peek() == '{') return wrong("templates are not supported", ErrorCode::unsupported);
    Expression out{.kind = Kind::rule, .symbol = rule_id(of)};
    return is_terminal_name(of) ? terminal(std::move(out)) : out;
  }

  Result<std::string> quoted() {
    const size_t start = at_++;
    while (peek() != '"') {
      if (at_ >= source_.size() || peek() == '\n') return wrong("a string without its end");
      at_ += peek() == '\\' ? 2 : 1;
    }
    at_++;
    std::string out;
    const std::string_view inner = source_.substr(start + 1, at_ - start - 2);
    for (size_t i = 0; i < inner.size(); i++) {
      if (inner[i] != '\\' || i + 1 == inner.size()) {
        out += inner[i];
        continue;
      }
      const char c = inner[++i];
      const auto hex = [&](size_t n) {
        uint32_t value = 0;
        for (size_t k = 0; k < n && i + 1 < inner.size(); k++) {
          const char d = inner[++i];
          value = value * 16 + static_cast<uint32_t>(d <= '9' ? d - '0' : (d | 32) - 'a' + 10) % 16;
        }
        append_utf8(out, value > kMaxChar || (value >= 0xD800 && value <= 0xDFFF) ? kReplacementCharacter : value);
      };
      if (c == 'n')
        out += '\n';
      else if (c == 't')
        out += '\t';
      else if (c == 'r')
        out += '\r';
      else if (c == 'f')
        out += '\f';
      else if (c == 'x')
        hex(2);
      else if (c == 'u')
        hex(4);
      else
        out += c;
    }
    return out;
  }

  Result<Expression> string() {
    const std::string text = TRY(quoted());
    if (take("..")) {
      if (peek() != '"') return wrong("a range without its end");
      const std::string last = TRY(quoted());
      const Utf8Step from = text.empty() ? Utf8Step{} : decode_utf8(text, 0),
                     to = last.empty() ? Utf8Step{} : decode_utf8(last, 0);
      if (text.empty() || last.empty() || from.n_bytes != text.size() || to.n_bytes != last.size() ||
          from.code_point > to.code_point) {
        return wrong("a range is from one character to a later one");
      }
      return terminal({.kind = Kind::text, .text = chars_.one_of({{from.code_point, to.code_point}})});
    }
    if (peek() == 'i' && (at_ + 1 == source_.size() || !is_name(source_[at_ + 1]))) {
      at_++;
      Regex out = kEmptyText;
      std::vector<Regex> all;
      for (size_t i = 0; i < text.size();) {
        const Utf8Step step = decode_utf8(text, i);
        all.push_back(chars_.one_of(with_both_cases(CharSet::of(step.code_point))));
        i += step.n_bytes;
      }
      for (size_t i = all.size(); i-- > 0;) out = chars_.pool().concat(all[i], out);
      return terminal({.kind = Kind::text, .text = out});
    }
    return terminal({.kind = Kind::text, .text = chars_.literal(text)});
  }

  Result<Expression> regex() {
    const size_t start = ++at_;
    bool in_class = false;
    for (; peek() != '/' || in_class; at_++) {
      if (at_ >= source_.size() || peek() == '\n') return wrong("a regular expression without its end");
      if (peek() == '\\')
        at_++;
      else if (peek() == '[')
        in_class = true;
      else if (peek() == ']')
        in_class = false;
    }
    const std::string_view pattern = source_.substr(start, at_ - start);
    at_++;
    RegexOptions options;
    for (; std::string_view("imslux").find(peek()) != std::string_view::npos && peek() != '\0'; at_++) {
      if (peek() == 'i')
        options.ignores_case = true;
      else if (peek() == 's')
        options.dot_is_all = true;
      else if (peek() != 'u')
        return wrong("only the flags i, s and u are supported", ErrorCode::unsupported);
    }
    auto text = parse_regex(pattern, chars_, options);
    if (!text.ok()) return wrong(text.error().message, text.error().code);
    return terminal({.kind = Kind::text, .text = *text});
  }

  std::string_view source_;
  Spelling& chars_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
  bool in_terminal_ = false;
  uint32_t ignored_ = 0;
  std::vector<NamedRule> rules_;
  std::map<std::string, uint32_t, std::less<>> ids_;
};

Result<std::vector<NamedRule>> parse(std::string_view source, Spelling& chars) {
  if (source.size() > kMaxGrammarBytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("lark: {} bytes; at most {} are read", source.size(), kMaxGrammarBytes)};
  }
  if (!is_valid_utf8(source)) return Error{ErrorCode::invalid_argument, "lark: not UTF-8"};
  return LarkParser(source, chars).run();
}

}  // namespace

Result<RuleId> add_lark(Grammar& grammar, std::string_view source) {
  Spelling chars(grammar.pool, Spelling::Form::utf8);
  const auto rules = TRY(parse(source, chars));
  TRY(lower_rules(grammar, rules, rules.size() - 1));
  return grammar.root();
}

Result<Regex> lark_regex(std::string_view source, Spelling& chars) {
  const auto rules = TRY(parse(source, chars));
  const auto regex = regex_of(chars.pool(), rules, rules.size() - 1);
  if (!regex) return Error{ErrorCode::unsupported, "lark: inside a string no rule can be part of itself"};
  return *regex;
}

}  // namespace rocmforge::grammar
