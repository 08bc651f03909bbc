#include "engine/token_constraint.h"

#include <bit>

namespace rocmforge {

TokenConstraint::TokenConstraint(ConstraintChoice choice, const tokenizer::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      after_(std::move(choice.after)),
      vocabulary_(choice.vocabulary),
      matcher_(std::move(choice.constraint), std::move(choice.vocabulary)) {}

Result<bool> TokenConstraint::allows(TokenId token) {
  // A row may be longer than the vocabulary.
  if (token.value < 0 || static_cast<size_t>(token.value) >= vocabulary_->n_tokens()) return false;
  if (!after_.empty()) {
    // Not the end, and no token that ends the free text and goes on with more than white space.
    const std::string text = free_text_ + std::string(tokenizer_.token_text(token));
    const size_t at = text.find(after_);
    const bool goes_on =
        at != std::string::npos && text.find_first_not_of(" \t\r\n", at + after_.size()) != std::string::npos;
    return !goes_on && !tokenizer_.is_end_of_text(token);
  }
  return matcher_.allows(token.value);
}

Result<std::vector<TokenId>> TokenConstraint::allowed(uint32_t n_vocab) {
  std::vector<TokenId> out;
  if (!after_.empty()) {
    for (uint32_t i = 0; i < n_vocab; i++) {
      if (TRY(allows(TokenId(static_cast<int32_t>(i))))) out.push_back(TokenId(static_cast<int32_t>(i)));
    }
    return out;
  }
  const std::shared_ptr<const grammar::TokenMask> mask = TRY(matcher_.mask());
  for (size_t w = 0; w < mask->words().size(); w++) {
    for (uint64_t left = mask->words()[w]; left != 0; left &= left - 1) {
      const size_t token = w * 64 + static_cast<size_t>(std::countr_zero(left));
      if (token < n_vocab) out.push_back(TokenId(static_cast<int32_t>(token)));
    }
  }
  return out;
}

Result<void> TokenConstraint::accept(TokenId token) {
  if (after_.empty()) return matcher_.accept(token.value);
  free_text_ += tokenizer_.token_text(token);
  const size_t at = free_text_.find(after_);
  if (at == std::string::npos) {
    if (free_text_.size() > after_.size()) free_text_.erase(0, free_text_.size() - after_.size());
    return {};
  }
  // What the same token says beyond is white space, see allows().
  after_.clear();
  free_text_.clear();
  return {};
}

}  // namespace rocmforge
