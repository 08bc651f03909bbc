#include "grammar/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kFar = UINT32_MAX / 4;
constexpr uint32_t kRounds = 64;

template <class T>
uint32_t index_of(std::vector<T>& all, const T& one) {
  // The few that a grammar has repeat at once.
  for (size_t i = all.size(); i-- > 0 && i + 64 > all.size();) {
    if (all[i] == one) return static_cast<uint32_t>(i);
  }
  if (all[0] == one) return 0;
  all.push_back(one);
  return static_cast<uint32_t>(all.size() - 1);
}

}  // namespace

bool Guard::holds(const Register& r) const {
  if ((r.set & must_be_clear) != 0 || (r.set & must_be_set) != must_be_set) return false;
  if (r.count < least_count || r.count > most_count) return false;
  if (r.other_count < least_other || r.other_count > most_other) return false;
  if (slots != kUnbounded && r.count + static_cast<uint32_t>(std::popcount(wanted & ~r.set)) >= slots) return false;
  if (other_slots == kUnbounded) return true;
  const uint64_t missing = wanted_other > r.other_count ? wanted_other - r.other_count : 0;
  return uint64_t{r.count} + 1 + missing <= other_slots;
}

Register Effect::apply(Register r) const {
  r.set |= set;
  if (r.count < count_cap) r.count++;
  if (r.other_count < other_cap) r.other_count++;
  return r;
}

bool TokenSet::contains(int32_t id) const {
  return std::ranges::binary_search(ids, id) != is_negative;
}

Grammar::Grammar(std::chrono::milliseconds limit) : guards_(1), effects_(1), limit_(limit) {
  pool.set_deadline(std::chrono::steady_clock::now() + limit);
}

RuleId Grammar::add_rule() {
  const auto id = static_cast<RuleId>(rules_.size());
  rules_.push_back({});
  rules_[id].start = add_state(id);
  return id;
}

StateId Grammar::add_state(RuleId rule) {
  n_items_++;
  states_.emplace_back().rule = rule;
  return static_cast<StateId>(states_.size() - 1);
}

void Grammar::set_final(StateId state, const Guard& guard) {
  states_[state].is_final = true;
  states_[state].guard = index_of(guards_, guard);
}

void Grammar::add_edge(StateId from, EdgeKind kind, uint32_t symbol, StateId to, const Guard& guard,
                       const Effect& effect) {
  n_items_++;
  if (n_items_ > kMaxItems) return;  // finish() says so
  states_[from].edges.push_back({kind, symbol, to, index_of(guards_, guard), index_of(effects_, effect)});
}

void Grammar::add_text(StateId from, Regex text, StateId to, const Guard& guard, const Effect& effect) {
  if (text == kNothing) return;
  if (text == kEmptyText) return add_edge(from, EdgeKind::empty, 0, to, guard, effect);
  // A terminal has at least one byte.
  if (pool.is_nullable(text)) {
    add_edge(from, EdgeKind::empty, 0, to, guard, effect);
    text = pool.both(text, pool.negate(kEmptyText));
  }
  const auto [at, is_new] = terminal_ids_.emplace(text, static_cast<uint32_t>(terminals_.size()));
  if (is_new) terminals_.push_back(text);
  add_edge(from, EdgeKind::terminal, at->second, to, guard, effect);
}

void Grammar::add_call(StateId from, RuleId rule, StateId to, const Guard& guard, const Effect& effect) {
  add_edge(from, EdgeKind::rule, rule, to, guard, effect);
}

uint32_t Grammar::add_tokens(TokenSet set) {
  std::ranges::sort(set.ids);
  token_sets_.push_back(std::move(set));
  return static_cast<uint32_t>(token_sets_.size() - 1);
}

// A rule whose last step is itself would be completed as often as it was entered, at each of its ends.
void Grammar::jump_instead_of_tail_calls() {
  for (State& state : states_) {
    for (Edge& edge : state.edges) {
      const State& to = states_[edge.to];
      const bool is_tail = edge.kind == EdgeKind::rule && edge.symbol == state.rule && edge.guard == 0 &&
                           edge.effect == 0 && to.is_final && to.guard == 0 && to.edges.empty();
      if (!is_tail) continue;
      bool has_register = false;  // which a call begins anew
      for (const State& s : states_) {
        if (s.rule != state.rule) continue;
        has_register |= std::ranges::any_of(s.edges, [](const Edge& e) { return e.effect != 0; });
        if (has_register) break;
      }
      if (!has_register) edge = {.kind = EdgeKind::empty, .to = rules_[state.rule].start};
    }
  }
}

