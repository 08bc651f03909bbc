#pragma once
// A text under a constraint, as one request generates it.
//
// Threads: one at a time.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

// A limit on the reasoning that begins an answer. When it is reached, the closing marker is written.
struct ThinkingBudget {
  uint32_t max_tokens = 0;
  bool is_inside = false;  // the prompt has opened the reasoning
  // The markers' texts, as the vocabulary of the constraint has them.
  std::vector<std::string> open = {}, close = {};
  std::vector<TokenId> closing = {};  // the tokens of a closing marker
};

// The constraint of a request. The caller compiles it before submit(), off the engine's thread.
struct ConstraintChoice {
  std::shared_ptr<grammar::Constraint> constraint;
  std::shared_ptr<const grammar::TokenTrie> vocabulary;
  std::shared_ptr<const ThinkingBudget> thinking = {};  // null: none
  // Near the limit of its length an answer is brought to an end that the grammar allows, if its shortest end still
  // fits.
  bool closes_at_length = false;
  // Where only one text can follow, its tokens are appended without asking the model.
  bool jumps = true;
};

class TokenConstraint {
 public:
  explicit TokenConstraint(ConstraintChoice choice);

  // limit_exceeded from all: the text needs more states than are allowed.
  // A token is chosen now, of n_left that the answer may still have.
  Result<void> begin_token(uint32_t n_left);
  Result<bool> allows(TokenId token);
  // All that are.
  Result<std::shared_ptr<const grammar::TokenMask>> mask();
  // Whether all n_vocab tokens are allowed, as far as that is known at little cost.
  Result<bool> allows_all(uint32_t n_vocab);
  // Appends a token. REQUIRES: it is allowed and no end-of-text token
  Result<void> accept(TokenId token);
  // Whether only the end can follow.
  bool is_complete() const { return matcher_.is_complete(); }
  // The tokens of the text that must follow, at most n, as the tokenizer splits that text behind the tokens `before`.
  // Those at its end are left out that a token across the end could replace.
  Result<std::vector<TokenId>> forced_tokens(const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> before,
                                             uint32_t n);

 private:
  enum class Thinking : uint8_t { before, inside, over };

  void follow_thinking(TokenId token);
  // The token that has to come next, where the reasoning has to end.
  Result<std::optional<TokenId>> forced();
  // Whether the text can still end within the limit behind a token that the grammar allows.
  Result<bool> can_close_after(int32_t token);
  Result<void> find_closing_tokens();

  std::shared_ptr<const grammar::TokenTrie> vocabulary_;
  grammar::Matcher matcher_;
  std::shared_ptr<const ThinkingBudget> budget_;
  Thinking thinking_ = Thinking::over;
  uint32_t n_thoughts_ = 0;  // tokens
  size_t n_closed_ = 0;      // tokens of budget_->closing that were written
  std::string tail_;         // the end of the reasoning
  bool closes_, jumps_;
  uint32_t n_left_ = UINT32_MAX, least_ = 0;           // tokens to the limit, bytes to the shortest end
  bool is_near_ = false;                               // the limit: every token is looked at
  std::shared_ptr<const grammar::TokenMask> closing_;  // where only these can bring the text to its end in time
};

}  // namespace rocmforge
