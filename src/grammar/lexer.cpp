#include "grammar/lexer.h"

#include <algorithm>

#include "base/seeded_hash.h"

namespace rocmforge::grammar {
namespace {

constexpr size_t kMaxCompared = 400, kMaxUnboundedCompared = 200;  // pairs of states looked at by admits()
constexpr size_t kMaxOfOneChar = 32;                               // the same for is_closed_under()

}  // namespace

Lexer::Lexer(Grammar& grammar) : pool_(grammar.pool), grammar_(grammar), n_classes_(grammar.pool.n_classes()) {
  accept_sets_.push_back({});
  accept_ids_.emplace(0, 0);
  states_.push_back({});
  accepts_.push_back(0);
  table_.assign(n_classes_, kNoLex);
}

LexState Lexer::start(std::span<const uint32_t> terminals) {
  Parts parts;
  for (const uint32_t t : terminals) parts.emplace_back(t, grammar_.terminal(t));
  return intern(std::move(parts));
}

void Lexer::count_memory() {
  constexpr uint64_t kMapEntryBytes = 48;
  const uint64_t n_mapped =
      ids_.size() + admits_.size() + contains_.size() + closed_.size() + 2 * accept_sets_.size() + derivatives_.size();
  const uint64_t n_bytes = derivatives_.size() * n_classes_ * sizeof(Regex) + table_.size() * sizeof(LexState) +
                           states_.size() * (sizeof(Parts) + sizeof(uint32_t)) + n_parts_ * sizeof(Parts::value_type) +
                           n_mapped * kMapEntryBytes;
  if (!memory_.set(n_bytes)) is_exhausted_ = true;
}

LexState Lexer::intern(Parts parts) {
  if (parts.empty()) return kNoLex;
  uint64_t hash = 1;
  for (const auto& [t, r] : parts) hash = seeded_hash(hash, static_cast<uint64_t>(t) << 32 | r);
  for (auto [at, end] = ids_.equal_range(hash); at != end; ++at) {
    if (states_[at->second] == parts) return at->second;
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
  n_parts_ += parts.size();
  states_.push_back(std::move(parts));
  accepts_.push_back(accepts);
  ByteSet first{};
  for (const auto& [t, r] : states_.back()) {
    const ByteSet set = pool_.first_bytes(r);
    for (size_t i = 0; i < first.size(); i++) first[i] |= set[i];
  }
  for (uint32_t c = 0; c < n_classes_; c++) {
    table_.push_back(grammar::contains(first, pool_.representative(c)) ? kUnknown : kNoLex);
  }
  ids_.emplace(hash, id);
  count_memory();
  return id;
}

LexState Lexer::find_next(LexState state, uint8_t byte) {
  Parts parts;
  for (const auto& [t, r] : states_[state]) {
    const Regex rest = pool_.derivative(r, byte);
    if (rest != kNothing && pool_.is_alive(rest)) parts.emplace_back(t, rest);
  }
  const LexState out = intern(std::move(parts));
  if (!is_exhausted()) write_next(state, byte, out);
  return out;
}

void Lexer::write_next(LexState state, uint8_t byte, LexState after) {
  const auto row = std::span(table_).subspan(size_t{state} * n_classes_, n_classes_);
  row[pool_.class_of(byte)] = after;
  ByteSet same = kAllByteSet;
  for (const auto& [t, r] : states_[state]) pool_.keep_equal_derivatives(same, r, byte);
  for (uint32_t c = 0; c < n_classes_; c++) {
    if (row[c] == kUnknown && grammar::contains(same, pool_.representative(c))) row[c] = after;
  }
}

const std::vector<Regex>& Lexer::derivatives(Regex r) {
  std::vector<Regex>& out = derivatives_[r];
  for (uint32_t c = static_cast<uint32_t>(out.size()); c < n_classes_; c++) {
    out.push_back(pool_.derivative(r, pool_.representative(c)));
  }
  return out;
}

bool Lexer::contains(Regex outer, Regex inner) {
  const auto pair_of = [](Regex a, Regex b) { return static_cast<uint64_t>(a) << 32 | b; };
  const auto [at, is_new] = contains_.emplace(pair_of(outer, inner), false);
  if (!is_new) return at->second;
  std::vector<std::pair<Regex, Regex>> queue = {{outer, inner}};
  std::unordered_set<uint64_t> seen = {pair_of(outer, inner)};
  for (size_t i = 0; i < queue.size(); i++) {
    const auto [a, b] = queue[i];
    if (pool_.is_nullable(b) && !pool_.is_nullable(a)) return false;
    for (uint32_t c = 0; c < n_classes_; c++) {
      const Regex rest = derivatives(b)[c];
      if (rest == kNothing) continue;
      const Regex other = pool_.derivative(a, pool_.representative(c));
      if (other == kNothing || queue.size() >= kMaxCompared || is_exhausted()) return false;
      if (seen.insert(pair_of(other, rest)).second) queue.emplace_back(other, rest);
    }
  }
  return contains_[pair_of(outer, inner)] = true;
}

bool Lexer::begins_with_room(Regex r, Regex one_char, uint32_t n_chars) {
  const auto repeat = pool_.leading_repeat(r);
  return repeat && repeat->most >= n_chars && contains(repeat->what, one_char);
}

bool Lexer::admits(LexState state, Regex one_char, uint32_t n_chars) {
  for (const auto& [t, r] : states_[state]) {
    if (begins_with_room(r, one_char, n_chars)) return true;
  }
  // Whether all prefixes of `text` can be continued. Of an unbounded text every place on the way is known then, too.
  const auto explore = [&](Regex text, size_t max_compared, bool is_unbounded) {
    const uint64_t key = static_cast<uint64_t>(state) << 32 | text;
    if (const auto found = admits_.find(key); found != admits_.end()) return found->second;
    bool does = true;
    std::vector<uint64_t> queue = {key};
    std::unordered_set<uint64_t> seen = {key};
    for (size_t i = 0; i < queue.size() && does; i++) {
      const auto lex = static_cast<LexState>(queue[i] >> 32);
      const std::vector<Regex>& left = derivatives(static_cast<Regex>(queue[i]));
      for (uint32_t c = 0; c < n_classes_ && does; c++) {
        if (left[c] == kNothing) continue;
        const LexState after = next(lex, pool_.representative(c));
        does = after != kNoLex && queue.size() < max_compared && !is_exhausted();
        const uint64_t pair = static_cast<uint64_t>(after) << 32 | left[c];
        if (!does || left[c] == kEmptyText) continue;
        if (const auto known = admits_.find(pair); known != admits_.end()) {
          does = known->second;
        } else if (seen.insert(pair).second) {
          queue.push_back(pair);
        }
      }
    }
    admits_.emplace(key, does);
    count_memory();
    if (!does || !is_unbounded) return does;
    for (const uint64_t pair : queue) admits_.emplace(pair, true);
    return true;
  };
  return explore(pool_.star(one_char), kMaxUnboundedCompared, true) ||
         explore(pool_.repeat(one_char, 0, n_chars), kMaxCompared, false);
}

bool Lexer::is_closed_under(LexState state, Regex one_char) {
  const uint64_t key = static_cast<uint64_t>(state) << 32 | one_char;
  if (const auto known = closed_.find(key); known != closed_.end()) return known->second;
  bool is_closed = accepts(state) == 0;
  std::vector<uint64_t> queue = {key};
  for (size_t i = 0; i < queue.size() && is_closed; i++) {
    const auto lex = static_cast<LexState>(queue[i] >> 32);
    const std::vector<Regex>& left = derivatives(static_cast<Regex>(queue[i]));
    for (uint32_t c = 0; c < n_classes_ && is_closed; c++) {
      if (left[c] == kNothing) continue;
      const LexState after = next(lex, pool_.representative(c));
      if (left[c] == kEmptyText) {
        is_closed = after == state;
        continue;
      }
      is_closed = after != kNoLex && accepts(after) == 0 && queue.size() < kMaxOfOneChar && !is_exhausted();
      const uint64_t pair = static_cast<uint64_t>(after) << 32 | left[c];
      if (std::ranges::find(queue, pair) == queue.end()) queue.push_back(pair);
    }
  }
  closed_.emplace(key, is_closed);
  count_memory();
  return is_closed;
}

uint32_t Lexer::least_bytes(LexState state, uint32_t t) {
  for (const auto& [terminal, r] : states_[state]) {
    if (terminal == t) return pool_.least_bytes(r);
  }
  return UINT32_MAX;
}

}  // namespace rocmforge::grammar
