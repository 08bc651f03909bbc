#include "engine/live_request.h"

#include <fmt/core.h>

#include <algorithm>
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
                       .memory = {.breakers = SequenceBreakers({})},
                       .salt = std::move(request.cache_salt),
                       .max_tokens = max_tokens,
                       .ignore_end_of_text = request.ignore_end_of_text,
                       .stop_tokens = std::move(request.stop_tokens),
                       .min_tokens = request.min_tokens,
                       .n_prompt_logprobs = request.n_prompt_logprobs,
                       .may_be_stopped = !request.stop.empty(),
                       .tokenizer = &tokenizer,
                       .decoder = tokenizer::StreamDecoder(tokenizer, {.stop = request.stop,
                                                                       .show_special = request.ignore_end_of_text,
                                                                       .marked = std::move(request.marked_tokens)}),
                       .constraint = request.constraint
                                         ? std::make_unique<TokenConstraint>(*std::move(request.constraint))
                                         : nullptr}),
      submitted_(now) {
  usage_.n_prompt = static_cast<uint32_t>(tokens_.size());
  auto& generation = std::get<Generation>(kind_);
  generation.memory.breakers = SequenceBreakers(std::move(generation.sampling.dry.sequence_breakers));
}

LiveRequest::LiveRequest(RequestId id, EmbeddingRequest request, EventReceiver receiver, TimePoint now)
    : id_(id),
      client_(request.client),
      receiver_(std::move(receiver)),
      tokens_(std::move(request.tokens)),
      kind_(Embedding{.pooling = request.pooling, .normalise = request.normalise}),
      submitted_(now) {
  usage_.n_prompt = static_cast<uint32_t>(tokens_.size());
}

SequenceRequest LiveRequest::sequence(bool is_pooled) const {
  SequenceRequest sequence{.id = id_, .tokens = tokens_, .max_length = usage_.n_prompt};
  sequence.client = client_;
  if (const auto* generation = std::get_if<Generation>(&kind_)) {
    sequence.max_length += generation->max_tokens;
    sequence.salt = generation->salt;
    sequence.wants_all_outputs = generation->n_prompt_logprobs.has_value();
  } else {
    const Pooling pooling = std::get<Embedding>(kind_).pooling;
    sequence.wants_all_outputs = !is_pooled && (pooling == Pooling::mean || pooling == Pooling::first);
  }
  return sequence;
}

Pooling LiveRequest::pooling() const {
  const auto* embedding = std::get_if<Embedding>(&kind_);
  return embedding != nullptr ? embedding->pooling : Pooling::last;
}

bool LiveRequest::wants_nothing() const {
  const auto* generation = std::get_if<Generation>(&kind_);
  return generation != nullptr && generation->max_tokens == 0 && !generation->n_prompt_logprobs;
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
    auto& generation = std::get<Generation>(kind_);
    if (run.outputs == RunOutputs::last) return generate(generation, first_output, outputs, now);
    if (generation.n_prompt_logprobs) TRY(score_prompt(generation, run, first_output, outputs));
    if (!run.is_last_of_known) return RunResult{};
    return generate(generation, first_output + static_cast<uint32_t>(run.tokens.size()) - 1, outputs, now);
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
  if (generation.max_tokens == 0) {
    reason_ = FinishReason::length;
    return RunResult{.kind = RunResult::Kind::ended};
  }
  const SamplingOptions& sampling = generation.sampling;
  TokenConstraint* const constraint = generation.constraint.get();
  const TokenId token = TRY(choose(generation, row, outputs));
  if (usage_.n_generated++ == 0) {
    first_token_ = now;
    usage_.prefill_seconds = seconds(now - started_);
  }
  const RunResult ended{.kind = RunResult::Kind::ended};
  if (is_end(generation, token)) {
    reason_ = FinishReason::stop;
    return ended;
  }
  TokenEvent event{.token = token, .text = {}};
  if (sampling.want_logprobs) event.logprobs = TRY(outputs.logprobs(row, token, sampling.n_logprobs));
  CHECK(generation.unsent.empty());
  generation.unsent.push_back(std::move(event));
  generation.n_decoded = 0;
  bool is_stopped = generation.may_be_stopped && decode(generation);
  tokens_.push_back(token);
  RunResult result{.kind = RunResult::Kind::advanced, .token = token};
  if (constraint) {
    TRY(constraint->accept(token));
    is_stopped |= constraint->is_complete() || TRY(add_forced(generation, result, outputs));
  }
  if (is_stopped || usage_.n_generated == generation.max_tokens) {
    reason_ = is_stopped ? FinishReason::stop : FinishReason::length;
    return ended;
  }
  return result;
}

