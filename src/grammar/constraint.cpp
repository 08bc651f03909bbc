#include "grammar/constraint.h"

#include "grammar/spelling.h"

namespace rocmforge::grammar {

std::shared_ptr<const ComputedMask> MaskCache::find(const MaskKey& key) {
  const auto found = places_.find(key.a);
  if (found == places_.end() || found->second->key.b != key.b) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->mask;
}

void MaskCache::put(const MaskKey& key, std::shared_ptr<const ComputedMask> mask) {
  const auto bytes_of = [](const Entry& entry) { return entry.mask->mask.words().size_bytes(); };
  if (const auto found = places_.find(key.a); found != places_.end()) {
    n_bytes_ -= bytes_of(*found->second);
    entries_.erase(found->second);
  }
  entries_.push_front({key, std::move(mask)});
  places_[key.a] = entries_.begin();
  n_bytes_ += bytes_of(entries_.front());
  while ((n_bytes_ > max_bytes_ || !memory_.set(n_bytes_)) && entries_.size() > 1) drop_last();
}

void MaskCache::drop_last() {
  n_bytes_ -= entries_.back().mask->mask.words().size_bytes();
  places_.erase(entries_.back().key.a);
  entries_.pop_back();
}

bool MaskCache::note(const MaskKey& key) {
  if (noted_.size() >= kMaxNoted) noted_.clear();
  return !noted_.insert(key.a ^ key.b).second;
}

Result<std::shared_ptr<Constraint>> Constraint::make(std::unique_ptr<Grammar> grammar) {
  std::shared_ptr<Constraint> out(new Constraint(std::move(grammar)));
  Spelling utf8(out->grammar_->pool, Spelling::Form::utf8);
  out->string_char_ = utf8.one_of({{0x20, '!'}, {'#', '['}, {']', kMaxChar}});
  TRY(out->grammar_->finish());
  out->lexer_ = std::make_unique<Lexer>(*out->grammar_);
  const RegexPool& pool = out->grammar_->pool;
  out->class_sizes_.resize(pool.n_classes());
  for (unsigned byte = 0; byte < 256; byte++) out->class_sizes_[pool.class_of(static_cast<uint8_t>(byte))]++;
  out->n_first_nodes_ = pool.n_nodes();
  return out;
}

bool Constraint::is_worn() {
  const std::lock_guard lock(mutex_);
  const size_t n_nodes = grammar_->pool.n_nodes();
  const size_t n_free = RegexPool::kMaxNodes - n_first_nodes_;
  return lexer_->is_exhausted() || lexer_->n_states() > Lexer::kMaxStates / 2 || n_nodes - n_first_nodes_ > n_free / 2;
}

}  // namespace rocmforge::grammar
