#pragma once
// How tokens came about: what a constraint costs.

#include <cstdint>

namespace rocmforge {

// By what choices of tokens were made, since the model was loaded.
struct ChoiceCounts {
  uint64_t n_free = 0;        // without limits
  uint64_t n_candidates = 0;  // among the candidates of the row, of which some are allowed
  uint64_t n_allowed = 0;     // among the candidates of the allowed tokens
  uint64_t n_whole_rows = 0;  // from a whole row of logits
  uint64_t n_forced = 0;      // no choice: the constraint left one text
};

}  // namespace rocmforge
