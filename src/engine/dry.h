#pragma once
// DRY ("don't repeat yourself"): penalises the token that would continue a repetition.
//
// For every earlier place of the history where its last n tokens stand, the token that follows there would make the
// repetition longer. n is the longest such match of any place before that token; from allowed_length on the token's
// logit loses multiplier * base^(n - allowed_length). A match does not reach over a token in which a sequence breaker
// ends, and such a token is not penalised.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampler.h"

namespace rocmforge {

struct DryPenalty {
  uint32_t token = 0;
  float penalty = 0;
};

// At most one of a token; in no order.
std::vector<DryPenalty> dry_penalties(const DryOptions& options, const History& history);

// Finds the tokens in which a sequence breaker ends. A breaker may span several tokens.
class SequenceBreakers {
 public:
  explicit SequenceBreakers(std::vector<std::string> breakers);

  // The text of the next token; whether a breaker ends in it.
  bool push(std::string_view text);

 private:
  std::vector<std::string> breakers_;  // none is empty
  size_t longest_ = 0;
  std::string tail_;  // of the text so far, shorter than the longest breaker
};

}  // namespace rocmforge
