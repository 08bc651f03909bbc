#pragma once
// Matches many terminals at once, byte by byte. A lexer state is a set of terminals, each with its derivative (the
// expression for the rest). States are made on demand and kept in a table. There is no longest match: a terminal may
// end wherever it matches.
//
// Threads: one at a time.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/rules.h"
#include "grammar/state_memory.h"

namespace rocmforge::grammar {

using LexState = uint32_t;
inline constexpr LexState kNoLex = 0;  // no terminal can continue

class Lexer {
 public:
  static constexpr size_t kMaxStates = 50'000;

  // REQUIRES: the grammar is finished and outlives the lexer
  explicit Lexer(Grammar& grammar);

  // `terminals` ascending.
  LexState start(std::span<const uint32_t> terminals);
  LexState next(LexState state, uint8_t byte) {
    const LexState known = table_[size_t{state} * n_classes_ + pool_.class_of(byte)];
    return known != kUnknown ? known : find_next(state, byte);
  }
  // The id of the set of terminals that may end here. Equal sets have equal ids; 0 is the empty set.
  uint32_t accepts(LexState state) const { return accepts_[state]; }
  std::span<const uint32_t> accepted(uint32_t accepts) const { return accept_sets_[accepts]; }
  // Whether at least one terminal can continue after each prefix of each text of up to n_chars characters `one_char`.
  // Also false where that takes too long to find out.
  bool admits(LexState state, Regex one_char, uint32_t n_chars);
  // Whether every text `one_char` leads from the state to itself, and no terminal can end on the way.
  bool is_closed_under(LexState state, Regex one_char);
  // The fewest bytes until terminal `t` ends; a large number if `t` is not in the state.
  uint32_t least_bytes(LexState state, uint32_t t);
  std::span<const std::pair<uint32_t, Regex>> parts(LexState state) const { return states_[state]; }

  bool is_exhausted() const { return is_exhausted_ || pool_.is_exhausted(); }
  size_t n_states() const { return states_.size(); }

 private:
  static constexpr LexState kUnknown = UINT32_MAX;
  using Parts = std::vector<std::pair<uint32_t, Regex>>;  // terminal, its derivative

  void count_memory();
  LexState intern(Parts parts);
  // Whether the repeat that the expression begins with has room for such texts: quickly found, and true of most
  // strings.
  bool begins_with_room(Regex r, Regex one_char, uint32_t n_chars);
  // Whether every text of `inner` is one of `outer`.
  bool contains(Regex outer, Regex inner);
  // The derivatives of an expression by all classes of bytes.
  const std::vector<Regex>& derivatives(Regex r);
  LexState find_next(LexState state, uint8_t byte);
  // Writes the state after `byte` for all classes of bytes that have the same derivatives.
  void write_next(LexState state, uint8_t byte, LexState after);

  RegexPool& pool_;
  const Grammar& grammar_;
  uint32_t n_classes_;
  std::vector<Parts> states_;
  std::vector<uint32_t> accepts_;  // by state
  std::vector<LexState> table_;
  std::unordered_multimap<uint64_t, LexState> ids_;
  std::vector<std::vector<uint32_t>> accept_sets_;
  std::unordered_multimap<uint64_t, uint32_t> accept_ids_;
  std::unordered_map<uint64_t, bool> admits_, contains_, closed_;
  std::unordered_map<Regex, std::vector<Regex>> derivatives_;
  size_t n_parts_ = 0;  // of all states
  StateMemory memory_;
  bool is_exhausted_ = false;
};

}  // namespace rocmforge::grammar
