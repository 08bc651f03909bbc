#pragma once
// A request from its acceptance to its end: what it has said so far, and the events it sends.
//
// Threads: made anywhere, then used by the engine's thread alone.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/dry.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/side_work.h"
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
  void set_id(RequestId id) { id_ = id; }
  ClientId client() const { return client_; }
  // The request as the scheduler sees it; called once. `is_pooled`: by the model, so that a text has one output.
  SequenceRequest sequence(bool is_pooled) const;
  // Of an embedding.
  Pooling pooling() const;
  uint32_t n_prompt() const { return usage_.n_prompt; }
  // Whether its outputs are logits: tokens are chosen by them, or log-probabilities told.
  bool wants_logits() const { return generation() != nullptr; }
  // What it was asked to generate is generated before it begins: nothing.
  bool wants_nothing() const;

  void start(TimePoint now, uint32_t n_cached);
  // A run of it has been computed; its outputs begin at this row. What it says now is sent by deliver().
  // model_not_finite and other errors end it: RunResult::Kind::failed, and error() says why.
  // Before it, of all requests of the step: prepare() begins the choice of a token under a constraint; the caller may
  // wait for that work (SideWork). collect() takes what was found: rows that need more than their candidates are then
  // read together. RunResult::Kind::waits: the choice is not made yet, and the same calls follow in a later step.
  void prepare(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs, SideWork& side_work);
  // Whether the choice is still being made.
  bool is_undecided() const;
  void collect(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs);
  RunResult advance(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs, SideWork& side_work,
                    TimePoint now);
  // Whether the token of the last advance() is still to be sent.
  bool has_unsent() const;
  // Sends it, if so. `more_follow`: see TokenEvent
  void deliver(bool more_follow = false);
  // The run could not be computed.
  void fail(Error error);
  // The run was not computed: nobody wants more.
  void cancel() { reason_ = FinishReason::cancelled; }
  // Delivers, and sends the last event: with what advance() or fail() left, or with what the caller says.
  void finish(TimePoint now);
  void finish(TimePoint now, FinishReason reason, std::optional<Error> error);

  const RequestUsage& usage() const { return usage_; }
  FinishReason reason() const { return reason_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  // What the sampler carries from token to token, beside the tokens themselves.
  struct SamplerMemory {
    SequenceBreakers breakers;
    std::vector<uint8_t> breaks = {};  // of each token so far; only where DRY asks for them
    std::optional<double> mirostat_mu = {};
  };
  // What follows a token under a constraint.
  struct Followed {
    std::vector<TokenId> forced = {};
    bool is_complete = false;
  };
  // The token to come. Under a constraint the parts are found beside the engine's thread: while a job runs they are its
  // own, with the constraint and the sampler's memory.
  struct NextToken {
    std::shared_ptr<const SideWork::Job> job = {};
    RowCandidates row = {};
    std::optional<Result<LimitedChoice>> found = {};
    std::optional<Result<std::optional<Choice>>> choice = {};  // nothing: the candidates cannot tell
    std::optional<Result<Followed>> followed = {};
  };
  struct Generation {
    SamplingOptions sampling;
    SamplerMemory memory;
    std::string salt;
    uint32_t max_tokens = 0;
    bool ignore_end_of_text = false;
    std::vector<TokenId> stop_tokens = {};
    uint32_t min_tokens = 0;
    std::optional<uint32_t> n_prompt_logprobs = {};
    std::vector<TokenLogprobs> prompt_logprobs = {};
    bool may_be_stopped = false;  // by a string: then the text is needed to know
    const tokenizer::Tokenizer* tokenizer = nullptr;
    tokenizer::StreamDecoder decoder;
    std::vector<TokenEvent> unsent = {};
    size_t n_decoded = 0;  // of them: they have their texts
    std::optional<uint32_t> stopped_by = {};
    std::unique_ptr<TokenConstraint> constraint = {};
    NextToken next = {};
    Duration spent{};  // by jobs
  };
  struct Embedding {
    Pooling pooling = Pooling::mean;
    bool normalise = true;
    std::vector<double> sum = {};  // of the rows that count
    uint32_t n_summed = 0;
  };

  Generation* generation() { return kind_.index() == 0 ? std::get<0>(kind_).get() : nullptr; }
  const Generation* generation() const { return kind_.index() == 0 ? std::get<0>(kind_).get() : nullptr; }
  // The row that the run's token is chosen by, if it has one.
  static std::optional<uint32_t> row_of_token(const SequenceRun& run, uint32_t first_output);
  Result<RunResult> generate(uint32_t row, StepOutputs& outputs, SideWork& side_work, TimePoint now);
  // The log-probabilities of the prompt's tokens behind those of the run.
  Result<void> score_prompt(Generation& generation, const SequenceRun& run, uint32_t first_output,
                            StepOutputs& outputs);
  // Nothing: it is not known yet.
  Result<std::optional<TokenId>> choose(uint32_t row, StepOutputs& outputs, SideWork& side_work);
  // Calls work(generation, tokens) of the request, which may end meanwhile.
  template <class Work>
  void begin_job(SideWork& side_work, Work work);
  static Result<LimitedChoice> find_choice(Generation& generation, std::span<const TokenId> tokens,
                                           uint32_t n_generated, uint32_t n_vocab);
  // Appends the token and what the constraint leaves no choice in.
  static Result<Followed> follow(Generation& generation, std::span<const TokenId> tokens, TokenId token,
                                 uint32_t n_generated);
  static History history(Generation& generation, std::span<const TokenId> tokens);
  // Whether the token ends the answer instead of being its next one.
  static bool is_end(const Generation& generation, TokenId token);
  // The texts of what is unsent; whether a stop string has ended it.
  static bool decode(Generation& generation);
  Result<RunResult> embed(Embedding& embedding, const SequenceRun& run, uint32_t first_output, StepOutputs& outputs);
  // The embedding is complete.
  Result<void> finish_embedding(const Embedding& embedding, StepOutputs& outputs);
  void send(RequestEvent&& event) { receiver_(std::move(event)); }

  RequestId id_;
  ClientId client_;
  EventReceiver receiver_;
  // The prompt and what was generated. Jobs hold tokens and generation, too.
  std::shared_ptr<std::vector<TokenId>> tokens_;
  std::variant<std::shared_ptr<Generation>, Embedding> kind_;
  std::vector<float> embedding_;
  RequestUsage usage_;
  TimePoint submitted_, started_{}, first_token_{};
  FinishReason reason_ = FinishReason::stop;
  std::optional<Error> error_;
};

}  // namespace rocmforge
