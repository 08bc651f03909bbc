#pragma once
// From logits to a token: a pure function of the logits, the options, the history and one random number.
//
// Order: logit_bias is added, the penalties and DRY are applied; then each filter keeps some of the tokens that the
// ones before it have left:
//   top_n_sigma   logits of at least the largest one less top_n_sigma standard deviations of all logits
//   top_k         the k largest logits
//   typical_p     the smallest set that reaches this probability, tokens first whose surprise -ln p is nearest to the
//                 entropy (Meister et al. 2023)
//   top_p         the smallest set that reaches this probability, likeliest first
//   min_p         tokens with at least this part of the best one's probability
//   XTC           with xtc_probability: all but the least likely of those that have xtc_threshold or more are left out
// then temperature, then one draw. Equal logits keep the lower id first. With temperature 0 the largest adjusted logit
// is taken, and no filter is asked. Mirostat stands in the place of all filters, after the temperature (mirostat.h).
//
// The penalties look at the last penalty_last_n tokens of the history. Of a token that is among them c times the logit
// is divided by repetition_penalty (multiplied, when it is not positive), then c * frequency_penalty + presence_penalty
// are taken off it. DRY is defined in dry.h.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
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
inline constexpr uint32_t kMaxSequenceBreakers = 64, kMaxSequenceBreakerBytes = 256;

// Penalises the token that would continue a repetition: see dry.h.
struct DryOptions {
  float multiplier = 0;  // 0 to 100; 0: off
  float base = 1.75f;    // 1 to 100
  int32_t allowed_length = 2;
  int32_t last_n = -1;  // tokens that are looked at; 0: none; -1: the whole history
  std::vector<std::string> sequence_breakers = {"\n", ":", "\"", "*"};
};

// Keeps the surprise of the text near tau: see mirostat.h.
struct MirostatOptions {
  int32_t version = 0;  // 1 or 2; 0: off
  float tau = 5;        // bits; 0 to 100
  float eta = 0.1f;     // 0 to 1
};

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

  float top_n_sigma = 0;      // 0 to 100; 0: all
  float typical_p = 1;        // 0 to 1; 1: all
  float xtc_probability = 0;  // 0 to 1; 0: off
  float xtc_threshold = 0.1f;
  DryOptions dry = {};
  MirostatOptions mirostat = {};
};

// invalid_argument, naming the option. Written so that NaN is outside every range.
Result<void> check_options(const SamplingOptions& options);

// The same seed and step give the same number in [0, 1), whatever else runs.
double random_unit(uint64_t seed, uint64_t step);

// What came before a draw. The views must outlive it.
struct History {
  History() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): tokens are a history
  History(std::span<const TokenId> all) : tokens(all) {}
  History(const std::vector<TokenId>& all) : tokens(all) {}  // NOLINT(google-explicit-constructor)

  std::span<const TokenId> tokens = {};    // the prompt and everything generated, oldest first
  std::span<const uint8_t> breaks = {};    // of each token, whether a sequence breaker ends in it; empty: of none
  std::optional<double> mirostat_mu = {};  // as the draw before has left it; nothing: before the first one
};

struct Choice {
  TokenId token;
  double mirostat_mu = 0;  // for the next draw's History
};

// REQUIRES: options are checked; unit in [0, 1). model_not_finite when a logit is NaN or infinite.
Result<Choice> sample(std::span<const float> logits, const SamplingOptions& options, const History& history,
                      double unit);

// The definition of sample(), without its short cut: it looks at the candidates first, which is ten times faster.
Result<Choice> sample_whole_row(std::span<const float> logits, const SamplingOptions& options, const History& history,
                                double unit);

// The same answer from a row's candidates, or nothing when only the whole row can tell: sample() then.
// REQUIRES: as sample(); n_vocab is the length of the row
Result<std::optional<Choice>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                const History& history, uint32_t n_vocab, double unit);

// Under a constraint, tokens that are not allowed do not exist: they are left out before anything else is done.
// `is_allowed` is asked for candidates alone, the likeliest first, and only as long as it matters.
using IsAllowed = std::function<Result<bool>(TokenId)>;
Result<std::optional<Choice>> sample_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                const History& history, uint32_t n_vocab, double unit,
                                                const IsAllowed& is_allowed);

// The same answer as sample_allowed() from the candidates of the allowed tokens alone (select_candidates with a mask),
// or nothing when only the whole row can tell. n_vocab is the length of the row. REQUIRES: 0 < n_allowed
Result<std::optional<Choice>> sample_allowed_candidates(const RowCandidates& row, const SamplingOptions& options,
                                                        const History& history, uint32_t n_allowed, uint32_t n_vocab,
                                                        double unit);

// The definition: a draw from the row's allowed tokens. REQUIRES: at least one is allowed, all are inside the row
Result<Choice> sample_allowed(std::span<const float> logits, const SamplingOptions& options, const History& history,
                              double unit, std::span<const TokenId> allowed);

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