Result<bool> LiveRequest::add_forced(Generation& generation, RunResult& result, StepOutputs& outputs) {
  const uint32_t n_left = generation.max_tokens - usage_.n_generated;
  // The model says nothing of tokens that it is not asked for.
  if (n_left < 2 || generation.sampling.want_logprobs || generation.may_be_stopped) return false;
  TokenConstraint& constraint = *generation.constraint;
  result.forced = TRY(constraint.forced_tokens(*generation.tokenizer, tokens_, n_left - 1));
  for (const TokenId token : result.forced) {
    TRY(constraint.accept(token));
    tokens_.push_back(token);
    generation.unsent.push_back({.token = token, .text = {}});
    usage_.n_generated++;
  }
  outputs.count_forced(result.forced.size());
  return !result.forced.empty() && constraint.is_complete();
}

// A preempted request computes rows again whose tokens it has told.
Result<void> LiveRequest::score_prompt(Generation& generation, const SequenceRun& run, uint32_t first_output,
                                       StepOutputs& outputs) {
  std::vector<TokenLogprobs>& told = generation.prompt_logprobs;
  for (uint32_t i = 0; i < run.tokens.size(); i++) {
    const uint32_t next = run.first_position + i + 1;
    if (next >= usage_.n_prompt || next != told.size() + 1) continue;
    told.push_back(TRY(outputs.logprobs(first_output + i, tokens_[next], *generation.n_prompt_logprobs)));
  }
  return {};
}

History LiveRequest::history(Generation& generation) const {
  SamplerMemory& memory = generation.memory;
  if (generation.sampling.dry.multiplier != 0) {
    while (memory.breaks.size() < tokens_.size()) {
      const TokenId token = tokens_[memory.breaks.size()];
      const bool has_text = generation.tokenizer->contains(token);
      memory.breaks.push_back(memory.breakers.push(has_text ? generation.tokenizer->token_text(token) : ""));
    }
  }
  History history(tokens_);
  history.breaks = memory.breaks;
  history.mirostat_mu = memory.mirostat_mu;
  return history;
}

void LiveRequest::prepare(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs) {
  auto* generation = std::get_if<Generation>(&kind_);
  if (generation == nullptr || run.outputs != RunOutputs::last || generation->max_tokens == 0) return;
  generation->early = choose_early(*generation, first_output, outputs);
}

Result<std::optional<Choice>> LiveRequest::choose_early(Generation& generation, uint32_t row, StepOutputs& outputs) {
  TokenConstraint* const constraint = generation.constraint.get();
  if (constraint) TRY(constraint->begin_token(generation.max_tokens - usage_.n_generated));
  TokenLimits limits{.constraint = constraint};
  if (usage_.n_generated < generation.min_tokens) {
    limits.is_barred = [&generation](TokenId token) { return is_end(generation, token); };
  }
  const double unit = random_unit(generation.sampling.seed, usage_.n_generated);
  return outputs.choose_early(row, generation.sampling, history(generation), unit, limits);
}

Result<TokenId> LiveRequest::choose(Generation& generation, uint32_t row, StepOutputs& outputs) {
  auto early = std::exchange(generation.early, std::nullopt);
  if (!early) early = choose_early(generation, row, outputs);
  std::optional<Choice> choice = TRY(*std::move(early));
  if (!choice) {
    const double unit = random_unit(generation.sampling.seed, usage_.n_generated);
    choice = TRY(outputs.choose_allowed(row, generation.sampling, history(generation), unit));
  }
  generation.memory.mirostat_mu = choice->mirostat_mu;
  return choice->token;
}