void Grammar::find_productive(std::vector<bool>& rules, std::vector<bool>& states) {
  std::vector<bool> terminals(terminals_.size());
  for (size_t t = 0; t < terminals_.size(); t++) terminals[t] = pool.is_alive(terminals_[t]);
  rules.assign(rules_.size(), false);
  states.assign(states_.size(), false);
  // Each state is looked at again when something that it leads to has become productive.
  std::vector<std::vector<StateId>> before(states_.size()), callers(rules_.size());
  std::vector<std::vector<RuleId>> needing(rules_.size());
  std::vector<StateId> queue;
  for (StateId s = 0; s < states_.size(); s++) {
    queue.push_back(s);
    for (const Edge& edge : states_[s].edges) {
      before[edge.to].push_back(s);
      if (edge.kind == EdgeKind::rule) callers[edge.symbol].push_back(s);
    }
  }
  for (RuleId r = 0; r < rules_.size(); r++) {
    for (const RuleId needed : rules_[r].needs) needing[needed].push_back(r);
  }
  const auto is_productive = [&](const Edge& edge) {
    return states[edge.to] && (edge.kind == EdgeKind::terminal ? terminals[edge.symbol]
                               : edge.kind == EdgeKind::rule   ? rules[edge.symbol]
                                                               : true);
  };
  std::vector<RuleId> rule_queue;
  while (!queue.empty()) {
    const StateId s = queue.back();
    queue.pop_back();
    if (states[s] || !(states_[s].is_final || std::ranges::any_of(states_[s].edges, is_productive))) continue;
    states[s] = true;
    queue.insert(queue.end(), before[s].begin(), before[s].end());
    if (rules_[states_[s].rule].start == s) rule_queue.push_back(states_[s].rule);
    while (!rule_queue.empty()) {
      const RuleId r = rule_queue.back();
      rule_queue.pop_back();
      if (rules[r] || !states[rules_[r].start]) continue;
      if (!std::ranges::all_of(rules_[r].needs, [&](RuleId n) { return rules[n]; })) continue;
      rules[r] = true;
      queue.insert(queue.end(), callers[r].begin(), callers[r].end());
      rule_queue.insert(rule_queue.end(), needing[r].begin(), needing[r].end());
    }
  }
  for (State& state : states_) {
    std::erase_if(state.edges, [&](const Edge& edge) {
      return !states[edge.to] || (edge.kind == EdgeKind::terminal && !terminals[edge.symbol]) ||
             (edge.kind == EdgeKind::rule && !rules[edge.symbol]);
    });
  }
}

void Grammar::find_least_bytes() {
  terminal_bytes_.clear();
  for (const Regex t : terminals_) terminal_bytes_.push_back(std::min(pool.least_bytes(t), kFar));
  least_bytes_.assign(states_.size(), kFar);
  // An estimate: what has not been found after so many rounds counts as far.
  bool changed = true;
  for (uint32_t round = 0; changed && round < kRounds; round++) {
    changed = false;
    for (size_t i = 0; i < states_.size(); i++) {
      const size_t s = round % 2 == 0 ? states_.size() - 1 - i : i;
      uint32_t least = states_[s].is_final ? 0 : kFar;
      for (const Edge& edge : states_[s].edges) {
        const uint32_t step = edge.kind == EdgeKind::terminal ? terminal_bytes_[edge.symbol]
                              : edge.kind == EdgeKind::rule   ? least_bytes_[rules_[edge.symbol].start]
                                                              : 0;
        least = std::min({least, kFar, step + least_bytes_[edge.to]});
      }
      if (least < least_bytes_[s]) least_bytes_[s] = least, changed = true;
    }
  }
}

Result<void> Grammar::finish() {
  const auto check = [&]() -> Result<void> {
    if (n_items_ > kMaxItems) {
      return Error{ErrorCode::limit_exceeded,
                   fmt::format("grammar: {} items; at most {} are allowed", n_items_, kMaxItems)};
    }
    if (pool.is_late()) {
      return Error{ErrorCode::limit_exceeded,
                   fmt::format("grammar: compiling takes longer than the {} ms that are allowed", limit_.count())};
    }
    if (pool.is_exhausted()) return Error{ErrorCode::limit_exceeded, "grammar: its expressions need too many states"};
    return {};
  };
  TRY(check());
  jump_instead_of_tail_calls();
  pool.freeze_classes();
  std::vector<bool> rules, states;
  find_productive(rules, states);
  TRY(check());
  if (!rules[root_]) return Error{ErrorCode::invalid_argument, "grammar: no text matches"};
  find_least_bytes();
  TRY(check());
  pool.set_deadline({});  // derivatives for requests take as long as they take
  return {};
}

}  // namespace rocmforge::grammar
