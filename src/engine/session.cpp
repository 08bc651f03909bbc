#include "engine/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace rocmforge {
namespace {

// Passes are made no shorter than this to fit a budget.
constexpr uint32_t kLeastRows = 256;

}  // namespace

Result<Session> Session::create(const ExecutionPlan& plan, const SessionOptions& asked) {
  SessionOptions options = asked;
  if (options.n_context == 0) options.n_context = plan.n_context();
  if (options.n_context > plan.n_context()) {
    return Error{ErrorCode::invalid_argument, fmt::format("session: a context of {} tokens, the plan allows {}",
                                                          options.n_context, plan.n_context())};
  }
  const bool may_shrink = options.max_rows == 0;
  if (may_shrink) options.max_rows = plan.backend().rows_of_a_pass();
  options.max_rows = std::max(std::clamp(options.max_rows, 1u, options.n_context), plan.least_rows());
  for (;;) {
    options.max_outputs = std::clamp(options.max_outputs, 1u, options.max_rows);
    Session session(plan, options);
    const auto fits = plan.check_budget(session.memory());
    if (fits.ok()) return session;
    if (!may_shrink || options.max_rows <= std::max(kLeastRows, plan.least_rows())) return fits.error();
    options.max_rows /= 2;
  }
}

Session::Session(const ExecutionPlan& plan, const SessionOptions& options)
    : plan_(&plan),
      options_(options),
      pool_(std::make_unique<PagePool>(pages_for_tokens(options.n_context))),
      pages_(*pool_),
      outputs_(plan) {}

PassMemory Session::memory() const {
  return plan_->pass_memory(options_.max_rows, options_.max_outputs, pool_->n_pages(), options_.kv_type);
}

MemoryBill Session::memory_bill() const {
  return plan_->memory_bill(memory());
}

Result<StepOutputs*> Session::advance(std::span<const TokenId> tokens) {
  TRY(run_for_last(tokens));
  TRY(outputs_.wait());
  append(tokens);
  return &outputs_;
}

Result<std::span<const float>> Session::evaluate(std::span<const TokenId> tokens) {
  TRY(run_for_last(tokens));
  const std::span<const float> logits = TRY(outputs_.logits(0));
  append(tokens);
  return logits;
}

Result<std::span<const float>> Session::evaluate_all(std::span<const TokenId> tokens) {
  TRY(make_room(tokens.size()));
  const size_t n_vocab = plan_->spec().n_vocab;
  logits_.resize(tokens.size() * n_vocab);
  TRY(catch_up());
  for (size_t at = 0; at < tokens.size();) {
    const size_t n = std::min<size_t>(options_.max_outputs, tokens.size() - at);
    Batch batch;
    batch.add(tokens.subspan(at, n), n_past() + static_cast<uint32_t>(at), pages_.pages(), false);
    TRY(pass(batch));
    TRY(plan_->backend().read(std::span(logits_).subspan(at * n_vocab, n * n_vocab), plan_->logits()));
    at += n;
  }
  append(tokens);
  return std::span<const float>(logits_);
}

Result<void> Session::make_room(size_t n_tokens) {
  if (!plan_->has_logits()) return no_logits(*plan_);
  const uint64_t n_after = uint64_t{n_past()} + n_tokens;
  if (n_tokens == 0) return Error{ErrorCode::invalid_argument, "session: no tokens"};
  if (n_after > options_.n_context) {
    return Error{ErrorCode::limit_exceeded, fmt::format("session: {} tokens after {} do not fit the context of {}",
                                                        n_tokens, n_past(), options_.n_context)};
  }
  if (!is_reserved_) {
    TRY(plan_->backend().reserve(memory()));
    is_reserved_ = true;
  }
  return pages_.grow_to(n_after);
}

Result<void> Session::run_for_last(std::span<const TokenId> tokens) {
  TRY(make_room(tokens.size()));
  TRY(catch_up());
  for (size_t at = 0; at < tokens.size();) {
    const size_t n = std::min<size_t>(options_.max_rows, tokens.size() - at);
    Batch batch;
    batch.add(tokens.subspan(at, n), n_past() + static_cast<uint32_t>(at), pages_.pages());
    at += n;
    if (at < tokens.size()) batch.output_rows.clear();
    TRY(pass(batch));
  }
  return {};
}

Result<void> Session::pass(Batch& batch) {
  if (plan_->has_states()) {
    BatchSequence& sequence = batch.sequences.front();
    sequence.state_before = written_state_ ? written_state_ : state_;
    if (!written_state_) written_state_ = StateId(state_ ? 1 - state_->value : 0);
    sequence.state_after = written_state_;
  }
  TRY(check_batch(batch, plan_->spec().n_vocab, options_.n_context, options_.max_rows));
  outputs_.begin(batch.n_outputs(), batch.n_outputs());
  return forward(*plan_, batch,
                 {.prefetch_window = options_.prefetch_window, .after_stage = {}, .should_stop = options_.should_stop});
}

void Session::append(std::span<const TokenId> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (written_state_) state_ = std::exchange(written_state_, std::nullopt);
}

Result<void> Session::catch_up() {
  written_state_.reset();
  for (const uint32_t n = n_past(); n_behind_ > 0;) {
    const uint32_t first = n - n_behind_, n_now = std::min(n_behind_, options_.max_rows);
    Batch batch;
    batch.add(std::span(tokens_).subspan(first, n_now), first, pages_.pages());
    batch.output_rows.clear();
    TRY(pass(batch));
    append({});
    n_behind_ -= n_now;
  }
  return {};
}

void Session::rewind(uint32_t n_tokens) {
  if (n_tokens >= n_past()) return;
  tokens_.resize(n_tokens);
  pages_.shrink_to(n_past());
  state_.reset();
  n_behind_ = plan_->has_states() ? n_past() : 0;
}

}  // namespace rocmforge
