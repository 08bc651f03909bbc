#pragma once
// A prompt continued: evaluate, sample, decode, until an end.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/finish_reason.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

struct GenerateOptions {
  SamplingOptions sampling;
  uint32_t max_tokens = 128;
  bool ignore_end_of_text = false;                  // go on after an end-of-text token
  std::vector<std::string> stop;                    // the text ends before the first of these
  std::optional<ConstraintChoice> constraint = {};  // what the text must be
  std::function<bool()> should_stop = {};           // asked between the pieces of a long prompt and between tokens
  Clock clock = system_clock();
};

struct Generated {
  std::vector<TokenId> tokens;          // end-of-text not included
  std::vector<TokenLogprobs> logprobs;  // of each token, when they are wanted
  FinishReason reason = FinishReason::length;
  uint32_t n_prompt_tokens = 0;
  double prompt_seconds = 0;  // until the first token was chosen
  double decode_seconds = 0;  // for the others
  double decode_rate() const { return tokens.size() > 1 ? static_cast<double>(tokens.size() - 1) / decode_seconds : 0; }
};

// Receives whole UTF-8 characters as they are certain; false ends the generation.
using TextReceiver = std::function<bool(std::string_view text)>;

// The session keeps the prompt and what was generated (the last token excepted; when stopped early, what was
// evaluated). limit_exceeded when the prompt does not fit the context.
Result<Generated> generate(Session& session, const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> prompt,
                           const GenerateOptions& options, const TextReceiver& receive);

}  // namespace rocmforge
