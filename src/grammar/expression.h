#pragma once
// What GBNF and Lark grammars have in common: named rules of sequences, alternatives and repeats. Rules that are not
// recursive become regular expressions, so that the parser sees few and long terminals.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/rules.h"

namespace rocmforge::grammar {

struct Expression {
  enum class Kind : uint8_t { text, sequence, either, repeat, rule, tokens };
  Kind kind = Kind::sequence;
  Regex text = kEmptyText;       // text
  uint32_t symbol = 0;           // rule: its number; tokens: of Grammar::add_tokens
  uint32_t least = 0, most = 0;  // repeat
  std::vector<Expression> parts = {};
};

struct NamedRule {
  std::string name;
  Expression body = {};
  bool is_defined = false;
};

// Makes the grammar's rules. limit_exceeded
Result<void> lower_rules(Grammar& grammar, const std::vector<NamedRule>& rules, size_t root);

}  // namespace rocmforge::grammar
