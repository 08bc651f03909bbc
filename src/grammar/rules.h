#pragma once
// A grammar as rules over terminals. A rule is an automaton. Its edges read a terminal (a regular expression over
// bytes), a token, another rule or nothing. Each item of the parser carries a register through its rule; edges test it
// (Guard) and change it (Effect), so that counts and sets of keys need no states.

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/regex_pool.h"

namespace rocmforge::grammar {

struct Register {
  uint64_t set = 0;  // bit set of the keys or values written so far
  uint32_t count = 0, other_count = 0;
  friend bool operator==(const Register&, const Register&) = default;
};

struct Guard {
  uint64_t must_be_clear = 0, must_be_set = 0;
  uint32_t least_count = 0, most_count = kUnbounded;  // of Register::count
  uint32_t least_other = 0, most_other = kUnbounded;
  // If `slots` is bounded: the count plus the number of `wanted` bits not yet set must be below it.
  uint64_t wanted = 0;
  uint32_t slots = kUnbounded;
  // If `other_slots` is bounded: count + 1 + max(wanted_other - other_count, 0) must not exceed it.
  uint32_t wanted_other = 0, other_slots = kUnbounded;
  friend bool operator==(const Guard&, const Guard&) = default;

  bool holds(const Register& r) const;
};

// An edge's change of the register. Counts stop at their cap, because no guard tests larger ones.
struct Effect {
  uint64_t set = 0;
  uint32_t count_cap = 0, other_cap = 0;  // 0: not counted
  friend bool operator==(const Effect&, const Effect&) = default;

  Register apply(Register r) const;
};

enum class EdgeKind : uint8_t { empty, terminal, rule, tokens };

using StateId = uint32_t;
using RuleId = uint32_t;

struct Edge {
  EdgeKind kind = EdgeKind::empty;
  uint32_t symbol = 0;  // the id of a terminal, a rule or a token set
  StateId to = 0;
  uint32_t guard = 0, effect = 0;
};

struct TokenSet {
  std::vector<int32_t> ids;  // ascending
  bool is_negative = false;
  bool contains(int32_t id) const;
};

struct State {
  std::vector<Edge> edges;
  bool is_final = false;
  uint32_t guard = 0;  // guard on ending here
  RuleId rule = 0;
};

struct Rule {
  StateId start = 0;
  // Rules of members or items that guards require: without a sentence of each, this rule has none.
  std::vector<RuleId> needs = {};
};

class Grammar {
 public:
  static constexpr size_t kMaxItems = 100'000;  // states and edges together
  static constexpr std::chrono::milliseconds kMaxCompileTime{3'000};

  // Compiling takes at most `limit`: a source that takes longer is refused by finish().
  explicit Grammar(std::chrono::milliseconds limit = kMaxCompileTime);

  RegexPool pool;

  RuleId add_rule();
  StateId add_state(RuleId rule);
  StateId start_of(RuleId rule) const { return rules_[rule].start; }
  void set_final(StateId state, const Guard& guard = {});
  void add_edge(StateId from, EdgeKind kind, uint32_t symbol, StateId to, const Guard& guard = {},
                const Effect& effect = {});
  void add_empty(StateId from, StateId to) { add_edge(from, EdgeKind::empty, 0, to); }
  // Adds no edge if the expression matches no text.
  void add_text(StateId from, Regex text, StateId to, const Guard& guard = {}, const Effect& effect = {});
  void add_call(StateId from, RuleId rule, StateId to, const Guard& guard = {}, const Effect& effect = {});
  void need(RuleId rule, RuleId needed) { rules_[rule].needs.push_back(needed); }
  uint32_t add_tokens(TokenSet set);

  void set_root(RuleId root) { root_ = root; }
  RuleId root() const { return root_; }

  // Removes rules and edges that no sentence uses, and turns a rule's tail calls of itself into jumps. Errors:
  // invalid_argument (the grammar has no sentence), limit_exceeded.
  Result<void> finish();

  const std::vector<State>& states() const { return states_; }
  const std::vector<Rule>& rules() const { return rules_; }
  const Guard& guard(uint32_t i) const { return guards_[i]; }
  const Effect& effect(uint32_t i) const { return effects_[i]; }
  Regex terminal(uint32_t t) const { return terminals_[t]; }
  size_t n_terminals() const { return terminals_.size(); }
  const TokenSet& tokens(uint32_t i) const { return token_sets_[i]; }
  bool has_tokens() const { return !token_sets_.empty(); }
  size_t n_items() const { return n_items_; }
  bool is_too_large() const { return n_items_ > kMaxItems || pool.is_exhausted(); }

  // The fewest bytes from a state to the end of its rule, guards ignored. REQUIRES: finish() was called
  uint32_t least_bytes(StateId state) const { return least_bytes_[state]; }
  uint32_t least_bytes_of_terminal(uint32_t t) const { return terminal_bytes_[t]; }

 private:
  void find_productive(std::vector<bool>& rules, std::vector<bool>& states);
  void find_least_bytes();
  void jump_instead_of_tail_calls();

  std::vector<State> states_;
  std::vector<Rule> rules_;
  std::vector<Guard> guards_;
  std::vector<Effect> effects_;
  std::vector<Regex> terminals_;
  std::unordered_map<Regex, uint32_t> terminal_ids_;
  std::vector<TokenSet> token_sets_;
  std::vector<uint32_t> least_bytes_, terminal_bytes_;
  std::chrono::milliseconds limit_;
  RuleId root_ = 0;
  size_t n_items_ = 0;
};

}  // namespace rocmforge::grammar
