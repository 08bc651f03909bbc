#pragma once
// What can be said of the tokens of a row that are not among its candidates. Masses are in units of the best token's
// weight: e^(logit - best), or its power 1 / temperature.

#include <span>

#include "engine/logit_adjustments.h"
#include "plan/candidates.h"

namespace rocmforge {

// Sums of a row's weights in doubles, in any order, differ by less than this part of them.
inline constexpr double kRoundingMargin = 1e-9;

struct Bounds {
  double least = 0, most = 0;
};

// The tokens after those whose place is certain.
struct Tail {
  double n_tokens = 0;
  double largest = 0;  // no weight is above this
  Bounds mass;         // of them together
  Bounds mass_at(double temperature) const;
};

class UnseenTokens {
 public:
  // The references must outlive this.
  UnseenTokens(const RowCandidates& row, const LogitAdjustments& adjustments, uint32_t n_vocab);

  bool exist() const { return n_vocab_ > kCandidates; }
  // No adjusted logit of a token that is not a candidate is above this. REQUIRES: exist()
  float bar() const { return bar_; }
  // Of the n_asked best tokens those that are not in `sorted`, the adjusted candidates that certainly come first.
  // REQUIRES: 0 < sorted.size() < n_asked <= n_vocab
  Tail tail(std::span<const Candidate> sorted, uint32_t n_asked) const;
  // The same when only some tokens count: of the n_asked best of those that count, what is not in `counted`, which are
  // the ones in `sorted` that count. Perhaps there are no others. REQUIRES: 0 < counted.size() < n_asked
  Tail tail_of_some(std::span<const Candidate> sorted, std::span<const Candidate> counted, uint32_t n_asked) const;
  // Of all adjusted logits: their standard deviation. REQUIRES: `sorted` as for tail(), not empty
  Bounds sigma(std::span<const Candidate> sorted) const;

 private:
  Bounds whole_mass(double best) const;

  const RowCandidates& row_;
  const LogitAdjustments& adjustments_;
  uint32_t n_vocab_;
  float bar_;
};

}  // namespace rocmforge
