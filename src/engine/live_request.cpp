#include "engine/live_request.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "base/check.h"

namespace rocmforge {

LiveRequest::LiveRequest(RequestId id, GenerationRequest request, uint32_t max_tokens, EventReceiver receiver,
                         const tokenizer::Tokenizer& tokenizer, TimePoint now)
    : id_(id),
      client_(request.client),
      receiver_(std::move(receiver)),
      tokens_(std::move(request.prompt)),
      kind_(Generation{.sampling = std::move(request.sampling),
                       .salt = std::move(request.cache_salt),
                       .max_tokens = max_tokens,
                       .ignore_end_of_text = request.ignore_end_of_text,
                       .may_be_stopped = !request.stop.empty(),
                       .tokenizer = &tokenizer,
                       .decoder = tokenizer::StreamDecoder(tokenizer, {.stop = request.stop,
                                                                       .show_special = request.ignore_end_of_text,
                                                                       .marked = std::move(request.marked_tokens)}),
                       .constraint = request.constraint
                                         ? std::make_unique<TokenConstraint>(*std::move(request.constraint), tokenizer)
                                         : nullptr}),
      submitted_(now) {
  usage_.n_prompt = static_cast<uint32_t>(tokens_.size());
}

LiveRequest::LiveRequest(RequestId id, EmbeddingRequest request, EventReceiver receiver, TimePoint now)
    : id_(id),
      client_(request.client),
      receiver_(std::move(receiver)),
      tokens_(std::move(request.tokens)),
      kind_(Embedding{.pooling = request.pooling, .sum = {}}),
      submitted_(now) {
  usage_.n_prompt = static_cast<uint32_t>(tokens_.size());
}

SequenceRequest LiveRequest::sequence() const {
  SequenceRequest sequence{.id = id_, .tokens = tokens_, .max_length = usage_.n_prompt};
  sequence.client = client_;
  if (const auto* generation = std::get_if<Generation>(&kind_)) {
    sequence.max_length += generation->max_tokens;
    sequence.salt = generation->salt;
  } else {
    sequence.wants_all_outputs = std::get<Embedding>(kind_).pooling == Pooling::mean;
  }
  return sequence;
}

bool LiveRequest::wants_nothing() const {
  const auto* generation = std::get_if<Generation>(&kind_);
  return generation != nullptr && generation->max_tokens == 0;
}

void LiveRequest::start(TimePoint now, uint32_t n_cached) {
  started_ = now;
  usage_.queue_seconds = seconds(now - submitted_);
  usage_.n_cached = n_cached;
  send(StartEvent{.queue_seconds = usage_.queue_seconds, .n_cached = n_cached});
}

RunResult LiveRequest::advance(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs, TimePoint now) {
  auto result = [&]() -> Result<RunResult> {
    if (auto* embedding = std::get_if<Embedding>(&kind_)) return embed(*embedding, run, first_output, outputs);
    if (run.outputs == RunOutputs::none) return RunResult{};
    return generate(std::get<Generation>(kind_), first_output, outputs, now);
  }();
  if (result.ok()) return *result;
  fail(std::move(result).error());
  return {.kind = RunResult::Kind::failed};
}

void LiveRequest::fail(Error error) {
  reason_ = FinishReason::error;
  error_ = std::move(error);
}

Result<RunResult> LiveRequest::generate(Generation& generation, uint32_t row, StepOutputs& outputs, TimePoint now) {
  const SamplingOptions& sampling = generation.sampling;
  const double unit = random_unit(sampling.seed, usage_.n_generated);
  TokenConstraint* const constraint = generation.constraint.get();
  const TokenId token = TRY(constraint ? outputs.choose(row, sampling, tokens_, unit, *constraint)
                                       : outputs.choose(row, sampling, tokens_, unit));
  if (usage_.n_generated++ == 0) {
    first_token_ = now;
    usage_.prefill_seconds = seconds(now - started_);
  }
  const RunResult ended{.kind = RunResult::Kind::ended};
  if ((constraint || !generation.ignore_end_of_text) && generation.tokenizer->is_end_of_text(token)) {
    reason_ = FinishReason::stop;
    return ended;
  }
  TokenEvent event{.token = token, .text = {}};
  if (sampling.want_logprobs) event.logprobs = TRY(outputs.logprobs(row, token, sampling.n_logprobs));
  CHECK(!generation.unsent);
  generation.unsent = std::move(event);
  generation.has_text = false;
  bool is_stopped = generation.may_be_stopped && decode(generation);
  tokens_.push_back(token);
  if (constraint) {
    TRY(constraint->accept(token));
    is_stopped |= constraint->is_complete();
  }
  if (is_stopped || usage_.n_generated == generation.max_tokens) {
    reason_ = is_stopped ? FinishReason::stop : FinishReason::length;
    return ended;
  }
  return RunResult{.kind = RunResult::Kind::advanced, .token = token};
}

// The text of what is unsent; whether a stop string has ended it.
bool LiveRequest::decode(Generation& generation) {
  generation.has_text = true;
  // A vocabulary may be padded to a round size: such a token has no text.
  if (!generation.tokenizer->contains(generation.unsent->token)) return false;
  auto output = generation.decoder.push(generation.unsent->token);
  generation.unsent->text = std::move(output.text);
  return output.stopped.has_value();
}

bool LiveRequest::has_unsent() const {
  const auto* generation = std::get_if<Generation>(&kind_);
  return generation != nullptr && generation->unsent;
}

void LiveRequest::deliver(bool more_follow) {
  if (!has_unsent()) return;
  auto& generation = std::get<Generation>(kind_);
  if (!generation.has_text) decode(generation);
  generation.unsent->more_follow = more_follow;
  send(*std::exchange(generation.unsent, std::nullopt));
}

Result<RunResult> LiveRequest::embed(Embedding& embedding, const SequenceRun& run, uint32_t first_output,
                                     StepOutputs& outputs) {
  const auto n_rows = run.outputs == RunOutputs::all ? static_cast<uint32_t>(run.tokens.size())
                                                     : uint32_t{run.outputs == RunOutputs::last};
  for (uint32_t i = 0; i < n_rows; i++) {
    const auto row = TRY(outputs.hidden(first_output + i));
    embedding.sum.resize(row.size());
    for (size_t j = 0; j < row.size(); j++) embedding.sum[j] += row[j];
  }
  if (!run.is_last_of_known) return RunResult{};
  double squares = 0;
  for (const double value : embedding.sum) squares += value * value;
  if (!std::isfinite(squares)) {
    return outputs.explained(
        Error{ErrorCode::model_not_finite, "engine: the embedding has a value that is not finite"});
  }
  // The mean and the sum have one direction.
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (const double value : embedding.sum) embedding_.push_back(static_cast<float>(value * scale));
  reason_ = FinishReason::stop;
  return RunResult{.kind = RunResult::Kind::ended};
}

void LiveRequest::finish(TimePoint now, FinishReason reason, std::optional<Error> error) {
  reason_ = reason;
  error_ = std::move(error);
  finish(now);
}

void LiveRequest::finish(TimePoint now) {
  deliver();
  FinishEvent event{.reason = reason_, .error = error_};
  if (auto* generation = std::get_if<Generation>(&kind_)) event.text = generation->decoder.finish().text;
  if (usage_.n_generated > 0) usage_.decode_seconds = seconds(now - first_token_);
  event.usage = usage_;
  event.embedding = std::move(embedding_);
  send(std::move(event));
}

}  // namespace rocmforge
