#pragma once
// The common core of GBNF and Lark grammars: named rules of sequences, alternatives and repeats. Rules that are not
// recursive become regular expressions, so that the parser has few, long terminals.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/rules.h"

namespace rocmforge::grammar {

struct Expression {
  enum class Kind : uint8_t { text, sequence, either, repeat, rule, tokens };
  Kind kind = Kind::sequence;
  Regex text = kEmptyText;       // text
  uint32_t symbol = 0;           // rule: its number; tokens: the id from Grammar::add_tokens
  uint32_t least = 0, most = 0;  // repeat
  std::vector<Expression> parts = {};
};

struct NamedRule {
  std::string name;
  Expression body = {};
  bool is_defined = false;
};

// The texts of a rule as one expression; nothing: a rule is part of itself, or there are tokens.
std::optional<Regex> regex_of(RegexPool& pool, const std::vector<NamedRule>& rules, size_t root);

// Adds the rules to the grammar. Errors: limit_exceeded
Result<void> lower_rules(Grammar& grammar, const std::vector<NamedRule>& rules, size_t root);

}  // namespace rocmforge::grammar
