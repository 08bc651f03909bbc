#pragma once
// What is asked of an engine, and what comes back: a start, tokens as they are chosen, one finish.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/finish_reason.h"
#include "engine/sampler.h"
#include "engine/token_constraint.h"
#include "model/spec.h"

namespace rocmforge {

using RequestId = Id<struct RequestIdTag, uint64_t>;  // ascending in order of submission

// Whose share of the queue a request counts against: the key it came with. Requests without a key are one client.
using ClientId = Id<struct ClientIdTag, uint64_t>;

struct GenerationRequest {
  std::vector<TokenId> prompt;  // not empty
  SamplingOptions sampling;
  std::optional<uint32_t> max_tokens = {};  // nothing: to the end of the context
  std::vector<std::string> stop = {};       // the text ends before the first of these
  bool ignore_end_of_text = false;          // go on after an end-of-text token
  std::vector<TokenId> stop_tokens = {};    // the answer ends before the first of these
  uint32_t min_tokens = 0;                  // until it has so many, neither they nor an end-of-text token are chosen
  // Log-probabilities of the prompt's tokens, with so many alternatives: FinishEvent::prompt_logprobs. The prompt is
  // then computed anew, and max_tokens may be 0.
  std::optional<uint32_t> n_prompt_logprobs = {};
  // Tokens that its text shows between 0xFF and 0xFE (tokenizer/stream_decoder.h).
  std::shared_ptr<const std::vector<TokenId>> marked_tokens = {};
  std::string cache_salt = {};  // computed prefixes are shared between equal salts only
  ClientId client{};
  std::optional<ConstraintChoice> constraint = {};  // what the answer's text must be
};

struct EmbeddingRequest {
  std::vector<TokenId> tokens;  // not empty
  Pooling pooling = Pooling::mean;
  ClientId client{};
  bool normalise = true;  // to length 1; scores (Pooling::rank) never are
};

struct RequestUsage {
  uint32_t n_prompt = 0;
  uint32_t n_cached = 0;       // of the prompt, found computed when it began
  uint32_t n_generated = 0;    // end-of-text included
  double queue_seconds = 0;    // from submission until its first step began
  double prefill_seconds = 0;  // then until the first token was chosen
  double decode_seconds = 0;   // then until the end
};

// The prompt's first step is about to run.
struct StartEvent {
  double queue_seconds = 0;
  uint32_t n_cached = 0;
};

// One token chosen. The end-of-text token is not among them unless it was to be ignored.
struct TokenEvent {
  TokenId token;
  std::string text;  // whole UTF-8 characters that cannot belong to a stop string; may be empty
  std::optional<TokenLogprobs> logprobs = {};
  bool more_follow = false;  // tokens of other requests, at once: who passes events on may wait for the last of them
};

struct FinishEvent {
  FinishReason reason = FinishReason::stop;
  std::optional<Error> error = {};          // with FinishReason::error
  std::string text = {};                    // what had been held back
  std::optional<uint32_t> stopped_by = {};  // which of GenerationRequest::stop has ended it
  RequestUsage usage = {};
  std::vector<float> embedding = {};                // of an EmbeddingRequest: the embedding, or scores
  std::vector<TokenLogprobs> prompt_logprobs = {};  // if asked for: of the prompt's tokens from the second on
};

using RequestEvent = std::variant<StartEvent, TokenEvent, FinishEvent>;

// Called on the engine's thread, possibly before submit() has returned; must not block. FinishEvent comes exactly once
// and last, also after a cancel, a drain and a device's failure; then the receiver is destroyed.
using EventReceiver = std::function<void(RequestEvent&&)>;

}  // namespace rocmforge
