#include "grammar/constraint.h"

#include "grammar/spelling.h"

namespace rocmforge::grammar {

std::shared_ptr<const TokenMask> MaskCache::find(uint64_t a, uint64_t b) {
  const auto found = places_.find(a);
  if (found == places_.end() || found->second->b != b) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->mask;
}

void MaskCache::put(uint64_t a, uint64_t b, std::shared_ptr<const TokenMask> mask) {
  const size_t n_bytes = mask->words().size_bytes();
  if (const auto found = places_.find(a); found != places_.end()) {
    n_bytes_ -= found->second->mask->words().size_bytes();
    entries_.erase(found->second);
  }
  entries_.push_front({a, b, std::move(mask)});
  places_[a] = entries_.begin();
  n_bytes_ += n_bytes;
  while (n_bytes_ > max_bytes_ && entries_.size() > 1) {
    n_bytes_ -= entries_.back().mask->words().size_bytes();
    places_.erase(entries_.back().a);
    entries_.pop_back();
  }
}

Result<std::shared_ptr<Constraint>> Constraint::make(std::unique_ptr<Grammar> grammar) {
  std::shared_ptr<Constraint> out(new Constraint(std::move(grammar)));
  Spelling utf8(out->grammar_->pool, Spelling::Form::utf8);
  const Regex safe = utf8.one_of({{0x20, '!'}, {'#', '['}, {']', kMaxChar}});
  for (const uint32_t n : {10u, 30u}) out->slices_.emplace_back(n, out->grammar_->pool.repeat(safe, 0, n));
  TRY(out->grammar_->finish());
  out->lexer_ = std::make_unique<Lexer>(*out->grammar_);
  return out;
}

}  // namespace rocmforge::grammar
