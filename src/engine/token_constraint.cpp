#include "engine/token_constraint.h"

#include <algorithm>

#include "base/utf8.h"
#include "engine/forced_tokens.h"

namespace rocmforge {
namespace {

constexpr size_t kTailBytes = 512;  // longer than any marker and token
constexpr uint32_t kNear = 64;      // tokens before the limit of an answer
constexpr size_t kMaxForcedBytes = 256;

bool has_any(std::string_view text, const std::vector<std::string>& markers) {
  return std::ranges::any_of(markers, [&](const std::string& one) { return text.find(one) != std::string_view::npos; });
}

}  // namespace

TokenConstraint::TokenConstraint(ConstraintChoice choice)
    : vocabulary_(choice.vocabulary),
      matcher_(std::move(choice.constraint), std::move(choice.vocabulary)),
      budget_(std::move(choice.thinking)),
      closes_(choice.closes_at_length),
      jumps_(choice.jumps) {
  if (budget_) thinking_ = budget_->is_inside ? Thinking::inside : Thinking::before;
}

// Inside a call the closing marker is not allowed: a model that calls while it thinks is not interrupted.
Result<std::optional<TokenId>> TokenConstraint::forced() {
  if (thinking_ != Thinking::inside) return std::optional<TokenId>();
  if (n_closed_ > 0) return std::optional(budget_->closing[n_closed_]);
  const bool is_due = n_thoughts_ >= budget_->max_tokens && incomplete_utf8_suffix(tail_) == 0;
  if (!is_due || !TRY(matcher_.allows(budget_->closing[0].value))) return std::optional<TokenId>();
  return std::optional(budget_->closing[0]);
}

Result<void> TokenConstraint::begin_token(uint32_t n_left) {
  n_left_ = n_left;
  closing_ = nullptr;
  is_near_ = false;
  if (!closes_) return {};
  least_ = matcher_.least_completion();
  is_near_ = n_left <= uint64_t{least_} * 2 + kNear;
  if (least_ > 0 && n_left <= least_ + 1) TRY(find_closing_tokens());
  return {};
}

// A byte of the shortest end is a token in most vocabularies, and tokens of strings do not end them.
Result<void> TokenConstraint::find_closing_tokens() {
  const std::shared_ptr<const grammar::TokenMask> all = TRY(matcher_.mask());
  auto closing = std::make_shared<grammar::TokenMask>(all->n_tokens());
  uint32_t least = UINT32_MAX;
  for (const int32_t id : all->ids()) {
    if (vocabulary_->text(id).size() > 1 && vocabulary_->is_string_safe(id)) continue;
    const uint32_t after = vocabulary_->is_end_of_text(id) ? 0 : TRY(matcher_.least_completion_after(id));
    if (after < least) {
      least = after;
      *closing = grammar::TokenMask(all->n_tokens());
    }
    if (after < n_left_ || after == least) closing->add(id);
  }
  // An answer whose shortest end does not fit is cut, wherever it is.
  if (closing->count() > 0 && least < n_left_) closing_ = std::move(closing);
  return {};
}

Result<bool> TokenConstraint::can_close_after(int32_t token) {
  if (closing_) return closing_->contains(token);
  const bool is_looked_at = closes_ && (is_near_ || !vocabulary_->is_string_safe(token));
  if (!is_looked_at || vocabulary_->is_end_of_text(token) || least_ >= n_left_) return true;
  return TRY(matcher_.least_completion_after(token)) < n_left_;
}

Result<bool> TokenConstraint::allows(TokenId token) {
  if (const auto only = TRY(forced())) return token == *only;
  // A row may be longer than the vocabulary.
  if (token.value < 0 || static_cast<size_t>(token.value) >= vocabulary_->n_tokens()) return false;
  return TRY(matcher_.allows(token.value)) && TRY(can_close_after(token.value));
}

Result<std::shared_ptr<const grammar::TokenMask>> TokenConstraint::mask() {
  if (const auto only = TRY(forced())) {
    auto out = std::make_shared<grammar::TokenMask>(vocabulary_->n_tokens());
    out->add(only->value);
    return std::shared_ptr<const grammar::TokenMask>(std::move(out));
  }
  const std::shared_ptr<const grammar::TokenMask> all = TRY(matcher_.mask());
  if (!closes_) return all;
  auto out = std::make_shared<grammar::TokenMask>(*all);
  for (const int32_t id : all->ids()) {
    if (!TRY(can_close_after(id))) out->remove(id);
  }
  if (out->count() == 0) return all;
  return std::shared_ptr<const grammar::TokenMask>(std::move(out));
}

Result<bool> TokenConstraint::allows_all(uint32_t n_vocab) {
  if (n_vocab != vocabulary_->n_tokens() || closes_ || TRY(forced())) return false;
  return matcher_.allows_all();
}

Result<void> TokenConstraint::accept(TokenId token) {
  follow_thinking(token);
  return matcher_.accept(token.value);
}

Result<std::vector<TokenId>> TokenConstraint::forced_tokens(const tokenizer::Tokenizer& tokenizer,
                                                            std::span<const TokenId> before, uint32_t n) {
  if (!jumps_ || n == 0 || thinking_ == Thinking::inside) return std::vector<TokenId>();
  const std::string text = TRY(matcher_.forced_text(kMaxForcedBytes));
  if (text.size() < 2) return std::vector<TokenId>();
  std::vector<TokenId> out = tokens_behind(tokenizer, *vocabulary_, before, text);
  if (out.size() > n) out.resize(n);
  return out;
}

void TokenConstraint::follow_thinking(TokenId token) {
  if (thinking_ == Thinking::over) return;
  const bool is_closing = n_closed_ > 0 || (thinking_ == Thinking::inside && n_thoughts_ >= budget_->max_tokens &&
                                            token == budget_->closing[0]);
  tail_ += vocabulary_->text(token.value);
  if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  if (thinking_ == Thinking::before) {
    if (has_any(tail_, budget_->open)) {
      thinking_ = Thinking::inside;
      tail_.clear();
    } else if (tail_.size() >= kTailBytes) {
      thinking_ = Thinking::over;  // an answer without reasoning
    }
    return;
  }
  n_thoughts_++;
  if (is_closing) n_closed_++;
  if (has_any(tail_, budget_->close) || n_closed_ == budget_->closing.size()) {
    thinking_ = Thinking::over;
    tail_.clear();
  }
}

}  // namespace rocmforge