bool LiveRequest::is_end(const Generation& generation, TokenId token) {
  const bool ends_text = generation.constraint || !generation.ignore_end_of_text;
  return (ends_text && generation.tokenizer->is_end_of_text(token)) ||
         std::ranges::find(generation.stop_tokens, token) != generation.stop_tokens.end();
}

bool LiveRequest::decode(Generation& generation) {
  bool is_stopped = false;
  for (; generation.n_decoded < generation.unsent.size(); generation.n_decoded++) {
    TokenEvent& event = generation.unsent[generation.n_decoded];
    // A vocabulary may be padded to a round size: such a token has no text.
    if (!generation.tokenizer->contains(event.token)) continue;
    auto output = generation.decoder.push(event.token);
    event.text = std::move(output.text);
    if (output.stopped) generation.stopped_by = static_cast<uint32_t>(*output.stopped);
    is_stopped |= output.stopped.has_value();
  }
  return is_stopped;
}

bool LiveRequest::has_unsent() const {
  const auto* generation = std::get_if<Generation>(&kind_);
  return generation != nullptr && !generation->unsent.empty();
}

void LiveRequest::deliver(bool more_follow) {
  if (!has_unsent()) return;
  auto& generation = std::get<Generation>(kind_);
  decode(generation);
  std::vector<TokenEvent> all = std::exchange(generation.unsent, {});
  for (TokenEvent& event : all) {
    event.more_follow = more_follow || &event != &all.back();
    send(std::move(event));
  }
}

Result<RunResult> LiveRequest::embed(Embedding& embedding, const SequenceRun& run, uint32_t first_output,
                                     StepOutputs& outputs) {
  const auto n_rows = run.outputs == RunOutputs::all ? static_cast<uint32_t>(run.tokens.size())
                                                     : uint32_t{run.outputs == RunOutputs::last};
  const bool wants_first = embedding.pooling == Pooling::first && run.outputs == RunOutputs::all;
  for (uint32_t i = 0; i < n_rows; i++) {
    if (wants_first && run.first_position + i > 0) break;
    const auto row =
        TRY(embedding.pooling == Pooling::rank ? outputs.scores(first_output + i) : outputs.hidden(first_output + i));
    embedding.sum.resize(row.size());
    for (size_t j = 0; j < row.size(); j++) embedding.sum[j] += row[j];
    embedding.n_summed++;
  }
  if (!run.is_last_of_known) return RunResult{};
  TRY(finish_embedding(embedding, outputs));
  reason_ = FinishReason::stop;
  return RunResult{.kind = RunResult::Kind::ended};
}

Result<void> LiveRequest::finish_embedding(const Embedding& embedding, StepOutputs& outputs) {
  double squares = 0;
  for (const double value : embedding.sum) squares += value * value;
  if (!std::isfinite(squares)) {
    return outputs.explained(
        Error{ErrorCode::model_not_finite, "engine: the embedding has a value that is not finite"});
  }
  // The mean and the sum have one direction.
  const bool normalises = embedding.normalise && embedding.pooling != Pooling::rank;
  const double scale = !normalises ? 1.0 / embedding.n_summed : squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (const double value : embedding.sum) embedding_.push_back(static_cast<float>(value * scale));
  return {};
}

void LiveRequest::finish(TimePoint now, FinishReason reason, std::optional<Error> error) {
  reason_ = reason;
  error_ = std::move(error);
  finish(now);
}

void LiveRequest::finish(TimePoint now) {
  deliver();
  FinishEvent event{.reason = reason_, .error = error_};
  if (auto* generation = std::get_if<Generation>(&kind_)) {
    event.text = generation->decoder.finish().text;
    if (reason_ == FinishReason::stop) event.stopped_by = generation->stopped_by;
    event.prompt_logprobs = std::move(generation->prompt_logprobs);
  }
  if (usage_.n_generated > 0) usage_.decode_seconds = seconds(now - first_token_);
  event.usage = usage_;
  event.embedding = std::move(embedding_);
  send(std::move(event));
}

}  // namespace rocmforge
