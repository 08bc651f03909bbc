#pragma once
// Terminals read byte by byte, many at once: a lexer state is a set of terminals, each with what is left of it. States
// are made as they are met and kept in a table. There is no longest match: a terminal may end wherever it matches.
//
// Threads: one at a time.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/rules.h"

namespace rocmforge::grammar {

using LexState = uint32_t;
inline constexpr LexState kNoLex = 0;  // nothing can follow

class Lexer {
 public:
  static constexpr size_t kMaxStates = 50'000;

  // The grammar was finished, and outlives this.
  explicit Lexer(Grammar& grammar);

  // `terminals` ascending.
  LexState start(std::span<const uint32_t> terminals);
  LexState next(LexState state, uint8_t byte) {
    const LexState known = table_[size_t{state} * n_classes_ + pool_.class_of(byte)];
    return known != kUnknown ? known : find_next(state, byte);
  }
  // The terminals that may end here, ascending; equal sets have equal ids, and 0 is the empty one.
  uint32_t accepts(LexState state) const { return states_[state].accepts; }
  std::span<const uint32_t> accepted(uint32_t accepts) const { return accept_sets_[accepts]; }
  // Whether a terminal can go on by any text of the expression, all of it and every part of it.
  bool admits(LexState state, Regex text);
  // The fewest bytes until terminal `t` ends; a large number when it is not in the state.
  uint32_t least_bytes(LexState state, uint32_t t);
  std::span<const std::pair<uint32_t, Regex>> parts(LexState state) const { return states_[state].parts; }

  bool is_exhausted() const { return is_exhausted_ || pool_.is_exhausted(); }
  size_t n_states() const { return states_.size(); }

 private:
  static constexpr LexState kUnknown = UINT32_MAX;
  using Parts = std::vector<std::pair<uint32_t, Regex>>;  // terminal, what is left of it
  struct LexStateData {
    Parts parts;
    uint32_t accepts = 0;
  };

  LexState intern(Parts parts);
  LexState find_next(LexState state, uint8_t byte);

  RegexPool& pool_;
  const Grammar& grammar_;
  uint32_t n_classes_;
  std::vector<LexStateData> states_;
  std::vector<LexState> table_;
  std::unordered_multimap<uint64_t, LexState> ids_;
  std::vector<std::vector<uint32_t>> accept_sets_;
  std::unordered_multimap<uint64_t, uint32_t> accept_ids_;
  std::unordered_map<uint64_t, bool> admits_;
  bool is_exhausted_ = false;
};

}  // namespace rocmforge::grammar
