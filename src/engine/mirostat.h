#pragma once
// Mirostat (Basu et al. 2021): keeps the surprise of the text, -log2 p of each token, near tau bits.
//
// mu limits the surprise and begins at 2 tau; after each token mu loses eta * (surprise of the token - tau), where p is
// the token's share of the tokens it was drawn from. The probabilities are those after the temperature.
//   version 1   k tokens are kept: k is the number that Zipf's law, with an exponent estimated from the 100 likeliest
//               tokens, gives for mu
//   version 2   the tokens with a surprise of at most mu are kept, and the likeliest one always

#include <optional>
#include <span>

#include "engine/sampler.h"
#include "engine/tail_bounds.h"

namespace rocmforge {

// A draw from tokens in descending order of their adjusted logits, `rest` behind them: nothing when its bounds do not
// tell. REQUIRES: not empty; temperature > 0
std::optional<Choice> draw_mirostat(std::span<const Candidate> sorted, const Tail& rest, uint32_t n_vocab,
                                    const SamplingOptions& options, std::optional<double> mu, double unit);

}  // namespace rocmforge
