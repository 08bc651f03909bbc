#include "engine/live_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace rocmforge {

LiveRequest::LiveRequest(RequestId id, GenerationRequest request, uint32_t max_tokens, EventReceiver receiver,
                         const tokenizer::Tokenizer& tokenizer, TimePoint now)
    : id_(id),
      client_(request.client),
      receiver_(std::move(receiver)),
      tokens_(std::make_shared<std::vector<TokenId>>(std::move(request.prompt))),
      kind_(std::make_shared<Generation>(Generation{
          .sampling = std::move(request.sampling),
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
          .constraint =
              request.constraint ? std::make_unique<TokenConstraint>(*std::move(request.constraint)) : nullptr})),
      submitted_(now) {
  usage_.n_prompt = static_cast<uint32_t>(tokens_->size());
  Generation& made = *generation();
  made.memory.breakers = SequenceBreakers(std::move(made.sampling.dry.sequence_breakers));
}

LiveRequest::LiveRequest(RequestId id, EmbeddingRequest request, EventReceiver receiver, TimePoint now)
    : id_(id),
      client_(request.client),
      receiver_(std::move(receiver)),
      tokens_(std::make_shared<std::vector<TokenId>>(std::move(request.tokens))),
      kind_(Embedding{.pooling = request.pooling, .normalise = request.normalise}),
      submitted_(now) {
  usage_.n_prompt = static_cast<uint32_t>(tokens_->size());
}

