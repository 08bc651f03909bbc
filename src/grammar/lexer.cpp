#include "grammar/lexer.h"

#include <algorithm>

#include "base/seeded_hash.h"

namespace rocmforge::grammar {
namespace {

constexpr size_t kMaxCompared = 4'000;  // pairs of states looked at by admits()

}  // namespace

Lexer::Lexer(Grammar& grammar) : pool_(grammar.pool), grammar_(grammar), n_classes_(grammar.pool.n_classes()) {
  accept_sets_.push_back({});
  accept_ids_.emplace(0, 0);
  states_.push_back({});
  table_.assign(n_classes_, kNoLex);
}

LexState Lexer::start(std::span<const uint32_t> terminals) {
  Parts parts;
  for (const uint32_t t : terminals) parts.emplace_back(t, grammar_.terminal(t));
  return intern(std::move(parts));
}

LexState Lexer::intern(Parts parts) {
  if (parts.empty()) return kNoLex;
  uint64_t hash = 1;
  for (const auto& [t, r] : parts) hash = seeded_hash(hash, static_cast<uint64_t>(t) << 32 | r);
  for (auto [at, end] = ids_.equal_range(hash); at != end; ++at) {
    if (states_[at->second].parts == parts) return at->second;
  }
  if (states_.size() >= kMaxStates) {
    is_exhausted_ = true;
    return kNoLex;
  }
  std::vector<uint32_t> accepted;
  uint64_t accept_hash = 0;
  for (const auto& [t, r] : parts) {
    if (!pool_.is_nullable(r)) continue;
    accepted.push_back(t);
    accept_hash = seeded_hash(accept_hash, t + 1);
  }
  uint32_t accepts = UINT32_MAX;
  for (auto [at, end] = accept_ids_.equal_range(accept_hash); at != end; ++at) {
    if (accept_sets_[at->second] == accepted) accepts = at->second;
  }
  if (accepts == UINT32_MAX) {
    accepts = static_cast<uint32_t>(accept_sets_.size());
    accept_sets_.push_back(std::move(accepted));
    accept_ids_.emplace(accept_hash, accepts);
  }
  const auto id = static_cast<LexState>(states_.size());
  states_.push_back({std::move(parts), accepts});
  table_.resize(table_.size() + n_classes_, kUnknown);
  ids_.emplace(hash, id);
  return id;
}

LexState Lexer::find_next(LexState state, uint8_t byte) {
  Parts parts;
  for (const auto& [t, r] : states_[state].parts) {
    const Regex rest = pool_.derivative(r, byte);
    if (rest != kNothing && pool_.is_alive(rest)) parts.emplace_back(t, rest);
  }
  const LexState out = intern(std::move(parts));
  if (!is_exhausted()) table_[size_t{state} * n_classes_ + pool_.class_of(byte)] = out;
  return out;
}

bool Lexer::admits(LexState state, Regex text) {
  const uint64_t key = static_cast<uint64_t>(state) << 32 | text;
  if (const auto found = admits_.find(key); found != admits_.end()) return found->second;
  bool does = true;
  std::vector<uint64_t> queue = {key};
  std::unordered_map<uint64_t, bool> seen = {{key, true}};
  for (size_t i = 0; i < queue.size() && does; i++) {
    const auto lex = static_cast<LexState>(queue[i] >> 32);
    const auto left = static_cast<Regex>(queue[i]);
    for (uint32_t c = 0; c < n_classes_ && does; c++) {
      const uint8_t byte = pool_.representative(c);
      const Regex rest = pool_.derivative(left, byte);
      if (rest == kNothing) continue;
      const LexState after = next(lex, byte);
      does = after != kNoLex && queue.size() < kMaxCompared && !is_exhausted();
      const uint64_t pair = static_cast<uint64_t>(after) << 32 | rest;
      if (does && rest != kEmptyText && seen.emplace(pair, true).second) queue.push_back(pair);
    }
  }
  admits_.emplace(key, does);
  return does;
}

uint32_t Lexer::least_bytes(LexState state, uint32_t t) {
  for (const auto& [terminal, r] : states_[state].parts) {
    if (terminal == t) return pool_.least_bytes(r);
  }
  return UINT32_MAX;
}

}  // namespace rocmforge::grammar
