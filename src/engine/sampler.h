#pragma once
// From logits to a token: a pure function of the logits, the options, the tokens so far and one random number.
//
// Order: logit_bias is added, the penalties are applied; then the top_k largest logits, of those the smallest set whose
// probabilities reach top_p, of those the ones with at least min_p of the best one's probability, then temperature,
// then one draw. Equal logits keep the lower id first.
//
// The penalties look at the last penalty_last_n tokens of the history. Of a token that is among them c times the logit
// is divided by repetition_penalty (multiplied, when it is not positive), then c * frequency_penalty + presence_penalty
// are taken off it.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "plan/candidates.h"

namespace rocmforge {

struct LogitBias {
  TokenId token;
  float bias = 0;  // -100 to 100; those of one token add up
};

inline constexpr uint32_t kMaxLogprobs = 20;
inline constexpr uint32_t kMaxLogitBiases = 1024;

struct SamplingOptions {
  float temperature = 0.8f;  // 0: always the most likely token
  uint32_t top_k = 40;       // 0: all
  float top_p = 0.95f;       // 1: all
  float min_p = 0.05f;       // 0: all
  uint64_t seed = 0;

  float repetition_penalty = 1;            // 0.01 to 100; 1: none
  float presence_penalty = 0;              // -2 to 2
  float frequency_penalty = 0;             // -2 to 2
  int32_t penalty_last_n = 64;             // 0: no token is penalised; -1: the whole history is looked at
  std::vector<LogitBias> logit_bias = {};  // tokens outside the vocabulary are not there to be biased

  // Log-probabilities of the model itself, before anything above: of the chosen token, and of the n_logprobs most
  // likely.
  bool want_logprobs = false;
  uint32_t n_logprobs = 0;  // at most kMaxLogprobs
};

// invalid_argument, naming the option. Written so that NaN is outside every range.
Result<void> check_options(const SamplingOptions& options);

// The same seed and step give the same number in [0, 1), whatever else runs.
double random_unit(uint64_t seed, uint64_t step);

// `history` is the prompt and everything generated, oldest first.
// REQUIRES: options are checked; unit in [0, 1). model_not_finite when a logit is NaN or infinite.
Result<TokenId> sample(std::span<const float> logits, const SamplingOptions& options, std::span<const TokenId> history,
                       double unit);

// The definition of sample(), without its short cut: it looks at the candidates first, which is ten times faster.
Result<TokenId> sample_whole_row(std::span<const float> logits, const SamplingOptions& options,
                                 std::span<const TokenId> history, double unit);

// The same answer from a row's candidates, or nothing when only the whole row can tell: sample() then.
// REQUIRES: as sample(); n_vocab is the length of the row
Result<std::optional<TokenId>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                 std::span<const TokenId> history, uint32_t n_vocab, double unit);

// Under a constraint, tokens that are not allowed do not exist: they are left out before anything else is done.
// `is_allowed` is asked for candidates alone, the likeliest first, and only as long as it matters.
using IsAllowed = std::function<Result<bool>(TokenId)>;
Result<std::optional<TokenId>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                 std::span<const TokenId> history, uint32_t n_vocab, double unit,
                                                 const IsAllowed& is_allowed);

// The definition: a draw from the row's allowed tokens. REQUIRES: at least one is allowed, all are inside the row
Result<TokenId> sample_allowed(std::span<const float> logits, const SamplingOptions& options,
                               std::span<const TokenId> history, double unit, std::span<const TokenId> allowed);

struct TokenLogprob {
  TokenId token;
  float logprob = 0;
};

struct TokenLogprobs {
  float logprob = 0;                   // of the chosen token
  std::vector<TokenLogprob> top = {};  // the most likely first
};

// REQUIRES: n <= kMaxLogprobs; token in the row
TokenLogprobs logprobs(std::span<const float> logits, TokenId token, uint32_t n);
// Nothing when the token is not among the candidates.
std::optional<TokenLogprobs> logprobs(const RowCandidates& row, uint32_t n_vocab, TokenId token, uint32_t n);

}  // namespace rocmforge