SequenceRequest LiveRequest::sequence(bool is_pooled) const {
  SequenceRequest sequence{.id = id_, .tokens = *tokens_, .max_length = usage_.n_prompt};
  sequence.client = client_;
  if (const Generation* own = generation()) {
    sequence.max_length += own->max_tokens;
    sequence.salt = own->salt;
    sequence.wants_all_outputs = own->n_prompt_logprobs.has_value();
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
  const Generation* own = generation();
  return own != nullptr && own->max_tokens == 0 && !own->n_prompt_logprobs;
}

void LiveRequest::start(TimePoint now, uint32_t n_cached) {
  started_ = now;
  usage_.queue_seconds = seconds(now - submitted_);
  usage_.n_cached = n_cached;
  send(StartEvent{.queue_seconds = usage_.queue_seconds, .n_cached = n_cached});
}

std::optional<uint32_t> LiveRequest::row_of_token(const SequenceRun& run, uint32_t first_output) {
  if (run.outputs == RunOutputs::none || !run.is_last_of_known) return {};
  return run.outputs == RunOutputs::last ? first_output : first_output + static_cast<uint32_t>(run.tokens.size()) - 1;
}

RunResult LiveRequest::advance(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs, SideWork& side_work,
                               TimePoint now) {
  auto result = [&]() -> Result<RunResult> {
    if (auto* embedding = std::get_if<Embedding>(&kind_)) return embed(*embedding, run, first_output, outputs);
    Generation& own = *generation();
    if (run.outputs == RunOutputs::all && own.n_prompt_logprobs) TRY(score_prompt(own, run, first_output, outputs));
    const auto row = row_of_token(run, first_output);
    return row ? generate(*row, outputs, side_work, now) : RunResult{};
  }();
  if (result.ok()) return *result;
  fail(std::move(result).error());
  return {.kind = RunResult::Kind::failed};
}

void LiveRequest::fail(Error error) {
  reason_ = FinishReason::error;
  error_ = std::move(error);
}

Result<RunResult> LiveRequest::generate(uint32_t row, StepOutputs& outputs, SideWork& side_work, TimePoint now) {
  Generation& own = *generation();
  if (own.max_tokens == 0) {
    reason_ = FinishReason::length;
    return RunResult{.kind = RunResult::Kind::ended};
  }
  const SamplingOptions& sampling = own.sampling;
  const std::optional<TokenId> chosen = TRY(choose(row, outputs, side_work));
  if (!chosen) return RunResult{.kind = RunResult::Kind::waits};
  const TokenId token = *chosen;
  const NextToken next = std::exchange(own.next, {});
  if (next.job) own.spent += next.job->took;
  if (usage_.n_generated++ == 0) {
    first_token_ = now;
    usage_.prefill_seconds = seconds(now - started_);
  }
  const RunResult ended{.kind = RunResult::Kind::ended};
  if (is_end(own, token)) {
    reason_ = FinishReason::stop;
    return ended;
  }
  TokenEvent event{.token = token, .text = {}};
  if (sampling.want_logprobs) event.logprobs = TRY(outputs.logprobs(row, token, sampling.n_logprobs));
  CHECK(own.unsent.empty());
  own.unsent.push_back(std::move(event));
  own.n_decoded = 0;
  bool is_stopped = own.may_be_stopped && decode(own);
  tokens_->push_back(token);
  RunResult result{.kind = RunResult::Kind::advanced, .token = token};
  if (next.followed) {
    const Followed& followed = **next.followed;
    result.forced = followed.forced;
    for (const TokenId forced : result.forced) {
      tokens_->push_back(forced);
      own.unsent.push_back({.token = forced, .text = {}});
      usage_.n_generated++;
    }
    outputs.count_forced(result.forced.size());
    is_stopped |= followed.is_complete;
  }
  if (is_stopped || usage_.n_generated == own.max_tokens) {
    reason_ = is_stopped ? FinishReason::stop : FinishReason::length;
    return ended;
  }
  return result;
}

// The model says nothing of tokens that it is not asked for.
Result<LiveRequest::Followed> LiveRequest::follow(Generation& generation, std::span<const TokenId> tokens,
                                                  TokenId token, uint32_t n_generated) {
  constexpr size_t kBefore = 16;  // more than any tokens that are looked at
  TokenConstraint& constraint = *generation.constraint;
  TRY(constraint.accept(token));
  Followed out{.is_complete = constraint.is_complete()};
  const uint32_t n_left = generation.max_tokens - n_generated;
  if (out.is_complete || n_left < 2 || generation.sampling.want_logprobs || generation.may_be_stopped) return out;
  const auto last = tokens.last(std::min(kBefore, tokens.size()));
  std::vector<TokenId> before(last.begin(), last.end());
  before.push_back(token);
  out.forced = TRY(constraint.forced_tokens(*generation.tokenizer, before, n_left - 1));
  for (const TokenId forced : out.forced) TRY(constraint.accept(forced));
  out.is_complete = !out.forced.empty() && constraint.is_complete();
  return out;
}

// A preempted request computes rows again whose tokens it has told.
Result<void> LiveRequest::score_prompt(Generation& generation, const SequenceRun& run, uint32_t first_output,
                                       StepOutputs& outputs) {
  std::vector<TokenLogprobs>& told = generation.prompt_logprobs;
  for (uint32_t i = 0; i < run.tokens.size(); i++) {
    const uint32_t next = run.first_position + i + 1;
    if (next >= usage_.n_prompt || next != told.size() + 1) continue;
    told.push_back(TRY(outputs.logprobs(first_output + i, (*tokens_)[next], *generation.n_prompt_logprobs)));
  }
  return {};
}

History LiveRequest::history(Generation& generation, std::span<const TokenId> tokens) {
  SamplerMemory& memory = generation.memory;
  if (generation.sampling.dry.multiplier != 0) {
    while (memory.breaks.size() < tokens.size()) {
      const TokenId token = tokens[memory.breaks.size()];
      const bool has_text = generation.tokenizer->contains(token);
      memory.breaks.push_back(memory.breakers.push(has_text ? generation.tokenizer->token_text(token) : ""));
    }
  }
  History history(tokens);
  history.breaks = memory.breaks;
  history.mirostat_mu = memory.mirostat_mu;
  return history;
}

Result<LimitedChoice> LiveRequest::find_choice(Generation& generation, std::span<const TokenId> tokens,
                                               uint32_t n_generated, uint32_t n_vocab) {
  TRY(generation.constraint->begin_token(generation.max_tokens - n_generated));
  TokenLimits limits{.constraint = generation.constraint.get()};
  if (n_generated < generation.min_tokens) {
    limits.is_barred = [&generation](TokenId token) { return is_end(generation, token); };
  }
  const double unit = random_unit(generation.sampling.seed, n_generated);
  return choose_among(generation.next.row, generation.sampling, history(generation, tokens), n_vocab, unit, limits);
}

template <class Work>
void LiveRequest::begin_job(SideWork& side_work, Work work) {
  const auto& own = std::get<0>(kind_);
  if (own->next.job) own->spent += own->next.job->took;
  const auto job = [own, tokens = tokens_, work] {
    if (own.use_count() == 1) return;  // the request has ended
    try {
      work(*own, std::span<const TokenId>(*tokens));
    } catch (const std::exception& exception) {
      own->next.found = error_of(exception);
      own->next.followed = error_of(exception);
    }
  };
  own->next.job = side_work.begin(job, own->spent);
}

void LiveRequest::prepare(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs, SideWork& side_work) {
  Generation* const own = generation();
  const auto row = row_of_token(run, first_output);
  if (own == nullptr || !row || own->max_tokens == 0 || own->next.job) return;
  if (!own->constraint) {
    if (own->next.choice) return;
    TokenLimits limits;
    if (usage_.n_generated < own->min_tokens) {
      limits.is_barred = [own](TokenId token) { return is_end(*own, token); };
    }
    const double unit = random_unit(own->sampling.seed, usage_.n_generated);
    own->next.choice = outputs.choose_early(*row, own->sampling, history(*own, *tokens_), unit, limits);
    return;
  }
  const auto candidates = outputs.candidates(*row);
  if (!candidates.ok()) {
    own->next.found = candidates.error();
    return;
  }
  own->next.row = **candidates;
  begin_job(side_work, [n_generated = usage_.n_generated, n_vocab = outputs.n_vocab()](
                           Generation& its, std::span<const TokenId> tokens) {
    its.next.found = find_choice(its, tokens, n_generated, n_vocab);
    const LimitedChoice* const found = its.next.found->ok() ? &**its.next.found : nullptr;
    if (found == nullptr || !found->choice || is_end(its, found->choice->token)) return;
    its.next.followed = follow(its, tokens, found->choice->token, n_generated + 1);
  });
}

bool LiveRequest::is_undecided() const {
  const Generation* const own = generation();
  return own != nullptr && own->next.job && !own->next.job->is_done;
}

void LiveRequest::collect(const SequenceRun& run, uint32_t first_output, StepOutputs& outputs) {
  Generation* const own = generation();
  const auto row = row_of_token(run, first_output);
  if (own == nullptr || !row || is_undecided() || !own->next.found) return;
  auto found = *std::exchange(own->next.found, std::nullopt);
  if (!found.ok()) {
    own->next.choice = outputs.explained(std::move(found).error());
    return;
  }
  const double unit = random_unit(own->sampling.seed, usage_.n_generated);
  own->next.choice = outputs.settle(*row, *std::move(found), own->sampling, history(*own, *tokens_), unit);
}

Result<std::optional<TokenId>> LiveRequest::choose(uint32_t row, StepOutputs& outputs, SideWork& side_work) {
  Generation& own = *generation();
  // A job may have ended since collect().
  if (is_undecided() || !own.next.choice) return std::optional<TokenId>();
  if (!own.next.choice->ok()) return own.next.choice->error();
  std::optional<Choice>& choice = **own.next.choice;
  if (!choice) {
    const double unit = random_unit(own.sampling.seed, usage_.n_generated);
    choice = TRY(outputs.choose_allowed(row, own.sampling, history(own, *tokens_), unit));
  }
  const TokenId token = choice->token;
  if (own.constraint && !own.next.followed && !is_end(own, token)) {
    begin_job(side_work, [token, n = usage_.n_generated + 1](Generation& its, std::span<const TokenId> tokens) {
      its.next.followed = follow(its, tokens, token, n);
    });
    side_work.wait();
    if (is_undecided()) return std::optional<TokenId>();
  }
  if (own.next.followed && !own.next.followed->ok()) return own.next.followed->error();
  own.memory.mirostat_mu = choice->mirostat_mu;
  return std::optional(token);
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
  const Generation* const own = generation();
  return own != nullptr && !own->unsent.empty();
}

void LiveRequest::deliver(bool more_follow) {
  if (!has_unsent()) return;
  decode(*generation());
  std::vector<TokenEvent> all = std::exchange(generation()->unsent, {});
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
  if (Generation* const own = generation()) {
    event.text = own->decoder.finish().text;
    if (reason_ == FinishReason::stop) event.stopped_by = own->stopped_by;
    event.prompt_logprobs = std::move(own->prompt_logprobs);
  }
  if (usage_.n_generated > 0) usage_.decode_seconds = seconds(now - first_token_);
  event.usage = usage_;
  event.embedding = std::move(embedding_);
  send(std::move(event));
}

}  // namespace rocmforge
