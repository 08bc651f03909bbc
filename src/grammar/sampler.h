#pragma once
// Random sentences of a constraint.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "grammar/constraint.h"

namespace rocmforge::grammar {

struct SentenceOptions {
  uint64_t seed = 1;
  size_t length = 200;          // after this many bytes the sentence ends by the shortest way
  size_t max_length = 100'000;  // limit_exceeded beyond
};

// The same seed gives the same sentence.
Result<std::string> random_sentence(const std::shared_ptr<Constraint>& constraint, const SentenceOptions& options = {});

}  // namespace rocmforge::grammar
