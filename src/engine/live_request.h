#pragma once
// A request from its acceptance to its end: what it has said so far, and the events it sends.
//
// Threads: made anywhere, then used by the engine's thread alone.

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/step_outputs.h"
#include "engine/token_constraint.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

class LiveRequest {
 public:
  // REQUIRES: the request was checked; the tokenizer outlives this
  LiveRequest(RequestId id, GenerationRequest request, uint32_t max_tokens, EventReceiver receiver,
              const tokenizer::Tokenizer& tokenizer, TimePoint now);
  LiveRequest(RequestId id, EmbeddingRequest request, EventReceiver receiver, TimePoint now);

  RequestId id() const { return id_; }
  ClientId client() const { return client_; }
  // The request as the scheduler sees it; called once.
  SequenceRequest sequence() const;
  uint32_t n_prompt() const { return usage_.n_prompt; }
  // What it was asked to generate is generated before it begins: nothing.
  bool wants_nothing() const;

  void start(TimePoint now, uint32_t n_cached);
  // A run of it has been computed; its outputs begin at this row. What it says now is sent by deliver().
  // model_not_finite and other errors end it: RunResult::Kind::failed, and error() says why.
  RunResult advance(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs, TimePoint now);
  // Whether the token of the last advance() is still to be sent.
  bool has_unsent() const;
  // Sends it, if so. `more_follow`: see TokenEvent
  void deliver(bool more_follow = false);
  // The run could not be computed.
  void fail(Error error);
  // Delivers, and sends the last event: with what advance() or fail() left, or with what the caller says.
  void finish(TimePoint now);
  void finish(TimePoint now, FinishReason reason, std::optional<Error> error);

  const RequestUsage& usage() const { return usage_; }
  FinishReason reason() const { return reason_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  struct Generation {
    SamplingOptions sampling;
    std::string salt;
    uint32_t max_tokens = 0;
    bool ignore_end_of_text = false;
    bool may_be_stopped = false;  // by a string: then the text is needed to know
    const tokenizer::Tokenizer* tokenizer = nullptr;
    tokenizer::StreamDecoder decoder;
    std::optional<TokenEvent> unsent = {};
    bool has_text = false;  // of what is unsent
    std::unique_ptr<TokenConstraint> constraint = {};
  };
  struct Embedding {
    Pooling pooling = Pooling::mean;
    std::vector<double> sum;
  };

  Result<RunResult> generate(Generation& generation, uint32_t row, StepOutputs& outputs, TimePoint now);
  static bool decode(Generation& generation);
  Result<RunResult> embed(Embedding& embedding, const SequenceRun& run, uint32_t first_output, StepOutputs& outputs);
  void send(RequestEvent&& event) { receiver_(std::move(event)); }

  RequestId id_;
  ClientId client_;
  EventReceiver receiver_;
  std::vector<TokenId> tokens_;  // the prompt and what was generated
  std::variant<Generation, Embedding> kind_;
  std::vector<float> embedding_;
  RequestUsage usage_;
  TimePoint submitted_, started_{}, first_token_{};
  FinishReason reason_ = FinishReason::stop;
  std::optional<Error> error_;
};

}  // namespace rocmforge
