#pragma once
// A text under a constraint, as one request generates it.
//
// Threads: one at a time.

#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

// The constraint of a request. The caller compiles it before submit(), off the engine's thread.
struct ConstraintChoice {
  std::shared_ptr<grammar::Constraint> constraint;
  std::shared_ptr<const grammar::TokenTrie> vocabulary;
  // The text is free until it has had this, as "</think>" of a model that reasons first; empty: from the start.
  std::string after = {};
};

class TokenConstraint {
 public:
  // The tokenizer must outlive this.
  TokenConstraint(ConstraintChoice choice, const tokenizer::Tokenizer& tokenizer);

  // limit_exceeded from all: the text needs more states than are allowed.
  Result<bool> allows(TokenId token);
  // All that are, of the first n_vocab tokens; ascending.
  Result<std::vector<TokenId>> allowed(uint32_t n_vocab);
  // Appends a token. REQUIRES: it is allowed and no end-of-text token
  Result<void> accept(TokenId token);
  // Whether only the end can follow.
  bool is_complete() const { return after_.empty() && matcher_.is_complete(); }

 private:
  const tokenizer::Tokenizer& tokenizer_;
  std::string after_, free_text_;  // the end of what came before the constrained text
  std::shared_ptr<const grammar::TokenTrie> vocabulary_;
  grammar::Matcher matcher_;
};

}  // namespace rocmforge
